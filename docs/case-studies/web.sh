#!/bin/sh
# A shop's web request through nginx, gunicorn and PostgreSQL: twice too slow, for two reasons.
# Predicts the time that each removal saves, removes it, and prints the prediction beside the result.
# docs/case-studies/web.md has the results.
#
#   sudo docs/case-studies/web.sh [FOLDER]    keeps its recordings there, or nowhere
#
# All of it runs in a folder under /var/tmp and on ports of its own, and is stopped and removed at the end.
set -eu
. "$(dirname "$0")/measure.sh"
need nginx=nginx-light gunicorn=gunicorn /usr/lib/python3/dist-packages/psycopg2=python3-psycopg2 \
	/usr/lib/postgresql=postgresql curl=curl jq=jq

WEB=8480 APP=8481 BANK=8482 DB=8483
AT_ONCE=4    # customers who want the same thing
LINES=40     # lines of a basket
binaries=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
# Not /tmp, which may be memory: the database's disk is to be a disk.
there=$(mktemp -d /var/tmp/wakepath-web.XXXXXX)
# A recording on the disk that is asked about would be part of the answer.
memory=$(mktemp -d /dev/shm/wakepath.XXXXXX)
kept=${1:-$memory}
mkdir -p "$kept"
chmod 755 "$there"

end() {
	trap - EXIT INT TERM
	for name in nginx gunicorn bank; do
		[ ! -s "$there/$name.pid" ] || kill "$(cat "$there/$name.pid")" 2>/dev/null || :
	done
	[ ! -e "$there/db/postmaster.pid" ] ||
		setpriv --reuid postgres --regid postgres --clear-groups "$binaries/pg_ctl" -D "$there/db" -m fast -s stop || :
	wait
	rm -rf "$there" "$memory"
}
trap end EXIT
trap 'exit 1' INT TERM

say "a database, a bank that thinks for 150 ms, the shop and its proxy"
mkdir "$there/db"
chown postgres:postgres "$there/db"
as_postgres() { (cd / && setpriv --reuid postgres --regid postgres --clear-groups "$@"); }
as_postgres "$binaries/initdb" -D "$there/db" -A trust -U shop --no-sync >/dev/null
as_postgres "$binaries/pg_ctl" -D "$there/db" -s -w -l "$there/db/log" \
	-o "-p $DB -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c autovacuum=off" start
sql() { psql -qAt -h 127.0.0.1 -p "$DB" -U shop -c "$1" postgres; }
sql "CREATE TABLE stock (item int PRIMARY KEY, pieces int)"
sql "INSERT INTO stock SELECT item, 1000000 FROM generate_series(1, 1000) item"
sql "CREATE TABLE orders (at timestamptz DEFAULT now(), item int)"
sql "CREATE TABLE basket (item int, customer int)"
sql CHECKPOINT

cat >"$there/bank.py" <<'END'
# A third party: whatever is asked of it, it thinks for 150 ms.
import http.server, sys, time

class Bank(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.15)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bank).serve_forever()
END
cat >"$there/shop.py" <<'END'
import os, urllib.request
import psycopg2

BANK = "http://127.0.0.1:" + os.environ["BANK"]
database = None

def connected():
    global database
    if database is None:
        database = psycopg2.connect(host="127.0.0.1", port=os.environ["DB"], user="shop", dbname="postgres")
    return database

def charge():
    urllib.request.urlopen(urllib.request.Request(BANK, data=b"17 EUR", method="POST")).read()

def order(item, bank_first):
    """One piece less in stock, the money, the order: all of it or nothing."""
    if bank_first:
        charge()
    with connected() as db, db.cursor() as cursor:
        cursor.execute("UPDATE stock SET pieces = pieces - 1 WHERE item = %s", (item,))
        if not bank_first:
            charge()
        cursor.execute("INSERT INTO orders (item) VALUES (%s)", (item,))

def basket(lines, may_lose):
    """Each line of the basket is committed as soon as it is there; may the last ones be lost in a crash?"""
    db = connected()
    with db.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO " + ("off" if may_lose else "on"))
        for line in range(lines):
            cursor.execute("INSERT INTO basket VALUES (%s, 17)", (line,))
            db.commit()

def app(environ, start_response):
    _, what, number, how = environ["PATH_INFO"].split("/")
    {"order": order, "basket": basket}[what](int(number), how == "well")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
