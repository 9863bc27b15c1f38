// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// A span that ends before its function does, within another span: prints both spans' numbers of turns, and whether their last
// turns are long enough.

const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const { trace } = require('@opentelemetry/api');

const spans = {};
const kept = { onStart() {}, onEnd: (span) => (spans[span.name] = span), forceFlush: async () => {}, shutdown: async () => {} };
new NodeTracerProvider({ spanProcessors: [kept] }).register();
const tracer = trace.getTracer('ended');

function busy(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

function turns(name, ms) {
  const numbers = spans[name].attributes['wakepath.turns'].slice(0, -1).split(' ').slice(1).map(Number);
  return `${name} ${numbers.length / 2} ${numbers.pop() >= ms * 1e6}`;
}

// Uncompiled code is slow.
for (let round = 0; round < 3; round += 1) {
  tracer.startActiveSpan('outer', (outer) => {
    busy(20);
    tracer.startActiveSpan('inner', (inner) => {
      busy(30);
      inner.end();
      busy(40);
    });
    busy(20);
    outer.end();
    busy(10);
  });
}
process.stdout.write(`${turns('outer', 60)}\n${turns('inner', 30)}\n`);
