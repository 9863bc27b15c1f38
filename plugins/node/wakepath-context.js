// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Puts three attributes on each span in this process: `wakepath.tid`, the OS thread in which it began; `wakepath.turns`, the
// times in which its event loop worked for it; and `wakepath.ready`, why each turn became ready.
//
// Loaded before all else (NODE_OPTIONS=--require=PATH), it waits until a program or an agent registers its tracer provider and
// its context manager with OpenTelemetry's API, which keeps them in a global variable, whatever the packages' copies, CommonJS or
// modules. Then `startSpan` of the provider's tracers and `end` of their spans are wrapped once, for their class.

const { AsyncResource, createHook, executionAsyncResource, triggerAsyncId } = require('async_hooks');
const { readlinkSync } = require('fs');
const { performance } = require('perf_hooks');
const { syncBuiltinESMExports } = require('module');
const timers = require('timers');
const { isPromise } = require('util').types;
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

// With WAKEPATH_READY=all, each promise and tick has its reason, by hooks that cost more than all else here.
const ALL = process.env.WAKEPATH_READY === 'all';

// Each open span has its turns in a property of this name.
const TURNS = Symbol('wakepath.turns');
// A scheduled resource has the reason for its callback in a property of this name.
const READY = Symbol('wakepath.ready');
// OpenTelemetry's key for the current span in a context.
const SPAN_KEY = Symbol.for('OpenTelemetry Context Key SPAN');

// The context manager, once it is known.
let manager;
// The running code's context, for comparison; its span's turns; and their current turn's beginning (ms of `performance`).
let context;
let turns;
let since = 0;
// The current turn's reason; whether it goes on with the one before; and the last noted turns.
let word;
let isJoined = false;
let noted;

// Realtime minus the time by `performance`, ms. The realtime clock is steered, and read in whole ms: to agree with it, this
// follows it to the nearest end of the ms.
let origin = performance.timeOrigin;

const { nodeTiming } = performance;

function now() {
  return performance.now();
}

function followRealtime() {
  const wall = Date.now();
  const ours = origin + now();
  if (ours < wall) origin += wall - ours;
  else if (ours >= wall + 1) origin -= ours - wall - 1;
}

// The kinds of resources.
const FOLLOWS = 0;
const TIMER = 1;
const IMMEDIATE = 2;
const DESCRIPTOR = 3;
const POOL = 4;
const OTHER = 5;
// Their resources are made for a single callback, by whom the callback is for. A socket may serve many.
const MADE_FOR_ONE = new Set([TIMER, IMMEDIATE, POOL]);

// Reasons. A turn becomes ready by a callback that the loop calls for a cause outside JavaScript (a *root*: a timer, a
// descriptor, the pool), or by code in a span's turn. A reason is a letter with its time (ms of `performance`).
//
// Promises and ticks run behind the callback that scheduled them, before the loop calls another. So while no span's turn ran
// behind a root, the root is their reason. After a span's turn they may be its work or the root's: noted reasons say which. Without
// these, they are the span's where all of the root is: it called a timer, an immediate or a job of the span, or the span began in it.
const UNKNOWN = { letter: '-', at: 0 };
// The last root's reason; the loop's idle time then (ms); and whether a span's turn ran since.
let root = UNKNOWN;
let idle = 0;
let hasRun = false;
// The kind of the last root; the trace that had the first turn behind it, its longest turn since, and a time (ms of `performance`) within that turn;
// and whether all of the root is this trace's.
let rootKind = OTHER;
let first;
let longest = -1;
let firstAt = 0;
let isFirsts = false;
// The running callback's reason, and its number.
let reason = UNKNOWN;
let callback = 0;

// By the names of their classes, in Node 18 to 24.
const DESCRIPTORS = new Set([
  ...['TCP', 'Pipe', 'UDP', 'ReusedHandle', 'TCPConnectWrap', 'PipeConnectWrap', 'WriteWrap', 'ShutdownWrap', 'TLSWrap'],
  ...['HTTPServerAsyncResource', 'Http2Session', 'Http2Stream', 'QueryReqWrap', 'FSEvent'],
]);
const POOLED = /^(FSReqCallback|FSReqPromise|FileHandleCloseReq|Get(Addr|Name)InfoReqWrap|Zlib|(Brotli|Zstd)\w+|\w+Job)$/;

const kinds = new WeakMap();

function kindOf(resource) {
  const prototype = Object.getPrototypeOf(resource);
  if (prototype === Object.prototype) return 'callback' in resource && 'args' in resource ? FOLLOWS : OTHER;
  let kind = kinds.get(prototype);
  if (kind === undefined) kinds.set(prototype, (kind = kindByName(resource, prototype?.constructor?.name)));
  return kind;
}

function kindByName(resource, name) {
  if (isPromise(resource) || resource instanceof AsyncResource) return FOLLOWS;
  if (name === 'Timeout') return TIMER;
  if (name === 'Immediate') return IMMEDIATE;
  if (DESCRIPTORS.has(name)) return DESCRIPTOR;
  return POOLED.test(name) ? POOL : OTHER;
}

