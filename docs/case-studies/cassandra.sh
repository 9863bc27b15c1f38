#!/bin/sh
# Cassandra answers reads and writes of rows for some seconds; in between a cgroup limits its CPU time to 1%. Counts the spans that
# are joined to their threads, predicts from the paths how long the slow requests would have taken without the limit, and prints
# the prediction beside requests without it. docs/case-studies/cassandra.md has the results.
#
#   sudo docs/case-studies/cassandra.sh [FOLDER]    keeps its recordings there, or nowhere
#
# `packaging/plugins cassandra` fetches Cassandra, its client and the agent by mvn and pip: some 70 MB. All of it runs in a folder
# under /var/tmp, on ports of its own and in a cgroup of its own, and is stopped and removed at the end.
set -eu
RUNS=${RUNS:-3}
. "$(dirname "$0")/measure.sh"
need jq=jq make=make

PORT=9742 SPANS=4742
# µs of CPU time in 100 ms.
QUOTA=1000
sources=$(cd "$(dirname "$0")/../.." && pwd)
: "${WAKEPATH_PLUGINS:=${CARGO_TARGET_DIR:-$sources/target}/plugins}"
export WAKEPATH_PLUGINS
[ -e "$WAKEPATH_PLUGINS/cassandra/versions" ] || "$sources/packaging/plugins" cassandra

there=$(mktemp -d /var/tmp/wakepath-cassandra.XXXXXX)
memory=$(mktemp -d /dev/shm/wakepath.XXXXXX)
kept=${1:-$memory}
mkdir -p "$kept"
group=/sys/fs/cgroup/cpu
[ -e "$group/cpu.shares" ] || group=/sys/fs/cgroup
group=$group/cassandra
[ -e "$group" ] || mkdir "$group"
server=""
end() {
	trap - EXIT INT TERM
	# It ends sooner without a limit.
	{ echo -1 >"$group/cpu.cfs_quota_us" || echo max >"$group/cpu.max"; } 2>/dev/null || :
	[ -z "$server" ] || { kill "$server"; wait "$server"; } 2>/dev/null || :
	rmdir "$group" || :
	rm -rf "$there" "$memory"
}
trap end EXIT
trap 'exit 1' INT TERM

say "Cassandra under the OpenTelemetry agent"
export OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:$SPANS"
# The whole process is in the group from its first instruction on.
sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" \
	"$sources/plugins/java/tests/cassandra" "$there" "$PORT" >"$there/log" 2>&1 &
server=$!
sleep 2
kill -0 "$server" 2>/dev/null || {
	cat "$there/log"
	exit 1
}
load() { "$WAKEPATH_PLUGINS/cassandra/bin/python" "$sources/plugins/java/tests/cassandra_load.py" "$PORT" "$@"; }
load prepare || {
	cat "$there/log"
	exit 1
}

# throttled: how often the kernel has taken all threads of the group off their CPUs, and for how long, as it says.
throttled() { grep -E '^(nr_throttled|throttled_)' "$group/cpu.stat" | tr '\n' ' '; }

# The table of requests: the beginning and end by the realtime clock in ns, how the thread is known, the length, the sum of
# the path's segments, and the sum of those in which a CPU limit kept a thread off its CPU, ns; the name of that limit; the trace.
table() {
	jq -r '(.origin_realtime_ns | tonumber) as $origin
		| [$origin + .request.from_ns, $origin + .request.to_ns, .request.join, .request.to_ns - .request.from_ns,
			([.segments[]? | .to_ns - .from_ns] | add // 0),
			([.segments[]? | select(.kind == "throttled") | .to_ns - .from_ns] | add // 0),
			([.contributors[]? | select(.code == "cpu_limit") | .what // "no name"] | unique | join("; ")), .request.trace_id] | @tsv'
}

for run in $(seq "$RUNS"); do
	before=$(throttled)
	"$WAKEPATH" record --otlp "$SPANS" -o "$kept/cassandra.rec" -- \
		"$WAKEPATH_PLUGINS/cassandra/bin/python" "$sources/plugins/java/tests/cassandra_load.py" "$PORT" \
		run "$there/log.json" "$group" "$QUOTA" 2>"$there/screen"
	say "run $run"
	echo "cpu.stat before: $before; after: $(throttled)"
	asked=$(jq '.requests | length' "$there/log.json")
	"$WAKEPATH" requests --operation ExecuteMessage.execute --slowest 1000000 --json "$kept/cassandra.rec" | table >"$there/table"
	# Spans of the time before come late, where nothing received them then.
	awk -F'\t' -v began="$(jq .began_ns "$there/log.json")" -v asked="$asked" '
		$1 >= began { n++; by[$3]++; if ($4 != $5) untiled++ }
		END {
			printf "%d requests of the clients, %d of Cassandra\n", asked, n
			for (join in by) printf "thread known by %s: %d (%.2f%%)\n", join, by[join], 100 * by[join] / n
			printf "requests whose segments do not add up to their length: %d\n", untiled
		}' "$there/table"
	from=$(jq .limited_ns "$there/log.json") to=$(jq .lifted_ns "$there/log.json")
	# Those that lie wholly in the time of the limit, and are slow.
	awk -F'\t' -v from="$from" -v to="$to" '$1 >= from && $2 <= to && $4 > 50e6' "$there/table" >"$there/slow"
	awk -F'\t' '{ printf "%.3f\n", $4 / 1e6 }' "$there/slow" >>"$there/cassandra.recorded"
	awk -F'\t' '{ printf "%.3f\n", $6 / 1e6 }' "$there/slow" >>"$there/cassandra.cause"
	awk -F'\t' '{ printf "%.2f\n", 100 * $6 / $4 }' "$there/slow" >>"$there/share"
	cut -f7 "$there/slow" | sort | uniq -c
	# A second after the limit was lifted, until the end.
	awk -F'\t' -v from="$to" '$1 >= from + 1e9 { printf "%.3f\n", $4 / 1e6 }' "$there/table" >>"$there/cassandra.after"
	# The same without recording, by the clients' clocks.
	load run "$there/alone.json" "$group" "$QUOTA" >/dev/null
	jq '.limited_ns as $from | .lifted_ns as $to | .requests[] | select(.began_ns >= $from and .began_ns + .took_ns <= $to)
		| .took_ns / 1e6 | select(. > 50)' "$there/alone.json" >>"$there/cassandra.before"
done

say "the operations of run $run"
"$WAKEPATH" requests "$kept/cassandra.rec"
slow=$(sort -t"$(printf '\t')" -k4,4n "$there/slow" | tail -n 1 | cut -f8)
say "the slowest request under the limit, of run $run"
"$WAKEPATH" requests --request "$slow" "$kept/cassandra.rec"
say "prediction and result, of $(wc -l <"$there/share") slow requests under the limit"
printf 'share of the CPU limit: median %s%%, %s\n' "$(median <"$there/share")" "$(spread <"$there/share")"
verdict "$there/cassandra"