END
cat >"$there/nginx.conf" <<END
pid $there/nginx.pid;
error_log $there/nginx.log;
user www-data;
worker_processes 1;
events {}
http {
	access_log off;
	client_body_temp_path $there/body;
	proxy_temp_path $there/proxied;
	fastcgi_temp_path $there/fastcgi;
	uwsgi_temp_path $there/uwsgi;
	scgi_temp_path $there/scgi;
	server {
		listen 127.0.0.1:$WEB;
		location / { proxy_pass http://127.0.0.1:$APP; }
	}
}
END
/usr/bin/python3 "$there/bank.py" "$BANK" &
echo $! >"$there/bank.pid"
BANK=$BANK DB=$DB gunicorn --chdir "$there" -w "$AT_ONCE" -b "127.0.0.1:$APP" -p "$there/gunicorn.pid" \
	--log-file "$there/gunicorn.log" shop:app &
nginx -c "$there/nginx.conf"
ask() { curl -fsS -o "$there/answer" "http://127.0.0.1:$WEB/$1"; }
i=0
until ask order/1/well 2>/dev/null; do
	i=$((i + 1))
	[ $i -lt 100 ] || { echo "error: the shop does not answer" >&2; cat "$there"/*.log >&2; exit 1; }
	sleep 0.1
done
# Each of gunicorn's workers connects to the database on its first request.
for _ in 1 2 3 4 5; do
	for item in $(seq "$AT_ONCE"); do curl -fsS -o /dev/null "http://127.0.0.1:$WEB/order/$item/well" & done
	sleep 0.3
done

# A request's time as its client has it, into FILE: ms.
cat >"$there/ask" <<END
#!/bin/sh
exec curl -fsS -o "$there/answer" -w '%{stderr}%{time_total}\n' "http://127.0.0.1:$WEB/\$1" 2>"$there/took"
END
# Customers who order the same at once; what counts is the last one.
cat >"$there/rush" <<END
#!/bin/sh
for _ in $(seq -s ' ' $((AT_ONCE - 1))); do
	curl -fsS -o /dev/null "http://127.0.0.1:$WEB/\$1" &
done
sleep 0.05
exec "$there/ask" "\$1"
END
chmod 755 "$there/ask" "$there/rush"
took() { awk '{ printf "%.1f\n", $1 * 1000 }' "$there/took"; }

# study NAME REQUEST CAUSE COMMAND: predicts REQUEST's time without CAUSE, a filter of its worker's path.
study() {
	name=$1 request=$2 cause=$3 command=$4
	for run in $(seq "$RUNS"); do
		"$there/$command" "$request/badly"
		took >>"$there/$name.before"
		sleep 1
		"$WAKEPATH" record -o "$kept/$name.rec" -- "$there/$command" "$request/badly" 2>/dev/null
		took >>"$there/$name.recorded"
		sleep 1
		# Which worker answered, and from when to when the client waited for it.
		"$WAKEPATH" path --join-timeouts --json "$kept/$name.rec" >"$there/client.json" 2>/dev/null
		worker=$(jq '[.waits[] | select(.comm == "nginx" and .ended_by.comm == "gunicorn")] | last | .ended_by.tid' "$there/client.json")
		from=$(jq '[.waits[] | select(.depth == 0 and .ended_by.comm == "nginx")] | first | .from_ns / 1e9' "$there/client.json")
		to=$(jq '[.waits[] | select(.depth == 0 and .ended_by.comm == "nginx")] | last | .to_ns / 1e9' "$there/client.json")
		"$WAKEPATH" path --tid "$worker" --from "$from" --to "$to" --json "$kept/$name.rec" 2>/dev/null | $cause >>"$there/$name.cause"
	done
	say "$name, run $run: what wakepath says of the client"
	"$WAKEPATH" path --join-timeouts "$kept/$name.rec"
	"$WAKEPATH" path --join-timeouts --tree "$kept/$name.rec"
	say "$name, run $run: and of the worker that answered it"
	echo "\$ wakepath path --tree --tid $worker --from $from --to $to"
	"$WAKEPATH" path --tree --tid "$worker" --from "$from" --to "$to" "$kept/$name.rec"
	for _ in $(seq "$RUNS"); do
		"$there/$command" "$request/well"
		took >>"$there/$name.after"
		sleep 1
	done
	say "$name: prediction and result"
	verdict "$there/$name"
}

# A backend's wait that another backend ended: the time that the other one kept the row.
row_lock() { behind '.comm == "postgres" and .ended_by.comm == "postgres"'; }
# The waits of the database for its disk at each commit.
commits() { part '.kind == "block_device"'; }

study order order/17 row_lock rush
study basket "basket/$LINES" commits ask
