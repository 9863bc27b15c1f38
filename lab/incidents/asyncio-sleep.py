# cause: a request waits for the only event loop of its server, which sleeps in time.sleep for another request
# size: $long s
# ask: record -- $0
# who: shopapi
# says: sleeping
# json: contributors kind=timer comm=shopapi
import asyncio, os, signal, socket, time
twin = "TWIN" in os.environ
listener = socket.create_server(("127.0.0.1", 0))
async def handle(reader, writer):
    if b"slow" in await reader.readline():
        os.write(begun, b"1")
        if twin:
            await asyncio.sleep(1.5)
        else:
            time.sleep(1.5)
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
    await writer.drain()
    writer.close()
async def serve():
    await (await asyncio.start_server(handle, sock=listener)).serve_forever()
begins, begun = os.pipe()
server = os.fork()
if server == 0:
    open("/proc/self/comm", "w").write("shopapi")
    asyncio.run(serve())
def ask(path):
    client = socket.create_connection(listener.getsockname())
    client.send(b"GET /%s HTTP/1.0\r\n\r\n" % path)
    return client
other = ask(b"slow")
os.read(begins, 1)
began = time.monotonic()
ask(b"fast").recv(100)
long = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass
os.kill(server, signal.SIGKILL)
