# cause: a read of a file in a FUSE file system hangs: its daemon is stopped
# size: 2 s
# needs: /dev/fuse
# ask: record -p $pid -d 2
# who: objectstore
# says: stopped
# short: undecided
# json: open_chains.waits tid=$pid call=read
# twin: objectstore
# twin: stopped
import ctypes, os, signal, struct, sys, time
twin = "TWIN" in os.environ
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("m")
fuse = os.open("/dev/fuse", os.O_RDWR)
# In a mount namespace of its own, so that the mount goes with the program.
libc.unshare(0x20000)
libc.mount(b"none", b"/", None, 0x44000, None)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fuse
if libc.mount(b"objects", b"m", b"fuse", 0, options) != 0:
    print("lacks mounts by FUSE:", ctypes.get_errno(), file=open(os.environ["PLANTED"], "a"))
    sys.exit()
def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, 5)
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def serve(read):
    while True:
        request = os.read(fuse, 1 << 18)
        _, code, unique, node = struct.unpack("<IIQQ", request[:24])
        error, body = 0, b""
        if code == 26:
            body = struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 12, 9, 65536, 1, *[0] * 10)
        elif code == 1:
            body = struct.pack("<4Q2I", 2, 0, 60, 60, 0, 0) + attributes(2)
        elif code == 3:
            body = struct.pack("<QII", 60, 0, 0) + attributes(node)
        elif code == 14:
            body = struct.pack("<QII", 0, 1, 0)
        elif code == 15:
            body = read(*struct.unpack("<Q", request[48:56]))
        elif code in (18, 25):
            pass
        elif code == 2:
            continue
        else:
            error = -38
        os.write(fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
daemon = os.fork()
if daemon == 0:
    open("/proc/self/comm", "w").write("objectstore")
    serve(lambda offset: b"hello"[offset:])
# The connection ends with the daemon: no other process has it.
os.close(fuse)
data = open("m/data", "rb", buffering=0)
reader = os.fork()
if reader == 0:
    open("/proc/self/comm", "w").write("viewer")
    time.sleep(0.3)
    data.read(5)
    signal.pause()
if not twin:
    os.kill(daemon, signal.SIGSTOP)
time.sleep(0.8)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", reader, "\ntwin 0", "\nready", file=planted)
signal.pause()
