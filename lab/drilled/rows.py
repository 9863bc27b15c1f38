"""The rows: each case of the stranger's table, what is started, what is asked, and what a right answer is. Written before any run."""

import dataclasses

from judge import Truth
from targets import Compiled, Go, Nginx, Other, Postgres, Python, Redis, Rust, Source, Tokio


@dataclasses.dataclass
class Row:
    """`number` is the stranger's. `twin` has edits that take the cause away (None: without a twin), `absent` what its answer must not name."""

    name: str
    number: int
    case: str
    what: object
    truth: Truth
    twin: tuple = None
    absent: Truth = None
    clocked: bool = True
    note: str = ""


CLOCKED_C = [("sink+=f0(i); ", "CLOCKED(sink+=f0(i)); ")]
SORT = Source("cb.c", *CLOCKED_C)
SORT_TIMED = Source("cbt.c", *CLOCKED_C)
SORT_SMALL = Source("q.c", *CLOCKED_C)
CLOCKED_CC = [("t+=serve(i);", "CLOCKED(t+=serve(i));")]
TAIL = Source("svc.cc", *CLOCKED_CC)
PLAIN = Source("svc2.cc", *CLOCKED_CC)
RUST = Source(
    "svc.rs",
    (
        "{ t=t.wrapping_add(serve(i,&hs,&m,&mode));",
        "{ let began=drilled::now(); t=t.wrapping_add(serve(i,&hs,&m,&mode)); clock.lap(began);",
    ),
    ("let mut t=0u64;", "let mut clock=drilled::Clock::new(); let mut t=0u64;"),
)
RUST_TAIL = Source("svc.rs", *RUST.edits, (".wrapping_add(1) }", " }"), (".wrapping_add(2)", ""))
INDIRECT = Source("ind.c", ("g+=top(i,n);", "CLOCKED(g+=top(i,n));"))
HOT = Source(
    "hot.c",
    ("sink+=fib(i%15==0?17:6);", "CLOCKED(sink+=fib(i%15==0?17:6));"),
    ("sink+=push_tiny(i);", "{ CLOCKED_MANY(i, 4096); sink+=push_tiny(i); }"),
)
SELDOM = Source("hot.c", *HOT.edits)
LAPS = [("time.perf_counter()-t", "clock.lap(time.perf_counter()-t)")]
APP = Source(
    "app.py", ("i+=1; handle(i);", "i+=1; began=clock.now(); handle(i); clock.lap(clock.now()-began);"), ("import re,", "import clock,re,")
)
KEYS = Source(
    "rload.py",
    ("import socket,", "import clock,socket,"),
    ("slow+=1; tk+=time.perf_counter()-t", "slow+=1; tk+=clock.lap(time.perf_counter()-t)"),
    ("tg+=time.perf_counter()-t", "tg+=clock.lap(time.perf_counter()-t)"),
)
FSYNC = Source(
    "aof.py",
    ("import socket,", "import clock,socket,"),
    ("b'v'); l.append(time.perf_counter()-t)", "b'v'); l.append(clock.lap(time.perf_counter()-t))"),
    ("cmd(b'GET',b'k%d'%(i%1000))", "cmd(b'GET',b'k%d'%(i%1000)); clock.lap(time.perf_counter()-t)"),
)
SQLITE = Source(
    "sq.py",
    ("import sqlite3,", "import clock,sqlite3,"),
    ("ls.append(time.perf_counter()-t)", "ls.append(clock.lap(time.perf_counter()-t))"),
    ("lf.append(time.perf_counter()-t)", "lf.append(clock.lap(time.perf_counter()-t))"),
)
PG_SCAN = Source(
    "pgload.py",
    ("import sys,", "import clock,sys,"),
    ("ls.append(time.perf_counter()-t)", "ls.append(clock.lap(time.perf_counter()-t))"),
    ("lf.append(time.perf_counter()-t)", "lf.append(clock.lap(time.perf_counter()-t))"),
)
PG_LOCK = Source(
    "pglock.py",
    ("import sys,", "import clock,sys,"),
    (
        "    if bid==3: ls.append(time.perf_counter()-t)",
        "    clock.lap(time.perf_counter()-t)\n    if bid==3: ls.append(time.perf_counter()-t)",
    ),
)
GZIP = Source(
    "gzload.py",
    ("import http.client,", "import clock,http.client,"),
    ("l.setdefault(p,[]).append(time.perf_counter()-t)", "l.setdefault(p,[]).append(clock.lap(time.perf_counter()-t))"),
)
TOKIO, CARGO, GO = Source("tok.rs"), Source("tok-Cargo.toml"), Source("svc.go")