// The loop's clock counts whole ms since a ms: that ms minus the origin of `performance`. Read anew where a ms ends between.
const loopOrigin = (() => {
  const ms = () => Number(process.hrtime.bigint()) / 1e6;
  for (let left = 100; left; left -= 1) {
    const before = ms();
    const timer = setTimeout(() => {}, 1e6);
    clearTimeout(timer);
    const own = now();
    const after = ms();
    if (Math.floor(before) === Math.floor(after)) return Math.floor(before) - timer._idleStart - ((before + after) / 2 - own);
  }
  return NaN;
})();

function dueOf(timer) {
  const due = timer._idleStart + timer._idleTimeout + loopOrigin;
  return due > 0 ? { letter: 't', at: due } : UNKNOWN;
}

// A callback begins behind no other: notes its reason, and returns whether it is a root. `at` is the time if it was read.
function arrive(asyncId, at) {
  const resource = executionAsyncResource();
  // Promises come most often.
  if (resource instanceof Promise) {
    reason = ALL ? markOf(asyncId) : inherited();
    return false;
  }
  const kind = kindOf(resource);
  if (kind === FOLLOWS) {
    reason = resource[READY] ?? inherited();
    return false;
  }
  if (kind === IMMEDIATE) reason = resource[READY] ?? UNKNOWN;
  else if (kind === TIMER) reason = dueOf(resource);
  else if (kind === OTHER) reason = UNKNOWN;
  else reason = { letter: kind === POOL ? 'j' : 'd', at: at ?? now() };
  root = reason;
  idle = nodeTiming.idleTime;
  hasRun = false;
  rootKind = kind;
  isFirsts = false;
  if (ALL) marks.clear();
  return true;
}

// The reason for a callback that follows others, if none was noted.
function inherited() {
  return hasRun ? UNKNOWN : root;
}

// Why that becomes ready which the running code schedules.
function scheduled() {
  return turns ? { letter: 's', at: now() } : reason;
}

// With WAKEPATH_READY=all: by the id of a promise the reason why it was made, or resolved, and when in order of the others.
// A promise's callback runs as both its parent was resolved and itself was made.
const marks = new Map();
const MAX_MARKS = 100000;
let order = 0;

function mark(asyncId) {
  if (marks.size >= MAX_MARKS) marks.clear();
  marks.set(asyncId, { reason: scheduled(), order: (order += 1) });
}

function markOf(asyncId) {
  const own = marks.get(asyncId);
  const parent = marks.get(triggerAsyncId());
  return (parent && !(parent.order < own?.order) ? parent : own)?.reason ?? UNKNOWN;
}

// The reason for a turn that begins in the running callback. A root that only settles promises, such as a wait at shared
// memory, calls no hook: where the loop was idle since the last root, the reason is not known.
function wordOf(next, at) {
  if (next.callback === callback) return UNKNOWN;
  if (turns) return { letter: 's', at };
  // Reading the idle time takes longer than all else here.
  if (reason === UNKNOWN && !(isFirsts && next.trace !== first)) return UNKNOWN;
  if (nodeTiming.idleTime !== idle) return UNKNOWN;
  return reason === UNKNOWN ? { letter: 's', at: firstAt } : reason;
}

function joins(turns, from) {
  return noted === turns && from - turns.times[turns.times.length - 1] <= MAX_GAP;
}

// Each span has the origin of its own beginning: so far within a turn, another span finds it in spite of that (ms).
const INSIDE = 0.02;

function note(turns, word, from, to) {
  if (isFirsts && turns.trace === first && to - from > longest) {
    longest = to - from;
    firstAt = from + Math.min(longest / 2, INSIDE);
  }
  const { times, words } = turns;
  if (isJoined) {
    times[times.length - 1] = to;
    return;
  }
  noted = turns;
  times.push(from, to);
  words.push(word);
  // In blocks, since each removal moves all.
  if (times.length > 4 * MAX_TURNS) {
    turns.dropped = times.splice(0, 2 * MAX_TURNS).pop();
    words.splice(0, MAX_TURNS);
  }
}

// An ended span may still be current: then the thread works for the span around it.
function open(turns) {
  let open = turns;
  while (open?.isOver) open = open.outer;
  return open;
}

// Ends the current turn, and begins the next one.
function turnTo(next, at, isRoots) {
  if (turns) note(turns, word, since, at);
  if (next) {
    isJoined = joins(next, at);
    // A turn that goes on keeps its reason.
    if (!isJoined) word = wordOf(next, at);
    begin(next, at, isRoots);
  } else {
    turns = undefined;
  }
}

function begin(next, at, isRoots) {
  next.callback = callback;
  if (!hasRun) {
    first = next.trace;
    longest = -1;
    firstAt = at;
    isFirsts = !ALL && ((isRoots && MADE_FOR_ONE.has(rootKind)) || next.bornIn === callback);
  } else if (!MADE_FOR_ONE.has(rootKind) && next.trace !== first) {
    isFirsts = false;
  }
  hasRun = true;
  turns = next;
  since = at;
}

