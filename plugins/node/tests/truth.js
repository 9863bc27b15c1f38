// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Spans in callbacks, promises, timers, the thread pool's callbacks, worker threads and a child process, each with the attribute
// `truth.tid`: the thread by /proc, read anew at each span. Each thread prints the number of its spans.

const { NodeSDK } = require('@opentelemetry/sdk-node');
const { trace } = require('@opentelemetry/api');
const { readFileSync, readFile } = require('fs');
const { Worker, isMainThread } = require('worker_threads');
const { fork } = require('child_process');
const { setTimeout: sleep } = require('timers/promises');

const sdk = new NodeSDK();
sdk.start();
const tracer = trace.getTracer('truth');
let spans = 0;

function begin(name, work) {
  spans += 1;
  const tid = Number(/^Pid:\s*(\d+)/m.exec(readFileSync('/proc/thread-self/status', 'utf8'))[1]);
  return tracer.startActiveSpan(name, { attributes: { 'truth.tid': tid } }, async (span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  });
}

async function request(number) {
  await begin(`request ${number}`, async () => {
    await sleep(number % 3);
    await begin('nested', () => begin('nested', async () => {}));
    await new Promise((done) => readFile(__filename, () => done(begin('file', async () => {}))));
    await Promise.all([1, 2, 3].map(() => begin('at once', () => sleep(1))));
    await new Promise((done) => setImmediate(() => done(begin('immediate', async () => {}))));
  });
}

async function main() {
  await Promise.all(Array.from({ length: 20 }, (_, number) => request(number)));
  if (isMainThread && process.argv[2] !== 'child') {
    const workers = [1, 2, 3].map(() => new Worker(__filename));
    const others = [...workers, fork(__filename, ['child'])];
    await Promise.all(others.map((one) => new Promise((done) => one.on('exit', done))));
  }
  await sdk.shutdown();
  process.stdout.write(`spans ${spans}\n`);
}

main();
