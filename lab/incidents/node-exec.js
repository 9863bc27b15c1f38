// cause: a Node program runs a command and waits for its end; the command sleeps for 1.2 s
// size: 1200 ms
// ask: record -- $0
// who: sleep
// says: sleeping
// json: contributors kind=timer comm=sleep
const { exec } = require("child_process"), fs = require("fs");
const twin = process.env.TWIN;
exec(twin ? "true" : "sleep 1.2", () => {
  fs.appendFileSync(process.env.PLANTED, "twin 0\n");
  const began = Date.now();
  while (twin && Date.now() - began < 500);
});