QSORT = Truth(culprit=r"^(__GI_)?_*qsort(_r)?$|^msort_with_tmp|^cmp$", path=r"^(f0|sort_all)")
NO_SORT = [("if(i%20==0) r+=", "if(i<0) r+=")]
SORTED = Truth(culprit=r"^sort_all|qsort|^msort_with_tmp|^cmp$")
LOCK = Truth(
    culprit=r"touch_registry|lll_lock_wait|pthread_mutex_lock|futex",
    path=r"^(serve|dispatch|Locked::handle)",
    wait=r"\block|futex|clock_nanosleep",
)
# The holder is gone: nothing waits.
NO_HOLDER = [("std::lock_guard<std::mutex> g(registry_mutex); usleep(5000);", "usleep(5000);")]
LOCKED = Truth(culprit=r"lll_lock_wait|futex", wait=r"\block\b|clock_nanosleep")
HEAVY = Truth(culprit=r"checksum", path=r"^(serve|dispatch|Heavy::handle)")
NO_HEAVY = [('p = getenv("HEAVY")? "/heavy":"/locked";', 'p = "/fast";')]
HEAVED = Truth(culprit=r"Heavy")
RUST_LOCK = Truth(culprit=r"Slow.*handle|lock_contended|futex|syscall", path=r"serve$", wait=r"\block|futex|nanosleep")
NO_RUST_HOLDER = [("thread::sleep(Duration::from_millis(4));", "")]
RUST_LOCKED = Truth(culprit=r"lock_contended", wait=r"\block\b|nanosleep")
RUST_MAP = Truth(culprit=r"clone_map|[Cc]lone|hashbrown|RawTable|HashMap|malloc|alloc|drop|free", path=r"serve$")
RENDER = Truth(culprit=r"render|push_str|fmt|to_string", path=r"route|conn|closure|poll")
NO_RENDER = [("render(60000)", "{ std::thread::sleep(std::time::Duration::from_millis(5)); render(20) }")]
SNAPSHOT = Truth(culprit=r"snapshot|mapIterNext|mapassign|mapiter|\(\*Iter\)|\(\*Map\)|growWork|hashGrow|evacuate", path=r"ServeHTTP")
MAIL = Truth(culprit=r"check_mail", path=r"^handle|normal$")
KEYS_TRUTH = Truth(culprit=r"keysCommand|dictNext|stringmatch", path=r"^(processCommand|call)$")
AOF = Truth(culprit=r"fdatasync|fsync", path=r"beforeSleep|aeProcessEvents|flushAppendOnlyFile", wait=r"disk|fdatasync|fsync")
SQL_SCAN = Truth(
    culprit=r"sqlite3VdbeExec|VdbeExec|BtreeNext|btreeNext|RecordCompare|moveToChild|getPage|pcache|memcmp|sqlite3\+|libsqlite3\S*\+0x",
    path=r"sqlite3_step|sqlite3Step",
)
SQL_SYNC = Truth(
    culprit=r"Commit|[Ss]ync|fdatasync|[Pp]ager|unix",
    path=r"sqlite3_step|sqlite3VdbeExec|sqlite3Step|Halt|libsqlite3\S*\+0x",
    wait=r"disk|sync|block|write",
)
PG_SEQ = Truth(
    culprit=r"^heap_?get|HeapTupleSatisfies|ExecScan$|SeqNext|ExecSeqScan|table_scan|ExecStoreBufferHeap|slot_getsomeattrs|ExecInterp|hash_search_with_hash|ReadBuffer",
    # Two workers scan too: the process that is asked about waits for them.
    path=r"^(PortalRun\w*|ExecutorRun|standard_ExecutorRun|Exec\w*|WaitLatch|WaitEventSetWait|epoll_wait)$",
)
# Without scans the load prints no median of them: their list is empty.
NO_SEQ = [("if i%25==0:", "if i<0:"), ("ls[len(ls)//2]", "sum(ls)")]
SEQUED = Truth(culprit=r"^heapgetpage|HeapTupleSatisfies|heap_getnextslot")
PG_ROW = Truth(
    culprit=r"XactLockTableWait|LockAcquire\w*|ProcSleep|WaitLatch|WaitEventSetWait|heap_update|epoll_wait",
    path=r"^(PortalRun\w*|ExecutorRun|standard_ExecutorRun|Exec\w*|ProcessQuery)$",
    wait=r"\block|postgres|nanosleep|python3",
)
NO_ROW = [("threading.Thread(target=other,daemon=True).start()", "")]
ROWED = Truth(culprit=r"XactLockTableWait|ProcSleep", wait=r"nanosleep")
DEFLATE = Truth(culprit=r"deflate|longest_match|compress_block|libz|_tr_", path=r"^ngx_http|^nginx|^ngx_|pread|sendfile|writev|output")
BELOW_DEFLATE = Truth(culprit=r"longest_match|compress_block|_tr_|libz\.so", path=r"^deflate$")
NO_GZIP = [("'/gz/big.txt' if i%20==0", "'/gz/big.txt' if i<0")]
VISIT = Truth(culprit=r"^(visit|cheap)$", path=r"^top$")
NO_VISIT = [("if(i%20==0) r+=visit(n);", "if(i<0) r+=visit(n);")]
CLANGS = {"gcc": "clang", "g++": "clang++"}


