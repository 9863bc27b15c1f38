# cause: a Node program asks for four names, two at a time; the name server on 127.0.0.79 never answers
# size: $long s
# needs: node
# needs: unshare
# ask: record -- sh victim
# who: 127.0.0.79:53
# says: DNS
# says: nothing came
# short: nothing came
# never: sleeping
# json: segments object.name~127.0.0.79:53
cat >names.py <<'PY'
import os, socket
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.79", 53))
while True:
    question, client = names.recvfrom(512)
    if "TWIN" in os.environ:
        names.sendto(question[:2] + b"\x81\x83\0\1" + bytes(6) + question[12:question.index(b"\0", 12) + 5], client)
PY
python3 names.py &
printf 'nameserver 127.0.0.79\noptions timeout:1 attempts:1\n' >resolv.conf
cat >lookup.js <<'JS'
const dns = require("node:dns"), fs = require("node:fs");
const began = Date.now();
let open = 4;
for (const host of ["a", "b", "c", "d"])
  dns.lookup(`${host}.example.test`, () => {
    const took = (Date.now() - began) / 1000;
    if (--open === 0) fs.appendFileSync(process.env.PLANTED, `long ${took}\ntwin ${took}\n`);
  });
JS
cat >victim <<'SH'
exec unshare -m sh -c 'mount --bind resolv.conf /etc/resolv.conf && exec node lookup.js'
SH
sleep 0.5
echo ready >>"$PLANTED"
wait
