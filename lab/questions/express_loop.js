// service: node web 8195 node express_loop.js
//
// question: synchronous
// cause: a request waits for the event loop while another one's JSON takes it
// send: 0 /report, 100 /ping
// twin: 0 /report?free=1, 100 /ping
// size: 300 ms
// who: GET /report
// short: its data had waited
//
// question: regular-expression
// cause: a request waits for the event loop while another one's regular expression backtracks
// send: 0 /backtrack, 30 /ping
// twin: 0 /backtrack?free=1, 30 /ping
// size: beyond 5 ms
// who: GET /backtrack
// short: its data had waited
//
// question: own-timer
// cause: a request awaits its own 300 ms timer
// send: 0 /await, 100 /ping
// asked: /await
// size: 300 ms
// says: timer
// never: GET /ping
//
// question: timer-then-synchronous
// cause: a request's own 300 ms timer, then another request's work in the loop for 200 ms
// send: 0 /await, 100 /report
// asked: /await
// twin: 0 /await, 100 /report?free=1
// size: 200 ms
// who: GET /report
//
// question: timer-beside-backtracking
// cause: a request's own 300 ms timer; another request's work ended before it
// send: 0 /await, 100 /brief
// asked: /await
// size: 300 ms
// says: timer
// never: GET /brief
//
// question: jobs
// cause: a request computes in libuv's pool
// send: 0 /hash?jobs=1
// size: body
// says: running
//
// question: full-pool
// cause: a request's file waits for a free thread in libuv's pool, behind another request's jobs
// send: 0 /hash, 50 /file
// twin: 0 /hash?free=1, 10 /file
// size: body
// who: GET /hash
//
// question: promise-lock
// cause: a request waits for a promises' lock, held by another request over a timer
// send: 0 /hold, 100 /item
// twin: 0 /hold?free=1, 100 /item
// size: body
// who: GET /hold
const crypto = require('crypto');
const fs = require('fs');
const express = require('express');
const app = express();
const since = began => (performance.now() - began).toFixed(1);
const sleep = ms => new Promise(done => setTimeout(done, ms));
let last = Promise.resolve();

app.get('/ping', (request, response) => { setTimeout(() => response.send('5'), 5); });
app.get('/await', async (request, response) => { await sleep(300); response.send('300'); });

function synchronous(ms) {
  const end = performance.now() + ms;
  const rows = { list: Array.from({ length: 500 }, (_, index) => ({ index })) };
  let length = 0;
  while (performance.now() < end) length += JSON.stringify(rows).length;
  return length;
}
app.get('/report', async (request, response) => {
  if (request.query.free) await sleep(400); else synchronous(400);
  response.send('400');
});
app.get('/brief', (request, response) => { synchronous(100); response.send('100'); });
app.get('/backtrack', async (request, response) => {
  const began = performance.now();
  if (request.query.free) await sleep(300); else /^(a+)+$/.test('a'.repeat(25) + 'b');
  response.send(since(began));
});

app.get('/hash', (request, response) => {
  const began = performance.now();
  const count = +(request.query.jobs || (request.query.free ? 2 : 8));
  let left = count;
  for (let job = 0; job < count; job++) {
    crypto.pbkdf2('x', 'y', 100000, 64, 'sha512', () => { if (--left === 0) response.send(since(began)); });
  }
});
app.get('/file', (request, response) => {
  const began = performance.now();
  fs.readFile(__filename, () => response.send(since(began)));
});

app.get('/hold', async (request, response) => {
  const held = sleep(400);
  if (!request.query.free) last = last.then(() => held);
  await held;
  response.send('400');
});
app.get('/item', async (request, response) => {
  const began = performance.now();
  await last;
  response.send(since(began));
});
app.listen(8195, '127.0.0.1');
