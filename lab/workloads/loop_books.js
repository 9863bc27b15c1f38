// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// A service with one event loop, under OpenTelemetry, and its books: what each request waited for, by the program's own clock.
//
// Four clients ask for requests of these kinds, each with a random size:
//
//   timer   its own timer
//   crunch  computes, and keeps the loop from the others
//   lock    holds a lock, made of promises, over a timer
//   call    calls another service, a process with an event loop of its own, which waits for its own timer
//   ping    a short timer
//
// Each request is its own twin: where a cause had no part in it, the answer must not name it. The books have a request's own timers, and the
// requests that blocked it: by the lock, and by their use of the loop from the time on at which the request was ready. A wait for a request that
// was itself blocked is a wait for the last one.
//
// Usage: loop_books.js --each REQUESTS --truth FILE

const { spawn } = require('child_process');
const { writeFileSync } = require('fs');
const net = require('net');
const { parseArgs } = require('util');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { NodeTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const { context, propagation, trace, SpanKind } = require('@opentelemetry/api');

const { values: options } = parseArgs({
  options: { each: { type: 'string', default: '40' }, truth: { type: 'string' }, ask: { type: 'string' }, answer: { type: 'boolean' } },
});
const shares = { timer: 4, crunch: 2, lock: 3, call: 3, ping: 3 };
const KINDS = Object.entries(shares).flatMap(([kind, share]) => Array(share).fill(kind));
const CLIENTS = 4;
const now = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((then) => setTimeout(then, ms));

// A request's books: intervals { from, to, kind } without overlap.
class Request {
  constructor(kind, traceId) {
    Object.assign(this, { kind, traceId, intervals: [], began: now(), resumed: now(), ended: 0 });
  }

  add(from, to, kind) {
    if (from < to) this.intervals.push({ from, to, kind });
  }
}

const requests = [];
// The loop's runs: { from, to, request }.
const runs = [];
// The turns at the lock. A turn begins as the request before leaves it.
const turns = [];

function runsUntilHere(request) {
  const at = now();
  runs.push({ from: request.resumed, to: at, request });
  return at;
}

function goesOn(request, ready) {
  request.resumed = now();
  request.add(ready, request.resumed, 'ready');
}

async function pause(request, ms) {
  const from = runsUntilHere(request);
  await sleep(ms);
  const due = Math.min(from + ms * 1e6, now());
  request.add(from, due, 'timer');
  goesOn(request, due);
}

const waiting = [];
let isLocked = false;

function acquire() {
  if (isLocked) return new Promise((then) => waiting.push(then));
  isLocked = true;
  return Promise.resolve();
}

function release() {
  if (waiting.length) waiting.shift()();
  else isLocked = false;
}

async function withLock(request, ms) {
  const from = runsUntilHere(request);
  await acquire();
  const got = now();
  request.resumed = got;
  request.add(from, got, 'lock');
  await pause(request, ms);
  turns.push({ from: got, to: now(), request });
  release();
}

function crunch(ms) {
  for (const until = now() + ms * 1e6; now() < until; );
}

// Sends a line, and returns the answered line.
const asked = (port, line) =>
  new Promise((then) => {
    let answer = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.write(line));
    socket.on('data', (data) => (answer += data)).on('end', () => then(answer));
  });

async function call(request, ms, port) {
  const span = trace.getTracer('books').startSpan('call', { kind: SpanKind.CLIENT });
  await context.with(trace.setSpan(context.active(), span), async () => {
    const headers = {};
    propagation.inject(context.active(), headers);
    runsUntilHere(request);
    const [from, due, sent] = (await asked(port, `timer ${ms} ${headers.traceparent}\n`)).split(' ').map(Number);
    request.add(from, due, 'timer');
    goesOn(request, sent);
  });
  span.end();
}

const line = (socket, then) => socket.once('data', (data) => then(String(data).trim().split(' '))).on('error', () => {});

function serve(socket, port) {
  line(socket, ([kind, size]) => {
    const ms = Number(size);
    const span = trace.getTracer('books').startSpan(kind, { kind: SpanKind.SERVER });
    context.with(trace.setSpan(context.active(), span), async () => {
      const request = new Request(kind, span.spanContext().traceId);
      if (kind === 'crunch') crunch(ms);
      else if (kind === 'lock') await withLock(request, ms);
      else if (kind === 'call') await call(request, ms, port);
      else await pause(request, ms);
      request.ended = runsUntilHere(request);
      requests.push(request);
      span.end();
      // The loop is the request's until its span has ended.
      runs.push({ from: request.ended, to: now(), request });
      socket.end('done\n');
    });
  });
}

