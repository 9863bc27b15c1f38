// service: node web 8199 node chain_express.js
// service: python shop 8194 gunicorn -w 1 -k gthread --threads 8 -b 127.0.0.1:8194 flask_threads:app
// service: postgres 5499
//
// question: row-lock
// cause: Node asks gunicorn, which waits for a database's row, locked by another request's transaction
// send: 0 /order/paid, 100 /order/quick
// twin: 0 /order/paid?free=1, 100 /order/quick
// size: body
// who: GET /order/paid
//
// question: connection-pool
// cause: Node asks gunicorn, which waits for a pool's only connection
// send: 0 /report, 100 /stock
// twin: 0 /report?free=1, 100 /stock
// size: body
// who: GET /report
//
// question: slow-query
// cause: Node asks gunicorn, whose query is slow
// send: 0 /report
// size: 450 ms
// who: postgres
//
// question: other-timer
// cause: Node's own timer after a quick answer
// send: 0 /item-later, 100 /report
// asked: /item-later
// twin: 0 /item-later?ms=1, 100 /report
// size: 300 ms
// says: timer
// never: GET /report
const express = require('express');
const app = express();

async function ask(path) {
  const answer = await fetch(`http://127.0.0.1:8194${path}`);
  return answer.text();
}
for (const path of ['/order/paid', '/order/quick', '/report', '/stock']) {
  app.get(path, async (request, response) => response.send(await ask(request.originalUrl)));
}
app.get('/item-later', async (request, response) => {
  await ask('/item');
  await new Promise(done => setTimeout(done, +(request.query.ms || 300)));
  response.send('300');
});
app.listen(8199, '127.0.0.1');
