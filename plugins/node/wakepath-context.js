// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Puts two attributes on each span in this process: `wakepath.tid`, the OS thread in which it began, and `wakepath.turns`, the
// times in which its event loop worked for it.
//
// Loaded before all else (NODE_OPTIONS=--require=PATH), it waits until a program or an agent registers its tracer provider and
// its context manager with OpenTelemetry's API, which keeps them in a global variable, whatever the packages' copies, CommonJS or
// modules. Then `startSpan` of the provider's tracers and `end` of their spans are wrapped once, for their class.

const { createHook } = require('async_hooks');
const { readlinkSync } = require('fs');
const { performance } = require('perf_hooks');
const { isMainThread } = require('worker_threads');

// JavaScript runs in the same OS thread per event loop, all its life: the process's first thread, or a worker's. A fork in Node
// is a new process that loads this file again.
const tid = isMainThread ? process.pid : threadOfWorker();

function threadOfWorker() {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').pop());
  } catch {
    return undefined;
  }
}

// The maximum number of kept turns, the last. A span's turns no further apart than the gap (ms) are joined: callbacks of a loop
// follow each other.
const MAX_TURNS = 64;
const MAX_GAP = 0.01;

// Each open span has its turns in a property of this name.
const TURNS = Symbol('wakepath.turns');
// OpenTelemetry's key for the current span in a context.
const SPAN_KEY = Symbol.for('OpenTelemetry Context Key SPAN');

// The context manager, once it is known.
let manager;
// The running code's context, for comparison; its span's turns; and their current turn's beginning (ms of `performance`).
let context;
let turns;
let since = 0;
// The last noted turns.
let noted;

// Realtime minus the time by `performance`, ms. The realtime clock is steered, and read in whole ms: to agree with it, this
// follows it to the nearest end of the ms.
let origin = performance.timeOrigin;

function now() {
  return performance.now();
}

function followRealtime() {
  const wall = Date.now();
  const ours = origin + now();
  if (ours < wall) origin += wall - ours;
  else if (ours >= wall + 1) origin -= ours - wall - 1;
}

function note(turns, from, to) {
  const { times } = turns;
  const last = times.length - 1;
  if (noted === turns && last > 0 && from - times[last] <= MAX_GAP) {
    times[last] = to;
    return;
  }
  noted = turns;
  times.push(from, to);
  // In blocks, since each removal moves all.
  if (times.length > 4 * MAX_TURNS) turns.dropped = times.splice(0, 2 * MAX_TURNS).pop();
}

// An ended span may still be current: then the thread works for the span around it.
function open(turns) {
  let open = turns;
  while (open?.isOver) open = open.outer;
  return open;
}

function turnTo(span) {
  const next = open(span);
  if (next === turns) return;
  const at = now();
  if (turns) note(turns, since, at);
  turns = next;
  since = at;
}

// Finds the running code's span. An error in a hook would end the program.
function look() {
  try {
    const current = manager.active();
    if (current === context) return;
    context = current;
    turnTo(current?.getValue?.(SPAN_KEY)?.[TURNS]);
  } catch {
    leave();
  }
}

function leave() {
  context = undefined;
  if (turns) turnTo(undefined);
}

// Callbacks may lie within each other (`runInAsyncScope`): only behind the outermost the loop works for nothing.
let depth = 0;
const hook = createHook({
  before() {
    depth += 1;
    look();
  },
  after() {
    // This may be the first sight of a callback.
    depth = Math.max(depth - 1, 0);
    if (depth > 0) look();
    else leave();
  },
});

// The current span changes as a function is called with another context, and from callback to callback.
function followContexts(found) {
  if (manager || typeof found?.active !== 'function' || typeof found.with !== 'function') return;
  manager = found;
  const { with: withContext, attach } = found;
  found.with = function (...rest) {
    const [context, run] = rest;
    const inside = function (...values) {
      look();
      return run.apply(this, values);
    };
    try {
      return withContext.call(this, context, typeof run === 'function' ? inside : run, ...rest.slice(2));
    } finally {
      look();
    }
  };
  if (typeof attach === 'function') {
    found.attach = function (...rest) {
      const token = attach.apply(this, rest);
      look();
      return token;
    };
  }
  hook.enable();
}

