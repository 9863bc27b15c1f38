// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Puts the attribute `wakepath.tid` on each span of this process: the OS thread in which it began.
//
// Loaded before all else (NODE_OPTIONS=--require=PATH), it waits until a program or an agent registers its tracer provider with
// OpenTelemetry's API, which keeps it in a global variable, whichever copies of the packages there are, CommonJS or modules.
// Then `startSpan` of the provider's tracers is wrapped once, for their class.

const { readlinkSync } = require('fs');
const { isMainThread } = require('worker_threads');

// JavaScript runs in one OS thread per event loop, all its life: the process's first one, or that of a worker. A fork of
// Node's is a new process that loads this again.
const tid = isMainThread ? process.pid : threadOfWorker();

function threadOfWorker() {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').pop());
  } catch {
    return undefined;
  }
}

const wrapped = new WeakSet();

function wrap(tracer) {
  // The class has it, unless a tracer has one of its own.
  const owner = Object.hasOwn(tracer, 'startSpan') ? tracer : Object.getPrototypeOf(tracer);
  if (!owner || wrapped.has(owner) || typeof owner.startSpan !== 'function') return;
  wrapped.add(owner);
  const { startSpan } = owner;
  owner.startSpan = function (...rest) {
    const span = startSpan.apply(this, rest);
    if (tid) span?.setAttribute?.('wakepath.tid', tid);
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

// Calls `then` with each value that a property gets. It stays a plain property for everybody else.
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

onSet(globalThis, Symbol.for('opentelemetry.js.api.1'), (api) => onSet(api, 'trace', onProxy));
