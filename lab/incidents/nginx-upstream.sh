# cause: nginx waits for the server behind it, which sleeps 1.2 s
# size: 1.2 s
# needs: nginx
# needs: curl
# ask: record -- curl -s http://127.0.0.1:$port/
# who: backend
# who: nginx
# says: clock_nanosleep
# json: contributors kind=timer comm=backend
cat >backend.py <<'PY'
import http.server, os, time
open("/proc/self/comm", "w").write("backend")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        began = time.monotonic()
        if "TWIN" not in os.environ:
            time.sleep(1.2)
        print("twin", time.monotonic() - began, file=open(os.environ["PLANTED"], "a"))
        self.send_response(204)
        self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, file=open("port", "w"))
server.serve_forever()
PY
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
python3 backend.py & until [ -s port ]; do sleep 0.1; done
cat >nginx.conf <<CONF
daemon off; worker_processes 1; pid $PWD/pid; error_log stderr;
events {}
http { access_log off; server { listen 127.0.0.1:$port; location / { proxy_pass http://127.0.0.1:$(cat port); } } }
CONF
nginx -c "$PWD/nginx.conf" & sleep 1
echo "port $port" >>"$PLANTED"
echo ready >>"$PLANTED"
wait
