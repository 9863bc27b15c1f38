// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Prints the process's CPU time per span or callback, ns: the median of 15 runs. Run it with the plug-in and without, in turn:
//
//     node cost.js; node --require ../wakepath-context.js cost.js

const { context, trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const COUNT = 20000;
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

async function main() {
  const span = tracer.startSpan('x');
  const within = (load) => () => context.with(trace.setSpan(context.active(), span), load);
  const loads = { spans, awaits, 'awaits in a span': within(awaits), immediates, 'immediates in a span': within(immediates), turns };
  for (const [name, load] of Object.entries(loads)) {
    const times = [];
    for (let run = 0; run < 15; run += 1) {
      const began = process.cpuUsage();
      await load();
      const { user, system } = process.cpuUsage(began);
      times.push(((user + system) * 1000) / COUNT);
    }
    times.sort((one, other) => one - other);
    console.log(`${name}: ${times[7].toFixed(0)}`);
  }
}

main();