// `SINCE GAP LENGTH GAP LENGTH.`, ns: the time since 1970 from which the turns are whole; then for each turn the gap from there,
// or from the end of the turn before, and its length.
function text(turns, begun) {
  const times = turns.times.slice(-2 * MAX_TURNS);
  const before = turns.times.length > times.length ? turns.times[turns.times.length - times.length - 1] : turns.dropped;
  const ns = (ms) => Math.round((ms - now0) * 1e6);
  const now0 = before ?? turns.begun;
  const whole = before === undefined && begun ? BigInt(begun[0]) * 1000000000n + BigInt(begun[1]) : undefined;
  const start = BigInt(Math.round((turns.origin + now0) * 1000)) * 1000n;
  let at = whole === undefined || whole > start ? 0 : Number(whole - start);
  const words = [String(start + BigInt(at))];
  for (let number = 0; number < times.length; number += 2) {
    const [from, to] = [Math.max(ns(times[number]), at), ns(times[number + 1])];
    if (to <= from) continue;
    words.push(String(from - at), String(to - from));
    at = to;
  }
  return `${words.join(' ')}.`;
}

const wrapped = new WeakSet();

// A method belongs to the class, unless the object has its own.
function ownerOf(object, method) {
  const owner = Object.hasOwn(object, method) ? object : Object.getPrototypeOf(object);
  if (!owner || wrapped.has(owner) || typeof owner[method] !== 'function') return undefined;
  wrapped.add(owner);
  return owner;
}

function wrapSpan(span) {
  const owner = ownerOf(span, 'end');
  if (!owner) return;
  const { end } = owner;
  owner.end = function (...rest) {
    const own = this[TURNS];
    if (own && !own.isOver) {
      const at = now();
      if (own === turns) note(own, since, at);
      own.isOver = true;
      // No longer than needed: spans may begin in each other without end.
      own.outer = open(own.outer);
      if (own === turns) {
        turns = open(own);
        since = at;
      }
      // The times are the program's own if it gives them.
      if (rest[0] === undefined) this.setAttribute('wakepath.turns', text(own, this.startTime));
    }
    return end.apply(this, rest);
  };
}

function wrap(tracer) {
  const owner = ownerOf(tracer, 'startSpan');
  if (!owner) return;
  const { startSpan } = owner;
  owner.startSpan = function (...rest) {
    const span = startSpan.apply(this, rest);
    if (tid) span?.setAttribute?.('wakepath.tid', tid);
    if (tid && manager && span?.isRecording?.()) {
      followRealtime();
      const trace = span.spanContext?.().traceId;
      // The span in turn here, if both belong to the same trace.
      const outer = turns?.trace === trace ? turns : undefined;
      span[TURNS] = { times: [], dropped: undefined, isOver: false, begun: now(), origin, trace, outer };
      wrapSpan(span);
    }
    return span;
  };
}

function watch(provider) {
  try {
    wrap(provider.getTracer('wakepath-context'));
  } catch {
    // The program is worth more than its observer.
  }
}

// Calls `then` with each value of a property. For all other code it stays a plain property.
function onSet(object, name, then) {
  let value = object[name];
  if (value) then(value);
  Object.defineProperty(object, name, {
    configurable: true,
    enumerable: true,
    get: () => value,
    set(next) {
      value = next;
      if (next) then(next);
    },
  });
}

// `api.trace` is a proxy, which gets the provider behind it.
function onProxy(proxy) {
  if (typeof proxy.setDelegate !== 'function') return watch(proxy);
  const { setDelegate } = proxy;
  proxy.setDelegate = function (provider) {
    setDelegate.call(this, provider);
    watch(provider);
  };
  const there = proxy._delegate;
  if (there) watch(there);
}

onSet(globalThis, Symbol.for('opentelemetry.js.api.1'), (api) => {
  onSet(api, 'trace', onProxy);
  onSet(api, 'context', followContexts);
});
