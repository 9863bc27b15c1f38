// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// A server whose event loop serves eight identical requests, one after the other, beside a ticker and other clients: `wait` waits for its
// own timer of 200 ms. Meanwhile a timer ticks each 10 ms, other clients get `ping`, and with an argument `busy` also `crunch`, which
// computes for 60 ms from 170 ms on: then `wait` is blocked by it for some 30 ms. `hash` waits for a job of the pool. Prints the
// program's own clock: for each request a line NAME FROM TO TURNED LEFT, in ns: its
// work, and the loop's use with its span's own time.

const { pbkdf2 } = require('crypto');
const http = require('http');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http');
const { NodeTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const { trace, context, SpanKind } = require('@opentelemetry/api');

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();
const tracer = trace.getTracer('server');
const busy = process.argv.includes('busy');
const sleep = (ms) => new Promise((then) => setTimeout(then, ms));

async function work(name) {
  if (name === 'wait') await sleep(200);
  else if (name === 'ping') await sleep(3);
  else if (name === 'hash') await new Promise((then) => pbkdf2('x', 'y', 150000, 64, 'sha512', then));
  else if (name === 'crunch') for (const until = performance.now() + 60; performance.now() < until; );
}

const server = http.createServer((request, response) => {
  const name = request.url.slice(1);
  const turned = performance.now();
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER });
  const began = performance.now();
  context.with(trace.setSpan(context.active(), span), async () => {
    await work(name);
    const ended = performance.now();
    span.end();
    console.log(name, ...[began, ended, turned, performance.now()].map((ms) => Math.round(ms * 1e6)));
    response.end('done\n');
  });
});

const ask = (name) =>
  new Promise((then) => {
    const { port } = server.address();
    http.get({ port, path: `/${name}`, agent: false }, (response) => response.resume().on('end', then));
  });

server.listen(0, '127.0.0.1', async () => {
  const ticker = setInterval(() => {}, 10);
  let isOver = false;
  const pinging = (async () => {
    while (!isOver) {
      await sleep(23);
      await ask('ping');
    }
  })();
  for (let number = 0; number < 8; number += 1) {
    const beside = busy ? sleep(170).then(() => ask('crunch')) : undefined;
    await ask('wait');
    await beside;
  }
  for (let number = 0; number < 6; number += 1) await ask('hash');
  isOver = true;
  await pinging;
  clearInterval(ticker);
  server.close();
  await provider.shutdown();
});
