// cause: a Node program waits for the answer of another process, which computes
// size: 700 ms
// ask: record -- $0
// who: inventory
// says: running
// json: contributors kind=running comm=inventory
const twin = "TWIN" in process.env;
const { fork } = require("node:child_process");
const fs = require("node:fs");
if (process.argv[2] === "child") {
  fs.writeFileSync("/proc/self/comm", "inventory");
  process.on("message", () => {
    const ran = () => process.cpuUsage().user + process.cpuUsage().system;
    const began = ran();
    while (!twin && ran() - began < 700_000);
    process.send("answer", () => process.exit());
  });
} else {
  const child = fork(__filename, ["child"]);
  child.on("spawn", () => setTimeout(() => {
    const began = Date.now();
    child.send("question");
    child.on("message", () => {
      fs.appendFileSync(process.env.PLANTED, `twin ${(Date.now() - began) / 1000}\n`);
      process.exit();
    });
  }, twin ? 900 : 0));
}
