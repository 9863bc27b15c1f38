// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Requests in tasks of Node's event loop, with a log of the request that the thread worked for.
//
//     joins.js FOLDER
//
//     task      four requests at once are tasks in an event loop, each in turns between sleeps
//     turn      the same, with a span for each turn
//     worker    the same as `task`, in the event loop of a worker thread
//
// FOLDER/log has a line `TID FROM SHOWN LEAVES LEFT TRACE` for each stretch of work, by the monotonic clock, ns: the thread takes the
// request up between FROM and SHOWN, and leaves it between LEAVES and LEFT. FOLDER/spans.json has the spans in OTLP. The turn of a task begins at its
// first statement behind an `await`, or somewhere between that and the last thing that is known of the thread.

const { writeFileSync, readlinkSync } = require('fs');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { ROOT_CONTEXT, SpanKind, context, trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const MS = 1000000n;
const now = () => process.hrtime.bigint();
const tid = readlinkSync('/proc/thread-self').split('/').pop();
const lines = [];
const spans = [];

// The work in a turn, ns, and the sleep behind it, ms: less in the warm-up.
let work;
let pause;

new NodeTracerProvider({
  spanProcessors: [{ onStart() {}, onEnd: (span) => spans.push(span), forceFlush: async () => {}, shutdown: async () => {} }],
}).register();
const tracer = trace.getTracer('joins');

function busy(ns) {
  const end = now() + ns;
  while (now() < end);
}

// The last thing that is known of the thread of the loop, and the turn whose end is not.
let last = 0n;
let open;

function mark(moment) {
  if (open) {
    lines.push(`${tid} ${open.begun} ${open.shown} ${open.leaves} ${moment} ${open.trace}`);
    open = undefined;
  }
  last = moment;
}

// Callbacks that are made outside of all requests: the loop works for none as it wakes, and none before it sleeps.
const outside = (make) => context.with(ROOT_CONTEXT, make);

function sleep(ms) {
  return new Promise((done) => {
    setTimeout(() => {
      done();
      mark(now());
    }, ms);
  });
}

async function task(name) {
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER });
  mark(now());
  let begun = last;
  await context.with(trace.setSpan(context.active(), span), async () => {
    for (let number = 0; number < 3; number += 1) {
      const shown = now();
      mark(shown);
      if (name.endsWith('turn')) {
        tracer.startActiveSpan('one turn', (turn) => {
          busy(work);
          turn.end();
        });
      } else {
        busy(work);
      }
      const leaves = now();
      const slept = outside(() => {
        // It runs as soon as the task waits, before all other callbacks.
        queueMicrotask(() => mark(now()));
        return number < 2 ? sleep(pause) : undefined;
      });
      open = { begun, shown, leaves, trace: span.spanContext().traceId };
      last = leaves;
      if (slept) {
        await slept;
        begun = last;
      }
    }
    span.end();
  });
}

async function tasks(name, rounds = 10) {
  for (let round = 0; round < rounds; round += 1) {
    last = now();
    await Promise.all([1, 2, 3, 4].map(() => task(name)));
    await new Promise((done) => outside(() => setImmediate(done)));
  }
}

// Code that is not compiled yet is slow, and with it the log.
async function warmUp() {
  [work, pause] = [MS / 20n, 1];
  for (const name of ['first', 'first turn']) await tasks(name, 100);
  [work, pause] = [5n * MS, 10];
}

const ns = ([seconds, ns]) => String(BigInt(seconds) * 1000000000n + BigInt(ns));

function attribute(key, value) {
  return { key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: String(value) } };
}

function written(span) {
  const { traceId, spanId } = span.spanContext();
  return {
    traceId,
    spanId,
    parentSpanId: span.parentSpanContext?.spanId,
    name: span.name,
    kind: span.kind + 1,
    startTimeUnixNano: ns(span.startTime),
    endTimeUnixNano: ns(span.endTime),
    attributes: Object.entries(span.attributes).map(([key, value]) => attribute(key, value)),
  };
}

async function main() {
  if (!isMainThread) {
    await warmUp();
    await tasks('worker');
    parentPort.postMessage({ lines, spans: spans.map(written) });
    return;
  }
  await new Promise((done) => setTimeout(done, 200));
  await warmUp();
  await tasks('task');
  await tasks('turn');
  const made = spans.map(written);
  const worker = new Worker(__filename);
  worker.on('message', (message) => {
    lines.push(...message.lines);
    made.push(...message.spans);
  });
  await new Promise((done) => worker.on('exit', done));
  await new Promise((done) => setTimeout(done, 50));
  const folder = process.argv[2];
  const resource = { attributes: [attribute('service.name', 'joins'), attribute('process.pid', process.pid)] };
  writeFileSync(`${folder}/log`, lines.map((line) => `${line}\n`).join(''));
  writeFileSync(`${folder}/spans.json`, JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ spans: made }] }] }));
}

main();