// Finds the running code's span. An error in a hook would end the program.
function look() {
  try {
    const current = manager.active();
    if (current === context) return;
    context = current;
    const next = open(current?.getValue?.(SPAN_KEY)?.[TURNS]);
    if (next !== turns) turnTo(next, now());
  } catch {
    leave();
  }
}

// The same as a callback begins behind no other.
function lookFirst(asyncId) {
  try {
    const current = manager.active();
    if (current === context) return arrive(asyncId);
    context = current;
    const next = open(current?.getValue?.(SPAN_KEY)?.[TURNS]);
    if (next === turns) return arrive(asyncId);
    const at = now();
    if (next && !turns && joins(next, at)) {
      // The turn goes on, and keeps its reason; whether this callback is a root is not known then.
      reason = UNKNOWN;
      isFirsts &&= next.trace === first;
      isJoined = true;
      return begin(next, at);
    }
    return turnTo(next, at, arrive(asyncId, at));
  } catch {
    reason = UNKNOWN;
    return leave();
  }
}

// A context without turns stays without, so it is kept: the next callback often has it too.
function leave() {
  if (!turns) return;
  context = undefined;
  note(turns, word, since, now());
  turns = undefined;
}

function onInit(asyncId, type, _, resource) {
  try {
    if (type === 'PROMISE') {
      mark(asyncId);
    } else if (type === 'TickObject' || type === 'Immediate' || type === 'Microtask') {
      resource[READY] = scheduled();
    }
  } catch {
    // Its callback's reason is not known then.
  }
}

function onResolve(asyncId) {
  try {
    mark(asyncId);
  } catch {
    // Its callback's reason is not known then.
  }
}

// Callbacks may lie within each other (`runInAsyncScope`): only behind the outermost the loop works for nothing.
let depth = 0;
const hook = createHook({
  before(asyncId) {
    depth += 1;
    if (depth > 1) return look();
    callback += 1;
    return lookFirst(asyncId);
  },
  after() {
    // This may be the first sight of a callback.
    depth = depth > 1 ? depth - 1 : 0;
    if (depth > 0) look();
    else leave();
  },
  ...(ALL && { init: onInit, promiseResolve: onResolve }),
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
  if (!ALL) followImmediates();
}

// Immediates run in the loop's next phase: no root before them is their reason.
function followImmediates() {
  const { setImmediate: original } = timers;
  const setImmediate = function () {
    const immediate = original.apply(this, arguments);
    const ready = scheduled();
    if (ready !== UNKNOWN) immediate[READY] = ready;
    return immediate;
  };
  // Node's own has one for `promisify`.
  Object.defineProperties(setImmediate, Object.getOwnPropertyDescriptors(original));
  timers.setImmediate = setImmediate;
  if (globalThis.setImmediate === original) globalThis.setImmediate = setImmediate;
  syncBuiltinESMExports();
}

// `SINCE GAP LENGTH GAP LENGTH.`, ns: the time since 1970 from which the turns are whole; then for each turn the gap from there,
// or from the end of the turn before, and its length. And a word for each turn: the letter of its reason, and ns from there to
// the turn.
function texts(turns, begun) {
  const { times, words } = turns;
  const first = Math.max(times.length - 2 * MAX_TURNS, 0);
  const before = first ? times[first - 1] : turns.dropped;
  const now0 = before ?? turns.begun;
  const ns = (ms) => Math.round((ms - now0) * 1e6);
  const whole = before === undefined && begun ? BigInt(begun[0]) * 1000000000n + BigInt(begun[1]) : undefined;
  const start = BigInt(Math.round((turns.origin + now0) * 1000)) * 1000n;
  // A span says its beginning in whole ms, and takes time to be made; the turns have it exactly. A beginning further back is one that the
  // program chose.
  let at = whole === undefined || start - whole < 1500000n ? 0 : Number(whole - start);
  let lengths = String(start + BigInt(at));
  let reasons = '';
  for (let number = first; number < times.length; number += 2) {
    const from = Math.max(ns(times[number]), at);
    const to = ns(times[number + 1]);
    if (to <= from) continue;
    lengths += ` ${from - at} ${to - from}`;
    const { letter, at: ready } = words[number / 2];
    reasons += letter === '-' ? ' -' : ` ${letter}${Math.max(from - ns(ready), 0)}`;
    at = to;
  }
  return [`${lengths}.`, `${reasons.slice(1)}.`];
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
      if (own === turns) note(own, word, since, at);
      own.isOver = true;
      // No longer than needed: spans may begin in each other without end.
      own.outer = open(own.outer);
      if (own === turns) {
        turns = open(own);
        since = at;
        if (turns) {
          isJoined = joins(turns, at);
          word = UNKNOWN;
          turns.callback = callback;
        }
      }
      // The times are the program's own if it gives them.
      if (rest[0] === undefined) {
        const [times, reasons] = texts(own, this.startTime);
        this.setAttribute('wakepath.turns', times);
        this.setAttribute('wakepath.ready', reasons);
      }
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
      span[TURNS] = { times: [], words: [], dropped: undefined, isOver: false, begun: now(), callback, bornIn: callback, origin, trace, outer };
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
