# cause: curl asks through socat a server, which sleeps for 1.2 s before its answer
# size: 1200 ms
# ask: record -- curl -s http://127.0.0.1:$port/quote
# needs: socat
# who: quoted
# who: socat
# says: slept
# json: contributors kind=timer comm=quoted
# twin: quoted
# twin: slept
cat >server.py <<'P'
import os, socket, time
open("/proc/self/comm", "w").write("quoted")
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], file=open("port.new", "w"))
os.rename("port.new", "port")
connection, _ = listener.accept()
connection.recv(1000)
if "TWIN" not in os.environ:
    time.sleep(1.2)
connection.send(b"HTTP/1.0 200 OK\r\n\r\nok\n")
P
rm -f port
python3 server.py &
while [ ! -e port ]; do sleep 0.02; done
socat tcp-listen:18471,reuseaddr,bind=127.0.0.1 tcp:127.0.0.1:$(cat port) &
sleep 0.5
printf 'port 18471\ntwin 0\nready\n' >>"$PLANTED"
wait
