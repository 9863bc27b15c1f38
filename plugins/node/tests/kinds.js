// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Callbacks for causes outside JavaScript, each in a span: prints those whose turn has another letter than
// expected, and the number of kinds.

const { context, trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const { execFile, spawn } = require('child_process');
const crypto = require('crypto');
const dgram = require('dgram');
const dns = require('dns');
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const net = require('net');
const os = require('os');
const path = require('path');
const tls = require('tls');
const { Worker } = require('worker_threads');
const zlib = require('zlib');

const kept = { onStart() {}, onEnd: ended, forceFlush: async () => {}, shutdown: async () => {} };
new NodeTracerProvider({ spanProcessors: [kept] }).register();
const tracer = trace.getTracer('kinds');

let letter;

// The longest turn's reason.
function ended({ attributes }) {
  const lengths = attributes['wakepath.turns'].slice(0, -1).split(' ').slice(1).map(Number).filter((_, number) => number % 2);
  letter = attributes['wakepath.ready'].split(' ')[lengths.indexOf(Math.max(...lengths))][0];
}

function busy(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'wakepath-kinds-'));
const at = (name) => path.join(folder, name);
const opened = [];
// Servers and others are closed behind all.
const open = (one) => (opened.push(one), one);
const listening = (server, ...rest) => new Promise((done) => open(server).listen(...rest, () => done(server.address().port)));
const LOCAL = '127.0.0.1';
// Without a certificate.
const psk = Buffer.alloc(16);
const KEYED = { ciphers: 'PSK', maxVersion: 'TLSv1.2' };
const OF_SERVER = { ...KEYED, pskCallback: () => psk };
const OF_CLIENT = { ...KEYED, pskCallback: () => ({ psk, identity: 'x' }), checkServerIdentity() {} };

async function kinds() {
  const port = await listening(net.createServer((peer) => (peer.on('error', () => {}), setTimeout(() => peer.write('x'), 5))), 0, LOCAL);
  const reader = await listening(net.createServer((peer) => peer.resume()), 0, LOCAL);
  const secure = await listening(tls.createServer(OF_SERVER, (peer) => setTimeout(() => peer.end('x'), 5)), 0, LOCAL);
  const web = await listening(http.createServer((_, response) => setTimeout(() => response.end('x'), 5)), 0, LOCAL);
  const streams = http2.createServer().on('stream', (stream) => setTimeout(() => (stream.respond(), stream.end('x')), 5));
  const session = open(http2.connect(`http://${LOCAL}:${await listening(streams, 0, LOCAL)}`));
  await listening(net.createServer(), at('socket'));
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  await new Promise((done) => http.get({ port: web, host: LOCAL, agent }, (response) => response.resume().on('end', done)));
  const udp = open(dgram.createSocket('udp4'));
  await new Promise((done) => udp.bind(0, LOCAL, done));
  const connect = (...rest) => open(net.connect(...rest));
  const resolver = new dns.Resolver({ timeout: 100, tries: 1 });
  resolver.setServers([`${LOCAL}:${udp.address().port}`]);

  return {
    'd a connection': (then) => connect(port, LOCAL, then),
    'd a connection by path': (then) => connect(at('socket'), then),
    'd data': (then) => connect(port, LOCAL).once('data', then),
    'd data by TLS': (then) => open(tls.connect({ port: secure, host: LOCAL, ...OF_CLIENT })).once('data', then),
    'd a write': (then) => connect(reader, LOCAL).write(Buffer.alloc(3e7), then),
    'd an end': (then) => connect(reader, LOCAL, function () { this.end(then); }),
    'd a peer': (then) => listening(net.createServer(then), 0, LOCAL).then((port) => connect(port, LOCAL)),
    'd a request by HTTP': (then) => {
      listening(http.createServer((_, response) => { response.end(); then(); }), 0, LOCAL)
        .then((port) => http.get({ port, host: LOCAL, agent: false }, (response) => response.resume()));
    },
    'd an answer by a kept connection': (then) => http.get({ port: web, host: LOCAL, agent }, (response) => { response.resume(); then(); }),
    'd an answer by HTTP/2': (then) => session.request().once('data', then),
    'd settings by HTTP/2': (then) => open(http2.connect(`http://${LOCAL}:${streams.address().port}`)).once('remoteSettings', then),
    'd a datagram': (then) => {
      const own = open(dgram.createSocket('udp4')).once('message', then);
      own.bind(0, LOCAL, () => udp.send('x', own.address().port, LOCAL));
    },
    'd a name by DNS': (then) => {
      udp.once('message', (question, from) => {
        const answer = Buffer.from(question);
        // No such name.
        answer.writeUInt16BE(0x8183, 2);
        setTimeout(() => udp.send(answer, from.port, from.address), 5);
      });
      resolver.resolve4('nothing.example', then);
    },
    'd a pipe': (then) => spawn('echo', ['x']).stdout.once('data', then),
    'd a change of a file': (then) => {
      open(fs.watch(folder)).once('change', then);
      setTimeout(() => fs.writeFileSync(at('changed'), 'x'), 5);
    },
    'j a file': (then) => fs.stat(folder, then),
    'j a close': (then) => fs.promises.open(at('new'), 'w').then((file) => file.close()).then(then),
    'j a name': (then) => dns.lookup('localhost', then),
    'j an address': (then) => dns.lookupService(LOCAL, 22, then),
    'j random bytes': (then) => crypto.randomBytes(9, then),
    'j a key': (then) => crypto.scrypt('a', 'b', 9, then),
    'j gzip': (then) => zlib.gzip('x', then),
    'j brotli': (then) => zlib.brotliCompress('x', then),
    ...(zlib.zstdCompress && { 'j zstd': (then) => zlib.zstdCompress('x', then) }),
    's an immediate': (then) => setImmediate(then),
    '- a worker': (then) => open(new Worker('require("worker_threads").parentPort.postMessage(1)', { eval: true })).once('message', then),
    '- a signal': (then) => (process.once('SIGUSR2', then), process.kill(process.pid, 'SIGUSR2')),
    '- the end of a process': (then) => execFile('true').once('exit', then),
    '- a watched file': (then) => {
      fs.watchFile(at('watched'), { interval: 5 }, () => (fs.unwatchFile(at('watched')), then()));
      setTimeout(() => fs.writeFileSync(at('watched'), 'x'), 20);
    },
  };
}

async function main() {
  const all = Object.entries(await kinds());
  for (const [name, start] of all) {
    // Another process may take the CPU in another turn.
    for (let left = 3; left; left -= 1) {
      await new Promise((done) => setTimeout(done, 1));
      const span = tracer.startSpan(name);
      await context.with(trace.setSpan(context.active(), span), () => new Promise((done) => start(() => { busy(80); done(); })));
      span.end();
      if (letter === name[0]) break;
      if (left === 1) process.stdout.write(`${name}: ${letter}\n`);
    }
  }
  fs.rmSync(folder, { recursive: true });
  process.stdout.write(`${all.length} kinds\n`);
  process.exit();
}

main();
