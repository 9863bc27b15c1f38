#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A few thousand operations of a program: load.sh KIND FILE FOLDER PORT.
set -e
kind=$1 file=$2 folder=$3 port=$4
case $kind in
redis)
	"$file" --port "$port" --save "" --dir "$folder" >"$folder/redis.log" 2>&1 &
	pid=$!
	until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.05; done
	for test in set get lpush lrange_100 sadd zadd hset spop mset; do
		redis-benchmark -p "$port" -q -c 4 -n 1000 -r 1000 -t "$test" >/dev/null 2>&1
	done
	redis-cli -p "$port" shutdown nosave >/dev/null 2>&1 || true
	wait $pid || true
	;;
nginx)
	mkdir -p "$folder/www" "$folder/ngx"
	seq 1 4000 >"$folder/www/page.txt"
	printf 'daemon off; master_process off; pid %s/ngx/pid; error_log %s/ngx/error; events {}
http { access_log off; client_body_temp_path %s/ngx/b; proxy_temp_path %s/ngx/p; fastcgi_temp_path %s/ngx/f;
uwsgi_temp_path %s/ngx/u; scgi_temp_path %s/ngx/s; gzip on; gzip_types *; server { listen 127.0.0.1:%s; root %s/www; autoindex on; } }
' "$folder" "$folder" "$folder" "$folder" "$folder" "$folder" "$folder" "$port" "$folder" >"$folder/ngx/conf"
	"$file" -c "$folder/ngx/conf" >/dev/null 2>&1 &
	pid=$!
	python3 - "$port" <<-'END'
	import http.client, sys, time
	for _ in range(100):
	    try:
	        http.client.HTTPConnection("127.0.0.1", int(sys.argv[1])).request("GET", "/")
	        break
	    except OSError:
	        time.sleep(0.05)
	for number in range(1200):
	    if number % 50 == 0:
	        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
	    path = ("/page.txt", "/", "/none")[number % 3]
	    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
	    connection.getresponse().read()
	END
	kill -QUIT $pid
	wait $pid || true
	;;
git)
	export HOME="$folder" GIT_CONFIG_NOSYSTEM=1
	rm -rf "$folder/work"
	mkdir "$folder/work"
	cd "$folder/work"
	"$file" init -q
	"$file" config user.email a@example.org
	"$file" config user.name a
	for number in $(seq 1 30); do
		seq 1 $((number * 20)) >"file$((number % 7))"
		seq "$number" 900 >"many$number"
		"$file" add .
		"$file" commit -qm "change $number"
	done
	"$file" log -p --stat >/dev/null
	"$file" status >/dev/null
	"$file" blame file1 >/dev/null
	"$file" gc -q
	;;
postgres)
	bin=$(dirname "$file")
	data="$folder/pg"
	rm -rf "$data"
	mkdir "$data"
	chown postgres "$data"
	as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
	as "$bin/initdb" -D "$data" -A trust >/dev/null
	as "$bin/postgres" -D "$data" -p "$port" -k "$data" -c fsync=off -c listen_addresses= -c autovacuum=off >"$folder/pg.log" 2>&1 &
	pid=$!
	until as "$bin/psql" -h "$data" -p "$port" -c 'select 1' postgres >/dev/null 2>&1; do sleep 0.1; done
	as "$bin/pgbench" -h "$data" -p "$port" -i -s 1 postgres >/dev/null 2>&1
	as "$bin/pgbench" -h "$data" -p "$port" -t 300 -c 2 postgres >/dev/null 2>&1
	as "$bin/psql" -h "$data" -p "$port" postgres >/dev/null 2>&1 <<-'END'
	select bid, count(*), sum(abalance), string_agg(aid::text, ',') from pgbench_accounts where aid < 20000 group by bid order by 2;
	select a.aid from pgbench_accounts a join pgbench_accounts b on a.aid = b.aid + 1 where a.aid < 5000 order by b.filler || a.aid desc;
	END
	kill -TERM $pid
	wait $pid || true
	;;
esac
