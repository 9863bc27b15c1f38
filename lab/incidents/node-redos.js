// cause: a request waits for the only thread of its Node server, which runs a backtracking regular expression for another request
// size: 1.2 s
// ask: record -- $0
// who: shopregex
// says: running
// json: contributors kind=running comm=shopregex
const { fork } = require("node:child_process");
const fs = require("node:fs"), http = require("node:http");
const twin = "TWIN" in process.env;
if (process.argv[2] === "server") {
  fs.writeFileSync("/proc/self/comm", "shopregex");
  const server = http.createServer((question, answer) => {
    const ran = () => process.cpuUsage().user + process.cpuUsage().system;
    const began = ran();
    if (question.url === "/bad") process.send("began");
    while (!twin && question.url === "/bad" && ran() - began < 1_200_000) /"(?:\\.|[^"])*"/.test('"' + "\\!".repeat(22));
    answer.end("ok\n");
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
} else {
  const server = fork(__filename, ["server"]);
  server.once("message", (port) => {
    const ask = (path, then) => http.get({ host: "127.0.0.1", port, path, agent: false }, (answer) => answer.resume().on("end", then));
    ask("/bad", () => {});
    server.once("message", () => setTimeout(() => {
      const began = Date.now();
      ask("/good", () => {
        const took = (Date.now() - began) / 1000;
        fs.appendFileSync(process.env.PLANTED, `twin ${took}\n`);
        server.kill("SIGKILL");
        process.exit();
      });
    }, twin ? 1200 : 0));
  });
}
