// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Prints the process's CPU time per span, callback or request, ns: the median of 15 runs, and the least. Run it with the plug-in
// and without, in turn; the loads named, or all:
//
//     node cost.js; node --require ../wakepath-context.js cost.js; WAKEPATH_READY=all node --require ../wakepath-context.js cost.js

const { context, trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const { stat } = require('fs/promises');
const http = require('http');

const COUNT = 20000;
const REQUESTS = 1000;
new NodeTracerProvider().register();
const tracer = trace.getTracer('cost');

async function spans() {
  for (let left = COUNT; left; left -= 1) tracer.startSpan('x').end();
}

async function awaits() {
  for (let left = COUNT; left; left -= 1) await undefined;
}

function immediates() {
  return new Promise((done) => {
    let left = COUNT;
    const again = () => {
      left -= 1;
      if (left) setImmediate(again);
      else done();
    };
    setImmediate(again);
  });
}

// Two requests whose callbacks take turns.
async function turns() {
  const one = (span) => context.with(trace.setSpan(context.active(), span), awaits);
  await Promise.all([one(tracer.startSpan('a')), one(tracer.startSpan('b'))]);
}

// By eight clients in this process, with lasting connections. Each has an immediate, a job of the pool, and ten awaits in a
// span within its own.
async function handle(response) {
  await new Promise((done) => setImmediate(done));
  await stat(__filename);
  await tracer.startActiveSpan('inner', async (span) => {
    for (let left = 10; left; left -= 1) await undefined;
    span.end();
  });
  response.end('{}');
}

let port;
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });

async function requests() {
  if (!port) {
    const answer = (_, response) =>
      tracer.startActiveSpan('request', (span) => {
        response.on('finish', () => span.end());
        handle(response);
      });
    const server = http.createServer(answer);
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    ({ port } = server.address());
    server.unref();
  }
  let left = REQUESTS;
  const one = () => new Promise((done) => http.get({ port, agent }, (response) => response.resume().on('end', done)));
  const client = async () => {
    for (left -= 1; left >= 0; left -= 1) await one();
  };
  await Promise.all(Array.from({ length: 8 }, client));
}

async function main() {
  const span = tracer.startSpan('x');
  const within = (load) => () => context.with(trace.setSpan(context.active(), span), load);
  const loads = { spans, awaits, 'awaits in a span': within(awaits), immediates, 'immediates in a span': within(immediates), turns, requests };
  const named = process.argv.slice(2);
  for (const [name, load] of Object.entries(loads)) {
    if (named.length && !named.includes(name)) continue;
    const times = [];
    for (let run = 0; run < 15; run += 1) {
      const began = process.cpuUsage();
      await load();
      const { user, system } = process.cpuUsage(began);
      times.push(((user + system) * 1000) / (load === requests ? REQUESTS : COUNT));
    }
    times.sort((one, other) => one - other);
    console.log(`${name}: ${times[7].toFixed(0)} ${times[0].toFixed(0)}`);
  }
  agent.destroy();
}

main();
