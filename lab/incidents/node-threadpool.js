// cause: the read of a small file waits in libuv's pool of two threads, behind four jobs that compute
// size: $long s
// ask: record -- $0
// who: node
// says: its other threads
// says: running
// json: segments kind=running depth=1
// twin: its other threads
// twin: running
process.env.UV_THREADPOOL_SIZE = "2";
const crypto = require("node:crypto"), fs = require("node:fs");
const twin = "TWIN" in process.env;
for (let job = 0; job < 4 && !twin; job++) crypto.pbkdf2("word", "salt", 800_000, 64, "sha512", () => {});
const read = () => {
  const began = Date.now();
  fs.readFile("/etc/hostname", () => {
    const took = (Date.now() - began) / 1000;
    fs.appendFileSync(process.env.PLANTED, `long ${took}\ntwin ${took}\n`);
    process.exit();
  });
};
if (twin) setTimeout(read, 900);
else read();