// The other service.
function answer(socket) {
  line(socket, ([, size, traceparent]) => {
    const parent = propagation.extract(context.active(), { traceparent });
    const span = trace.getTracer('books').startSpan('timer', { kind: SpanKind.SERVER }, parent);
    context.with(trace.setSpan(parent, span), async () => {
      const from = now();
      await sleep(Number(size));
      const due = Math.min(from + Number(size) * 1e6, now());
      span.end();
      socket.end(`${from} ${due} ${now()}`);
    });
  });
}

async function ask(port, seed, each) {
  // A small generator of equal runs (mulberry32).
  const chance = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  for (let number = 0; number < each; number += 1) {
    const kind = KINDS[Math.floor(chance() * KINDS.length)];
    const ms = kind === 'ping' ? 3 : kind === 'crunch' ? 20 + chance() * 40 : 30 + chance() * 90;
    // Node's timers count whole ms.
    await asked(port, `${kind} ${Math.round(ms)}\n`);
    await sleep(chance() * 50);
  }
}

// Who blocked whom.
function parts(request) {
  const sums = new Map();
  const count = (kind, by, ns) => sums.set(`${kind} ${by}`, { kind, by, ns: (sums.get(`${kind} ${by}`)?.ns ?? 0) + ns });
  for (const { from, to, kind } of request.intervals) {
    if (kind === 'timer') count('timer', null, to - from);
    for (const [other, ns] of blockers(request, from, to, kind, 0)) if (other !== request) count('blocked', other.traceId, ns);
  }
  return [...sums.values()];
}

function blockers(request, from, to, kind, depth) {
  if (kind === 'ready') return inLoop(request, from, to);
  return kind === 'lock' && depth < 50 ? atTurn(request, from, to, depth) : [];
}

function* inLoop(request, from, to) {
  for (const run of runs) {
    const ns = Math.min(to, run.to) - Math.max(from, run.from);
    if (run.request !== request && ns > 0) yield [run.request, ns];
  }
}

function* atTurn(request, from, to, depth) {
  let since = 0;
  for (const { from: begin, to: end, request: holder } of turns) {
    const hasWaited = holder.intervals.some((one) => one.kind === 'lock' && one.to === begin);
    const low = Math.max(from, hasWaited ? since : begin);
    const high = Math.min(to, end);
    since = end;
    if (low >= high) continue;
    // Its turn has come, and it has not taken it yet.
    if (holder === request) yield* inLoop(request, low, Math.min(high, begin));
    else yield* during(holder, low, high, depth);
  }
}

function* during(holder, from, to, depth) {
  let left = to - from;
  for (const one of holder.intervals) {
    const low = Math.max(from, one.from);
    const high = Math.min(to, one.to);
    if (low >= high || one.kind === 'timer') continue;
    for (const [other, ns] of blockers(holder, low, high, one.kind, depth + 1)) {
      left -= ns;
      yield [other, ns];
    }
  }
  yield [holder, Math.max(left, 0)];
}

function write(file, pids) {
  const documents = requests.map((request) => ({
    trace_id: request.traceId,
    planted: request.kind,
    window_ns: request.ended - request.began,
    parts: parts(request),
  }));
  // A loop's time-outs are whole milliseconds.
  writeFileSync(file, JSON.stringify({ schema: 'wakepath.requests-truth/1', pids, slack_ns: 1e6, requests: documents }));
}

function start(name) {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': name }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), { maxQueueSize: 100000 })],
  });
  provider.register();
  return provider;
}

const listens = (serves) => new Promise((then) => {
  const server = net.createServer({ allowHalfOpen: true }, serves).listen(0, '127.0.0.1', () => then(server));
});
const ended = (child) => new Promise((then) => child.on('exit', then));
const own = (...words) => [...process.execArgv, __filename, ...words];

async function main() {
  const other = spawn(process.execPath, own('--answer'), { stdio: ['pipe', 'pipe', 'inherit'] });
  const port = Number(await new Promise((then) => other.stdout.once('data', then)));
  const server = await listens((socket) => serve(socket, port));
  const ticker = setInterval(() => {}, 10);
  const asks = spawn(process.execPath, own('--ask', String(server.address().port), '--each', options.each), { stdio: 'inherit' });
  await ended(asks);
  clearInterval(ticker);
  server.close();
  const over = ended(other);
  other.stdin.end();
  await over;
  write(options.truth, [process.pid, other.pid]);
}

if (options.ask) {
  for (let seed = 0; seed < CLIENTS; seed += 1) ask(Number(options.ask), seed, Number(options.each));
} else if (options.answer) {
  const provider = start('answers');
  listens(answer).then((server) => {
    console.log(server.address().port);
    process.stdin.resume().on('end', () => {
      server.close();
      provider.shutdown();
    });
  });
} else {
  const provider = start('books');
  main().then(() => provider.shutdown());
}
