# healthy: curl gets a page from a server on this host, which answers at once
# needs: curl
# ask: record -- curl -s -o page http://127.0.0.1:$port/page
head -c 30000000 /dev/urandom >page
cat >server.py <<'PY'
import functools, http.server, os
Handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=".")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"port {server.server_port}\nready", file=open(os.environ["PLANTED"], "a"))
server.serve_forever()
PY
mkdir -p site && mv page site && cd site && exec python3 ../server.py
