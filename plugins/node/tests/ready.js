// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Spans whose turns have planted reasons. Prints the number of cases, or what is wrong and its reason. Another process may take
// the CPU within a case: it may fail twice.

const { ROOT_CONTEXT, context, trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const assert = require('assert');
const { AsyncResource, createHook, executionAsyncResource } = require('async_hooks');
const { pbkdf2 } = require('crypto');
const { readFile } = require('fs');
const { stat } = require('fs/promises');
const http = require('http');
const net = require('net');
const { setTimeout: sleep } = require('timers/promises');
const timers = require('timers');
const { promisify } = require('util');
const v8 = require('v8');
const vm = require('vm');

const ALL = process.env.WAKEPATH_READY === 'all';

const ended = new Map();
const kept = { onStart() {}, onEnd: (span) => ended.set(span.name, read(span)), forceFlush: async () => {}, shutdown: async () => {} };
const provider = new NodeTracerProvider({ spanProcessors: [kept] });
const tracer = trace.getTracer('ready');
const MAJOR = Number(process.versions.node.split('.')[0]);
const now = () => performance.now();

// Turns with their reasons (ms of `performance`), counted back from now: the last turn ends as the span does. `since` and
// `until` are ns by the text alone.
const BASE = BigInt(Date.now()) * 1000000n;
function read(span) {
  const { 'wakepath.turns': turns, 'wakepath.ready': ready } = span.attributes;
  assert.match(turns, /^\d+( \d+ \d+)+\.$/);
  assert.match(ready, /^(-|[tdsj]\d+)( (-|[tdsj]\d+))*\.$/);
  const [first, ...rest] = turns.slice(0, -1).split(' ');
  const gaps = rest.map(Number);
  const words = ready.slice(0, -1).split(' ');
  assert.strictEqual(words.length, gaps.length / 2);
  let at = now() - gaps.reduce((sum, gap) => sum + gap, 0) / 1e6;
  let until = Number(BigInt(first) - BASE);
  return words.map((word, number) => {
    const since = until + gaps[2 * number];
    until = since + gaps[2 * number + 1];
    const from = at + gaps[2 * number] / 1e6;
    at = from + gaps[2 * number + 1] / 1e6;
    return { letter: word[0], ns: Number(word.slice(1)), from, to: at, ready: from - Number(word.slice(1)) / 1e6, since, until };
  });
}

function busy(ms) {
  const end = now() + ms;
  while (now() < end);
}

const within = (name, work) =>
  tracer.startActiveSpan(name, async (span) => {
    try {
      return await work(span);
    } finally {
      span.end();
    }
  });
const outside = (work) => context.with(ROOT_CONTEXT, work);

// A span waits until `plant` calls `wake`, and works then, longest. `plant` runs outside the span.
async function waits(plant) {
  let wake;
  const waiting = within('waits', () => new Promise((done) => (wake = done)).then(() => busy(5)));
  await plant(() => wake());
  await waiting;
  return ended.get('waits');
}

// One of the turns has this reason, from this time.
function has(turns, letter, at, within = 2) {
  const found = turns.filter((turn) => turn.letter === letter && Math.abs(turn.ready - at) <= within);
  assert.ok(found.length > 0, `no ${letter} at ${at}: ${JSON.stringify(turns)}`);
  return found[0];
}

const longest = (turns) => turns.reduce((one, other) => (other.to - other.from > one.to - one.from ? other : one));

// The longest turn's reason: with WAKEPATH_READY=all this, otherwise unknown.
function hasIfAll(turns, letter, at) {
  const last = longest(turns);
  if (ALL) has([last], letter, at);
  else assert.strictEqual(last.letter, '-', JSON.stringify(turns));
}

function server(listener, create = net.createServer) {
  return new Promise((done) => {
    const made = create(listener).listen(0, '127.0.0.1', () => done({ port: made.address().port, close: () => made.close() }));
  });
}

// A connection made outside all spans, as in a pool. `ask` resolves as the answer comes, 10 ms later.
async function pooled() {
  const { port, close } = await server((peer) => peer.on('data', () => setTimeout(() => peer.write('answer'), 10)));
  const socket = net.connect(port, '127.0.0.1');
  await new Promise((done) => socket.once('connect', done));
  const ask = (then) => {
    socket.once('data', then);
    socket.write('question');
  };
  return { ask, close: () => (socket.destroy(), close()) };
}

const cases = {
  async 'a timer: from its due time'() {
    let due;
    await within('x', () => new Promise((done) => { due = now() + 20; setTimeout(done, 20); }));
    has(ended.get('x'), 't', due);
  },

  async 'a timer served late: from its due time'() {
    let due;
    await within('x', () => {
      outside(() => setTimeout(() => busy(200), 5));
      return new Promise((done) => { due = now() + 10; setTimeout(done, 10); });
    });
    const { ns } = has(ended.get('x'), 't', due);
    assert.ok(ns >= 190e6, String(ns));
  },

  async 'a timer due before a busy loop ends: at least the busy time'() {
    let due;
    await within('x', () => {
      const done = new Promise((done) => { due = now() + 1; setTimeout(done, 1); });
      outside(() => setImmediate(() => (busy(Math.max(due + 1 - now(), 0)), busy(200))));
      return done;
    });
    const { ns } = has(ended.get('x'), 't', due);
    assert.ok(ns >= 200e6, String(ns));
  },

  async 'a promise for a timer'() {
    let due;
    await within('x', () => { due = now() + 20; return sleep(20); });
    has(ended.get('x'), 't', due);
  },

  async 'an interval: from the last due time'() {
    let due = 0;
    await within('x', () => new Promise((done) => {
      let left = 3;
      const timer = setInterval(() => {
        left -= 1;
        if (left) due = now() + 20;
        else done(clearInterval(timer));
      }, 20);
    }));
    has(ended.get('x'), 't', due);
  },

  async 'a timer outside resolves: from its due time'() {
    let due;
    for (const other of [ROOT_CONTEXT, ROOT_CONTEXT.setValue(Symbol('other'), 1)]) {
      const turns = await waits((wake) => context.with(other, () => new Promise((done) => {
        due = now() + 5;
        setTimeout(() => { wake(); busy(30); done(); }, 5);
      })));
      assert.ok(has([longest(turns)], 't', due).ns >= 30e6);
    }
  },

  async 'a chain of promises and ticks outside keeps the first reason'() {
    let due;
    const turns = await waits((wake) => new Promise((done) => {
      due = now() + 5;
      setTimeout(() => process.nextTick(() => { queueMicrotask(async () => { await undefined; wake(); busy(30); done(); }); }), 5);
    }));
    assert.ok(has([longest(turns)], 't', due).ns >= 30e6);
  },

  async 'a promise of another realm keeps the first reason'() {
    const foreign = vm.runInNewContext('Promise');
    let due;
    const turns = await waits((wake) => new Promise((done) => {
      due = now() + 5;
      setTimeout(() => foreign.resolve().then(() => { wake(); done(); }).then(() => busy(30)), 5);
    }));
    has([longest(turns)], 't', due);
  },

  async 'an immediate outside keeps the reason for its caller'() {
    let due;
    const turns = await waits((wake) => new Promise((done) => {
      due = now() + 5;
      setTimeout(() => (setImmediate(() => { wake(); done(); }), busy(30)), 5);
    }));
    assert.ok(has([longest(turns)], 't', due).ns >= 30e6);
  },

  async 'a socket in the span'() {
    const { port, close } = await server((peer) => setTimeout(() => peer.end('x'), 10));
    let at;
    await within('x', () => new Promise((done) => {
      net.connect(port, '127.0.0.1').on('data', () => { at = now(); busy(1); done(); });
    }));
    close();
    assert.strictEqual(has(ended.get('x'), 'd', at).ns, 0);
  },

  async 'a socket outside resolves: from its callback'() {
    const pool = await pooled();
    let at;
    const turns = await waits((wake) => new Promise((done) => pool.ask(() => { at = now(); wake(); busy(30); done(); })));
    pool.close();
    assert.ok(has([longest(turns)], 'd', at).ns >= 30e6);
  },

  async 'a socket outside calls a bound function: from its callback'() {
    const pool = await pooled();
    let at;
    await within('x', () => new Promise((done) => {
      const bound = context.bind(context.active(), () => { busy(1); done(); });
      outside(() => pool.ask(() => { at = now(); busy(30); bound(); }));
    }));
    pool.close();
    assert.ok(has(ended.get('x'), 'd', at).ns >= 30e6);
  },

  async 'an answer outside by HTTP calls a bound function: from the socket\'s callback'() {
    const { port, close } = await server((_, response) => setTimeout(() => response.end('x'), 10), http.createServer);
    let at;
    await within('x', () => new Promise((done) => {
      const bound = context.bind(context.active(), () => { busy(5); done(); });
      outside(() => http.get({ port, host: '127.0.0.1', agent: false }, (response) => { at = now(); busy(4); bound(); response.resume(); }));
    }));
    close();
    has([longest(ended.get('x'))], 'd', at);
  },

  async 'one socket callback resolves for two spans: the second may be the first one\'s work'() {
    const pool = await pooled();
    const wake = [];
    const wait = (name) => within(name, () => new Promise((done) => wake.push(done)).then(() => busy(5)));
    const both = [wait('first'), wait('second')];
    const at = await new Promise((done) => pool.ask(() => { done(now()); wake.forEach((one) => one()); }));
    await Promise.all(both);
    pool.close();
    has([longest(ended.get('first'))], 'd', at);
    hasIfAll(ended.get('second'), 'd', at);
  },

  async 'one timer outside resolves for two spans: the second may be the first one\'s work'() {
    const wake = [];
    const wait = (name) => within(name, () => new Promise((done) => wake.push(done)).then(() => busy(5)));
    const both = [wait('first'), wait('second')];
    const due = now() + 5;
    await outside(() => new Promise((done) => setTimeout(() => { wake.forEach((one) => one()); done(); }, 5)));
    await Promise.all(both);
    has([longest(ended.get('first'))], 't', due);
    hasIfAll(ended.get('second'), 't', due);
  },

  async 'an answer by HTTP'() {
    const { port, close } = await server((_, response) => setTimeout(() => response.end('x'), 10), http.createServer);
    let at;
    await within('x', () => new Promise((done) => {
      http.get({ port, host: '127.0.0.1', agent: false }, (response) => { at = now(); busy(1); response.resume().on('end', done); });
    }));
    close();
    has(ended.get('x'), 'd', at);
  },

  async 'a request by HTTP: a turn in its first callback is no wait'() {
    const { port, close } = await server((request, response) => {
      within('handler', () => sleep(5)).then(() => response.end());
    }, http.createServer);
    await new Promise((done) => http.get({ port, host: '127.0.0.1', agent: false }, (response) => response.resume().on('end', done)));
    close();
    assert.deepStrictEqual(ended.get('handler').slice(0, 2).map(({ letter }) => letter), ['-', 't']);
  },

  async 'a file'() {
    let at;
    await within('x', () => new Promise((done) => readFile(__filename, () => { at = now(); busy(1); done(); })));
    assert.strictEqual(has(ended.get('x'), 'j', at).ns, 0);
  },

  async 'a job of the pool outside resolves: from its callback'() {
    let at;
    const turns = await waits((wake) => new Promise((done) => {
      pbkdf2('a', 'b', 1000, 10, 'sha1', () => { at = now(); wake(); busy(30); done(); });
    }));
    assert.ok(has([longest(turns)], 'j', at).ns >= 30e6);
  },

  async 'a promise for a file outside resolves: from its callback'() {
    let at;
    const turns = await waits((wake) => stat(__filename).then(() => { at = now(); wake(); busy(30); }));
    assert.ok(has([longest(turns)], 'j', at).ns >= 30e6);
  },

  async 'a job of the pool in the span'() {
    let at;
    await within('x', () => new Promise((done) => pbkdf2('a', 'b', 1000, 10, 'sha1', () => { at = now(); busy(1); done(); })));
    assert.strictEqual(has(ended.get('x'), 'j', at).ns, 0);
  },

  async 'another span resolves in its own callback: its work'() {
    const jobs = [() => sleep(5), () => promisify(pbkdf2)('a', 'b', 1000, 10, 'sha1'), () => stat(__filename)];
    jobs.push(async () => { await sleep(1); await new Promise((done) => setImmediate(done)); });
    for (const job of jobs) {
      let at;
      const turns = await waits((wake) => within('other', async () => {
        await job();
        at = now();
        wake();
        busy(30);
      }));
      assert.ok(has([longest(turns)], 's', at).ns >= 30e6);
    }
  },

  async 'another span resolves behind two that resolved each other: one of the two'() {
    let at;
    let wakeMiddle;
    const middle = within('middle', () => new Promise((done) => (wakeMiddle = done)).then(() => busy(10)));
    const turns = await waits((wake) => {
      const last = middle.then(() => wake());
      return within('other', async () => {
        await sleep(5);
        at = now();
        busy(4);
        wakeMiddle();
      }).then(() => last);
    });
    // The first one's longest turn, or the middle one's, which ends 14 ms behind its beginning.
    has([longest(turns)], 's', ALL ? at + 14 : at);
  },

  async 'another span resolves in a socket\'s callback: perhaps its work'() {
    const pool = await pooled();
    let at;
    const turns = await waits((wake) => within('other', async () => {
      await new Promise((done) => pool.ask(done));
      at = now();
      wake();
      busy(30);
    }));
    pool.close();
    hasIfAll(turns, 's', at);
  },

  async 'another span resolves as it begins in a callback: its work, unless a third one ran'() {
    for (const isAlone of [true, false]) {
      const pool = await pooled();
      let at;
      const turns = await waits((wake) => new Promise((done) => pool.ask(() => {
        within('other', async () => { at = now(); wake(); busy(30); });
        if (!isAlone) within('third', () => busy(1));
        done();
      })));
      pool.close();
      if (isAlone) has([longest(turns)], 's', at);
      else hasIfAll(turns, 's', at);
    }
  },

  async 'a promise resolved long ago: from the await'() {
    const early = Promise.resolve();
    await sleep(5);
    let at;
    await within('x', async () => {
      await sleep(1);
      outside(() => Promise.resolve().then(() => busy(30)));
      at = now();
      await early;
      busy(5);
    });
    hasIfAll(ended.get('x'), 's', at);
  },

  async 'a promise resolved a while ago in the callback: from the await'() {
    let at;
    await within('x', async () => {
      await sleep(1);
      const early = Promise.resolve();
      busy(10);
      outside(() => Promise.resolve().then(() => busy(30)));
      at = now();
      await early;
      busy(15);
    });
    hasIfAll(ended.get('x'), 's', at);
  },

  async 'another span calls a bound function'() {
    const binds = [(work) => context.bind(context.active(), work)];
    // From Node 24 on, the hook runs before the bound context is back.
    if (MAJOR < 24) binds.push((work) => AsyncResource.bind(work));
    for (const bind of binds) {
      let bound;
      let at;
      const waiting = within('x', () => new Promise((done) => (bound = bind(() => { at = now(); busy(1); done(); }))));
      await sleep(1);
      await within('other', async () => { busy(5); bound(); });
      await waiting;
      assert.strictEqual(has(ended.get('x'), 's', at).ns, 0);
    }
  },

  async 'an immediate: from the call'() {
    assert.strictEqual(setImmediate, timers.setImmediate);
    for (const call of [setImmediate, promisify(setImmediate)]) {
      let at;
      await within('x', () => new Promise((done) => {
        at = now();
        if (call === setImmediate) setImmediate((one, other) => done(assert.deepStrictEqual([one, other], [1, 2])), 1, 2);
        else call(1).then(done);
        busy(30);
      }));
      // Without a hook for new resources, Node's own `promisify` notes none.
      if (ALL || call === setImmediate) assert.ok(has(ended.get('x'), 's', at).ns >= 30e6);
    }
  },

  async 'ticks and microtasks: from the call'() {
    // From Node 24 on, the hook runs before the microtask's context is back.
    for (const call of [process.nextTick, ...(MAJOR < 24 ? [queueMicrotask] : [])]) {
      let at;
      await within('x', async () => {
        await sleep(1);
        outside(() => (call === process.nextTick ? process.nextTick : queueMicrotask)(() => busy(30)));
        busy(3);
        at = now();
        await new Promise((done) => call(() => { busy(6); done(); }));
      });
      hasIfAll(ended.get('x'), 's', at);
    }
  },

  async 'shared memory calls no hook: its reason is not known'() {
    for (const isScheduled of [true, false]) {
      const shared = new Int32Array(new SharedArrayBuffer(4));
      await sleep(1);
      const { value } = Atomics.waitAsync(shared, 0, 0, 40);
      // The wait alone does not keep the process.
      const keeper = setTimeout(() => {}, 10000);
      const waiting = within('x', async () => { await value; busy(5); });
      // The last known callback is a timer's, or one scheduled by a span.
      await sleep(10);
      if (isScheduled) await within('other', async () => outside(() => process.nextTick(() => {})));
      await waiting;
      clearTimeout(keeper);
      assert.strictEqual(longest(ended.get('x')).letter, '-');
    }
  },

  async 'an early timer was due at its turn'() {
    let at;
    await within('x', () => new Promise((done) => {
      setTimeout(() => { at = now(); busy(5); done(); }, 5).isEarly = true;
    }));
    assert.strictEqual(has(ended.get('x'), 't', at).ns, 0);
  },

  async 'a timer without its due time has no reason'() {
    await within('x', () => new Promise((done) => {
      setTimeout(() => { busy(5); done(); }, 5).isStrange = true;
    }));
    assert.strictEqual(longest(ended.get('x')).letter, '-');
  },

  async 'a turn behind another span in the callback has no reason'() {
    await within('x', async () => {
      await new Promise((done) => setTimeout(done, 1));
      await new Promise((done) => setTimeout(() => {
        within('other', async () => busy(1));
        busy(5);
        done();
      }, 1));
    });
    assert.strictEqual(longest(ended.get('x')).letter, '-');
  },

  async 'reasons take little memory'() {
    v8.setFlagsFromString('--expose-gc');
    const collect = vm.runInNewContext('gc');
    const used = () => (collect(), process.memoryUsage().heapUsed / 1e6);
    let begin = used();
    for (let left = 400000; left; left -= 1) await undefined;
    assert.ok(used() - begin < 25, String(used() - begin));
    // The last noted turns stay until others are noted.
    await within('other', () => sleep(1));
    begin = used();
    // Each round leaves reasons for some promises, and two turns.
    await within('x', async () => {
      for (let left = 30000; left; left -= 1) {
        await new Promise((done) => setImmediate(() => outside(() => setImmediate(() => { done(); busy(0.01); }))));
        if (left % 5000 === 0) assert.ok(used() - begin < 0.5, String(used() - begin));
      }
    });
  },

  async 'spans within each other: their turns within a callback have no reason'() {
    let due;
    await within('outer', async () => {
      busy(1);
      await within('inner', async () => { due = now() + 5; await sleep(5); busy(1); });
      busy(1);
      await sleep(1);
    });
    const [inner, outer] = [ended.get('inner'), ended.get('outer')];
    assert.strictEqual(inner[0].letter, '-');
    has(inner, 't', due);
    assert.strictEqual(outer[0].letter, '-');
    const continued = outer.find(({ since }) => since >= inner.at(-1).until - 2000);
    assert.strictEqual(continued.letter, '-', JSON.stringify(outer));
    assert.strictEqual(outer.some(({ letter }) => letter === 't'), true);
  },

  async 'callbacks that follow each other are a turn'() {
    const loop = async () => { for (let left = 1000; left; left -= 1) await undefined; };
    for (let left = 20; left; left -= 1) await within('warm', loop);
    await within('x', loop);
    assert.ok(ended.get('x').length < 32, String(ended.get('x').length));
  },

  async 'the last 64 turns have as many reasons'() {
    for (const count of [63, 64, 65, 130, 300]) {
      let due;
      await within('x', async () => {
        for (let left = count; left; left -= 1) {
          await new Promise((done) => {
            setImmediate(() => outside(() => setImmediate(() => { done(); busy(0.02); })));
          });
        }
        due = now() + 5;
        await sleep(5);
      });
      const turns = ended.get('x');
      has(turns.slice(-3), 't', due);
      assert.ok(turns.length <= 64);
      assert.ok(turns.length >= Math.min(count, 64), String(turns.length));
    }
  },
};

async function main() {
  // Before the plug-in follows contexts. This hook runs before the plug-in's.
  createHook({
    before() {
      const timer = executionAsyncResource();
      if (timer.isEarly) timer._idleStart += 1000;
      if (timer.isStrange) timer._idleStart = undefined;
    },
  }).enable();
  const early = await import('timers');
  provider.register();
  assert.strictEqual(early.setImmediate, setImmediate);
  for (const [name, run] of Object.entries(cases)) {
    for (let left = 3; left; left -= 1) {
      ended.clear();
      await sleep(1);
      try {
        await run();
        break;
      } catch (error) {
        if (left > 1) continue;
        process.stdout.write(`${name}: ${error.stack}\n`);
        process.exit(1);
      }
    }
  }
  process.stdout.write(`${Object.keys(cases).length} cases\n`);
}

main();