def c(name, number, case, source, flags="-O2", compiler="gcc", truth=QSORT, twin=NO_SORT, absent=SORTED, function="f0", **more):
    return Row(name, number, case, Compiled(source, compiler, flags, function=function, **more), truth, twin, absent)


def cc(name, number, case, source, flags="-O2", compiler="g++", truth=LOCK, twin=NO_HOLDER, absent=LOCKED, function="serve", **more):
    return Row(name, number, case, Compiled(source, compiler, flags, function=function, **more), truth, twin, absent)


HEAVY_ENV = (("HEAVY", "1"),)
heavy = {"truth": HEAVY, "twin": NO_HEAVY, "absent": HEAVED, "environment": HEAVY_ENV}


def rust(name, number, case, source=RUST, function="svc::serve", truth=RUST_LOCK, twin=NO_RUST_HOLDER, absent=RUST_LOCKED, args=(), **more):
    return Row(name, number, case, Rust(source, args, function, **more), truth, twin, absent)


def refused(name, number, case, what, refusal):
    return Row(name, number, case, what, Truth(refusal=refusal), clocked=False)


NODE = "function handle(n){let s=0;for(let i=0;i<n;i++)s+=i;return s} setInterval(()=>handle(1e6),5)"
JAVA = "public class App { static long handle(int n){ long s=0; for(int i=0;i<n;i++) s+=i; return s; } public static void main(String[] a) throws Exception { for(;;){ handle(1000000); Thread.sleep(2); } } }"
NOT_NAMED = r"no function|several|more than one|similar"
POSTGRES = "postgres"
ROWS = [
    cc("cc-gcc", 1, "C++ -O2, the lock's `serve`, which ends in a call", TAIL),
    cc("cc-gcc-g", 1, "the same, -g", TAIL, "-O2 -g"),
    cc("cc-clang", 1, "the same, clang", TAIL, compiler="clang++"),
    cc("cc-static", 1, "the same, static", TAIL, "-O2 -static"),
    cc("cc-dispatch", 3, "the same, `dispatch`, which ends in a virtual call", TAIL, function="dispatch"),
    cc("cc-tail-heavy", 2, "virtual call in the last place, CPU below", TAIL, **heavy),
    cc("cc2-gcc", 5, "without the tail call", PLAIN),
    cc("cc2-g", 5, "the same, -g", PLAIN, "-O2 -g"),
    cc("cc2-clang", 5, "the same, clang", PLAIN, compiler="clang++"),
    cc("cc2-static", 6, "the same, static", PLAIN, "-O2 -static"),
    cc("cc2-heavy", 7, "CPU in a template", PLAIN, **heavy),
    cc("cc2-heavy-handle", 7, "the same, `Heavy::handle` is asked about", PLAIN, function="Heavy::handle", **heavy),
    cc("cc2-heavy-clang", 8, "the same, clang", PLAIN, compiler="clang++", **heavy),
    cc("cc2-lto", 9, "LTO", PLAIN, "-O2 -flto"),
    cc("cc2-dispatch", 9, "`dispatch` in the plain build", PLAIN, function="dispatch"),
    refused("name-handle", 10, "a name of four functions", Compiled(PLAIN, "g++", function="handle"), NOT_NAMED),
    refused("name-locked", 10, "a name with a wildcard", Compiled(PLAIN, "g++", function="Locked*"), NOT_NAMED + "|not one function|\\*"),
    refused("stripped-cc", 11, "stripped C++", Compiled(PLAIN, "g++", function="serve", strip=True), "no function|stripped"),
    refused("stripped-rust", 11, "stripped Rust", Rust(RUST, (), "svc::serve", strip=True), "no function|stripped"),
    c("sort", 12, "C -O2, qsort of 20,000", SORT),
    c("sort-clang", 12, "the same, clang", SORT, compiler="clang"),
    c("sort-cf", 12, "the same, -fcf-protection", SORT, "-O2 -fcf-protection"),
    c("sort-lto", 12, "the same, LTO", SORT, "-O2 -flto"),
    c("sort-g", 12, "the same, -g", SORT, "-O2 -g"),
    c("sort-nofp", 12, "the same, -O3 without frame pointers", SORT, "-O3 -fomit-frame-pointer"),
    c("sort-timed", 13, "the same, beside its own clock", SORT_TIMED),
    c("sort-3000", 14, "qsort of 3,000", SORT_SMALL),
    c("sort-300", 14, "qsort of 300", SORT_SMALL, edits=[("sort_all(3000)", "sort_all(300)")], twin=None),
    c("sort-static", 15, "static C", SORT, "-O2 -static"),
    c("sort-static-3000", 16, "static C, qsort of 3,000", SORT_SMALL, "-O2 -static"),
    rust("rust-lock", 17, "Rust, a mutex behind dyn"),
    rust("rust-lock-g", 18, "the same, -g", flags="-O -g"),
    rust("rust-tail", 19, "the same, `serve` leaves by a jump", RUST_TAIL),
    rust(
        "rust-map",
        20,
        "Rust, HashMap::clone",
        truth=RUST_MAP,
        args=("map",),
        twin=[('if mode=="map"', 'if mode=="none"')],
        absent=Truth(culprit="clone_map"),
    ),
    Row(
        "tokio-route",
        22,
        "tokio, `tok::route` and below it `render`",
        Tokio(TOKIO, CARGO, ("/=9", "/report=1"), "tok::route"),
        RENDER,
        NO_RENDER,
        Truth(culprit="render"),
    ),
    Row(
        "tokio-conn",
        22,
        "the same, `tok::conn::{{closure}}`",
        Tokio(TOKIO, CARGO, ("/=9", "/report=1"), "tok::conn::{{closure}}"),
        RENDER,
        NO_RENDER,
        Truth(culprit="render"),
    ),
    Row(
        "tokio-mutex",
        23,
        "tokio, an async Mutex below .await",
        Tokio(TOKIO, CARGO, ("/=1", "/db=1"), "tok::conn::{{closure}}", connections=6),
        Truth(path="conn|closure|poll|route|bump|fetch", says=r"poll"),
    ),
    refused("tokio-async-fn", 24, "`tok::conn`, an async fn", Tokio(TOKIO, CARGO, ("/=9", "/report=1"), "tok::conn"), r"async|closure"),
    Row("go", 25, "Go, a handler that copies a map", Go(GO, (), "main.(*H).ServeHTTP"), SNAPSHOT, [("h.n%30==0", "h.n<0")], SNAPSHOT),
    Row(
        "go-stripped",
        26,
        "the same, -s -w",
        Go(GO, ("-ldflags=-s -w",), "main.(*H).ServeHTTP"),
        SNAPSHOT,
        [("h.n%30==0", "h.n<0")],
        SNAPSHOT,
    ),
    Row("python", 27, "Python 3.11 of Debian, a slow regex", Python(APP), MAIL, [("if i%25==0:", "if i<0:")], MAIL),
    refused("python-3.11.7", 28, "pyenv's 3.11.7", Python(APP, version="3.11.7"), "probes|dtrace|not supported"),
    refused("python-3.12.1", 28, "pyenv's 3.12.1", Python(APP, version="3.12.1"), "probes|dtrace|not supported|3\\.11"),
    refused("python-3.13.0", 28, "pyenv's 3.13.0", Python(APP, version="3.13.0"), "probes|dtrace|not supported|3\\.11"),
    refused("node", 29, "Node", Other(("node", "{directory}/app.js"), "/usr/bin/node:handle", files=(("app.js", NODE),)), "JavaScript"),
    refused("java", 30, "Java", Other(("java", "{directory}/App.java"), "java:handle", files=(("App.java", JAVA),)), "Java"),
    Row(
        "redis-keys",
        32,
        "Redis, KEYS among 200 GETs, by its link's name",
        Redis(KEYS, "redis-server:processCommand"),
        KEYS_TRUTH,
        [("if n%200==0:", "if n<0:")],
        Truth(culprit=KEYS_TRUTH.culprit),
    ),
    Row(
        "redis-keys-path",
        33,
        "the same, by its path",
        Redis(KEYS, "/usr/bin/redis-server:processCommand"),
        KEYS_TRUTH,
        [("if n%200==0:", "if n<0:")],
        Truth(culprit=KEYS_TRUTH.culprit),
    ),
    Row(
        "redis-call",
        35,
        "the same, `call`",
        Redis(KEYS, "redis-server:call"),
        KEYS_TRUTH,
        [("if n%200==0:", "if n<0:")],
        Truth(culprit=KEYS_TRUTH.culprit),
    ),
    Row(
        "redis-fsync",
        36,
        "Redis, fsync always, `flushAppendOnlyFile`",
        Redis(FSYNC, "redis-server:flushAppendOnlyFile", ("--appendonly", "yes", "--appendfsync", "always")),
        AOF,
        [("if i%20==0:", "if i<0:")],
        Truth(culprit="fdatasync|fsync"),
    ),
    # Debian's compiler inlined it into aeMain: objdump has one call of it, in processEventsWhileBlocked.
    refused(
        "redis-events",
        36,
        "the same, `aeProcessEvents`, which is inlined where it runs",
        Redis(FSYNC, "redis-server:aeProcessEvents", ("--appendonly", "yes", "--appendfsync", "always")),
        "was not called",
    ),
    Row(
        "redis-sleep",
        37,
        "the same, `beforeSleep`",
        Redis(FSYNC, "redis-server:beforeSleep", ("--appendonly", "yes", "--appendfsync", "always")),
        AOF,
        [("if i%20==0:", "if i<0:")],
        Truth(culprit="fdatasync|fsync"),
    ),
    Row(
        "sqlite-scan",
        38,
        "SQLite, a scan without an index",
        Python(SQLITE, ("scan", "100000"), target="libsqlite3:sqlite3_step"),
        SQL_SCAN,
        note="no twin: fast queries run the same functions",
    ),
    Row(
        "sqlite-fsync",
        39,
        "SQLite, updates among queries",
        Python(SQLITE, ("update", "100000"), target="libsqlite3:sqlite3_step"),
        SQL_SYNC,
        [("if i%30==0:", "if i<0:")],
        Truth(culprit="[Ff]sync|fdatasync|Commit"),
    ),
    refused(
        "pg-stripped", 41, "PostgreSQL, `exec_simple_query`", Postgres(PG_SCAN, POSTGRES + ":exec_simple_query"), "stripped|no function"
    ),
    Row("pg-scan-portal", 42, "PostgreSQL, a scan, `PortalRun`", Postgres(PG_SCAN, POSTGRES + ":PortalRun"), PG_SEQ, NO_SEQ, SEQUED),
    Row("pg-scan", 43, "the same, `ExecutorRun`", Postgres(PG_SCAN, POSTGRES + ":ExecutorRun"), PG_SEQ, NO_SEQ, SEQUED),
    Row(
        "pg-scan-standard",
        44,
        "the same, `standard_ExecutorRun`",
        Postgres(PG_SCAN, POSTGRES + ":standard_ExecutorRun"),
        PG_SEQ,
        NO_SEQ,
        SEQUED,
    ),
    Row(
        "pg-row-lock",
        45,
        "PostgreSQL, a row another session has, `PortalRun`",
        Postgres(PG_LOCK, POSTGRES + ":PortalRun"),
        PG_ROW,
        NO_ROW,
        ROWED,
    ),
    Row(
        "nginx-gzip",
        46,
        "nginx, gzip of a large file",
        Nginx(GZIP, "nginx:ngx_http_core_run_phases"),
        DEFLATE,
        NO_GZIP,
        Truth(culprit="deflate|longest_match|compress_block"),
    ),
    Row(
        "nginx-handler",
        46,
        "the same, `ngx_http_handler`",
        Nginx(GZIP, "nginx:ngx_http_handler"),
        DEFLATE,
        NO_GZIP,
        Truth(culprit="deflate|longest_match|compress_block"),
    ),
    Row("deflate", 47, "the same, `libz:deflate`", Nginx(GZIP, "libz:deflate"), BELOW_DEFLATE),
    Row(
        "pointers-1000",
        0,
        "1,000 calls by pointer in a slow call",
        Compiled(INDIRECT, "gcc", args=("1000",), function="top"),
        VISIT,
        NO_VISIT,
        VISIT,
    ),
    Row(
        "pointers-20000",
        0,
        "20,000 calls by pointer in a slow call",
        Compiled(INDIRECT, "gcc", args=("20000",), function="top"),
        VISIT,
        NO_VISIT,
        VISIT,
    ),
    Row(
        "pointers-200000",
        0,
        "200,000 calls by pointer in a slow call",
        Compiled(INDIRECT, "gcc", args=("200000",), function="top"),
        VISIT,
        NO_VISIT,
        VISIT,
    ),
    Row("recursion", 0, "recursion", Compiled(HOT, "gcc", args=("r",), function="fib"), Truth(culprit="^fib$")),
    Row("hot", 0, "some 10^8 calls a second", Compiled(HOT, "gcc", args=("t",), function="push_tiny"), Truth(culprit="^push_tiny$")),
    Row("seldom", 0, "a call in 20 s", Compiled(SELDOM, "gcc", args=("s",), function="seldom"), Truth(culprit="^seldom$"), clocked=False),
    c(
        "never-returns",
        0,
        "a function that began before and never returns",
        SORT,
        function="__libc_start_main",
        target="libc:{function}",
        twin=None,
    ),
    c("gone", 0, "the program's file is gone, `/proc/PID/exe`", SORT_SMALL, target="/proc/{pid}/exe:{function}", gone=True, twin=None),
]


def chosen(names):
    if not names:
        return ROWS
    unknown = [name for name in names if name not in {row.name for row in ROWS}]
    if unknown:
        raise SystemExit(f"no row {', '.join(unknown)}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if row.name in names]
