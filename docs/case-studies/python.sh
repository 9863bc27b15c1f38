#!/bin/sh
# A server that has its answer at once takes 5 ms for it, because it also keeps statistics, in another thread.
# Predicts the time without them, moves the statistics into a process of their own, and prints the
# prediction beside the result. docs/case-studies/python.md has the results.
#
#   sudo docs/case-studies/python.sh [FOLDER]    keeps its recordings there, or nowhere
set -eu
. "$(dirname "$0")/measure.sh"
need /usr/bin/python3=python3 jq=jq

there=$(mktemp -d /var/tmp/wakepath-python.XXXXXX)
# A recording on the disk that is asked about would be part of the answer.
memory=$(mktemp -d /dev/shm/wakepath.XXXXXX)
kept=${1:-$memory}
mkdir -p "$kept"
server=""
end() {
	trap - EXIT INT TERM
	[ -z "$server" ] || kill "$server" 2>/dev/null || :
	rm -rf "$there" "$memory"
}
trap end EXIT
trap 'exit 1' INT TERM

cat >"$there/server.py" <<'END'
import os, signal, socketserver, sys, threading

def statistics():
    """Never done: as good as any loop over what is in memory."""
    counts = {}
    while True:
        for word in ("one", "two", "three"):
            counts[word] = counts.get(word, 0) + 1

class Answers(socketserver.StreamRequestHandler):
    def handle(self):
        for question in self.rfile:
            self.wfile.write(b"42\n")

if sys.argv[2] == "thread":
    threading.Thread(target=statistics, daemon=True).start()
elif os.fork() == 0:
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    statistics()
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer.daemon_threads = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
END
cat >"$there/client" <<END
#!/usr/bin/python3
import socket, time
with socket.create_connection(("127.0.0.1", 8490)) as connection:
    began = time.monotonic()
    for _ in range(50):
        connection.sendall(b"?\\n")
        connection.recv(16)
    print("%.1f" % ((time.monotonic() - began) * 1000))
END
chmod 755 "$there/client"

serve() {
	[ -z "$server" ] || { kill "$server"; wait "$server"; } 2>/dev/null || :
	/usr/bin/python3 "$there/server.py" 8490 "$1" 2>"$there/log" &
	server=$!
	until "$there/client" >/dev/null 2>&1; do sleep 0.1; done
}

# Where the server's thread sleeps in a futex: nothing else in it does.
cause() { part '.call == "futex"'; }

for run in $(seq "$RUNS"); do
	serve thread
	"$there/client" >>"$there/python.before"
	"$WAKEPATH" record -o "$kept/python.rec" -- "$there/client" >>"$there/python.recorded" 2>/dev/null
	"$WAKEPATH" path --json "$kept/python.rec" 2>/dev/null | cause >>"$there/python.cause"
	serve process
	"$there/client" >>"$there/python.after"
done
say "run $run: what wakepath says"
"$WAKEPATH" path "$kept/python.rec"
echo
"$WAKEPATH" path --join-timeouts --tree "$kept/python.rec"
say "prediction and result"
verdict "$there/python"
