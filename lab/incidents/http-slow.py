# cause: an HTTP server computes 300 ms for each answer
# size: 600 ms
# ask: record -- $0
# who: shopserver
# says: running
# json: contributors kind=running comm=shopserver
import http.server, os, signal, time, urllib.request
twin = "TWIN" in os.environ
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        began = time.process_time()
        while not twin and time.process_time() - began < 0.3:
            pass
        self.send_response(204)
        self.end_headers()
    log_message = lambda *words: None
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
process = os.fork()
if process == 0:
    open("/proc/self/comm", "w").write("shopserver")
    server.serve_forever()
if twin:
    time.sleep(0.6)
began = time.monotonic()
for request in range(2):
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
os.kill(process, signal.SIGKILL)
