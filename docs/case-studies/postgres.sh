#!/bin/sh
# PostgreSQL as Debian ships it, under pgbench: an UPDATE of one row takes 2 ms in one transaction of two.
# Names the waits of the slow calls of a function of its binary, predicts the time without them, removes their cause
# (synchronous_commit = off), and prints the prediction beside the result. docs/case-studies/postgres.md
# has the results.
#
#   sudo docs/case-studies/postgres.sh [FOLDER]    keeps its recordings there, or nowhere
#
# The database runs in a folder under /var/tmp and on a port of its own, and is stopped and removed at the end.
set -eu
. "$(dirname "$0")/measure.sh"
need /usr/lib/postgresql=postgresql jq=jq

DB=8484
CLIENTS=4
STATEMENTS=7 # of pgbench's transaction, BEGIN and END among them: each is a call of PortalRun
SECONDS_EACH=4
binaries=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
# Not /tmp, which may be memory: the database's disk is to be a disk.
there=$(mktemp -d /var/tmp/wakepath-postgres.XXXXXX)
# A recording on the disk that is asked about would be part of the answer.
memory=$(mktemp -d /dev/shm/wakepath.XXXXXX)
kept=${1:-$memory}
mkdir -p "$kept"
chmod 755 "$there"
export PGHOST=127.0.0.1 PGPORT=$DB PGUSER=bench PGDATABASE=postgres

as_postgres() { (cd / && setpriv --reuid postgres --regid postgres --clear-groups "$@"); }
end() {
	trap - EXIT INT TERM
	[ ! -e "$there/db/postmaster.pid" ] || as_postgres "$binaries/pg_ctl" -D "$there/db" -m fast -s stop || :
	wait
	rm -rf "$there" "$memory"
}
trap end EXIT
trap 'exit 1' INT TERM

say "a database with pgbench's tables, one branch"
mkdir "$there/db"
chown postgres:postgres "$there/db"
as_postgres "$binaries/initdb" -D "$there/db" -A trust -U bench --no-sync >/dev/null
# No checkpoint and no vacuum between two measurements: neither is asked about.
as_postgres "$binaries/pg_ctl" -D "$there/db" -s -w -l "$there/db/log" -o "-p $DB \
	-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c autovacuum=off -c checkpoint_timeout=1d -c max_wal_size=16GB" start
"$binaries/pgbench" -i -q >/dev/null 2>&1
sql() { "$binaries/psql" -qAt -c "$1"; }

# Options that name the clients' backends, once all are there.
backends() {
	until [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")" = "$CLIENTS" ]; do
		sleep 0.05
	done
	sql "SELECT '-p ' || pid FROM pg_stat_activity WHERE application_name = 'pgbench'" | tr '\n' ' '
}
# bench SYNCHRONOUS_COMMIT COMMAND ...: pgbench, and the command beside it with the backends' options last.
bench() {
	PGOPTIONS="-c synchronous_commit=$1" "$binaries/pgbench" -n -c "$CLIENTS" -j "$CLIENTS" -T "$((SECONDS_EACH + 4))" >"$there/bench" 2>&1 &
	shift
	# shellcheck disable=SC2046 # options, a word each
	"$@" $(backends)
	wait $!
}
# Transactions as their client measures them: the time of a thousand of one client, ms.
transactions() {
	PGOPTIONS="-c synchronous_commit=$1" "$binaries/pgbench" -n -c "$CLIENTS" -j "$CLIENTS" -T "$SECONDS_EACH" 2>&1 |
		sed -n 's/^latency average = \(.*\) ms/\1/p' | awk '{ print $1 * 1000 }'
}
# The time of a thousand transactions in PortalRun, ms, as `latency` counts it.
portal() { jq ".targets[0] | (.sum | tonumber) / .count * $STATEMENTS / 1000" "$1"; }
count() { "$WAKEPATH" latency postgres:PortalRun -d "$SECONDS_EACH" "$@"; }
count_json() { count --json "$@" >"$there/latency.json" 2>/dev/null; }
record() {
	function=$1
	shift
	"$WAKEPATH" record -o "$kept/$function.rec" --call "postgres:$function" -d 2 "$@" >/dev/null 2>&1
}
path() {
	recorded=$1
	shift
	"$WAKEPATH" path --json "$@" "$kept/$recorded.rec" 2>/dev/null
}

# The peak in which most of the time is.
# shellcheck disable=SC2016 # the variables are jq's
peak_of_most='(.buckets as $buckets | [.peaks[] as $peak
	| [$buckets[] | select($peak.from_bucket <= .index and .index <= $peak.to_bucket) | .count * pow(2; .index)] | add]
	| index(max) + 1)'
# The time of all calls outside peak $peak, ns, by their buckets.
# shellcheck disable=SC2016
beside_peak='.peaks[$peak - 1] as $peak | [.buckets[]
	| select(.index < $peak.from_bucket or .index > $peak.to_bucket) | .count * 1.5 * pow(2; .index)] | add // 0'

# The time that a call waited for flushes of the log, ns, by the calls' tree: its own, and those of the threads that it waited for.
# shellcheck disable=SC2016
behind_flushes='(reduce .tree[] as $node ([]; . + [$node.parent != null and
		(.[$node.parent] or (($node.call // "") | test("^f(data)?sync")))])) as $behind
	| ([.tree[] | .id as $id | .own[] | select($behind[$id] or (.what | test(", in f(data)?sync"))) | .asked_ns] | add // 0)'

# The paths of all threads that made the calls of recording $1, between ns $2 and $3: each segment as a line
# `ASKED THREAD FROM TO PART`. PART is `own` where the path's thread waited for its own flush of the log, `others`
# where it waited, directly or through others, for a thread that did; else `rest`.
segments() {
	cut -d' ' -f1 "$there/calls" | sort -u | while read -r tid; do
		path "$1" --tid "$tid" | jq -r --argjson from "$2" --argjson to "$3" '(reduce .waits[] as $wait ({}; .[$wait.id | tostring] = $wait)) as $waits
			| def above: if .parent == null then empty else $waits[.parent | tostring] | ., above end;
			def flushes: .call == "fdatasync" or .call == "fsync";
			.window.tid as $asked | .segments[] | select($from <= .from_ns and .to_ns <= $to) | [., above]
			| [any(flushes), (last | flushes)] as [$any, $first]
			| "\($asked) \(.[0].tid) \(.[0].from_ns) \(.[0].to_ns) \(if $first then "own" elif $any then "others" else "rest" end)"'
	done
}
# overlap A B: for files of `THREAD FROM TO`, the time in ns that lies in an interval of A and in one of B of the same
# thread. Intervals of A of one thread do not overlap.
overlap() {
	sort -k1,1n -k2,2n "$1" | awk '
		# The time of A of the thread `whose` that lies before a time.
		function before(whose, at, low, high, middle) {
			low = 0; high = n[whose]
			while (low < high) {
				middle = int((low + high + 1) / 2)
				if (from[whose, middle] < at) low = middle; else high = middle - 1
			}
			return low == 0 ? 0 : sum[whose, low] + (at < to[whose, low] ? at : to[whose, low]) - from[whose, low]
		}
		FNR == NR {
			i = ++n[$1]; from[$1, i] = $2; to[$1, i] = $3
			sum[$1, i] = i == 1 ? 0 : sum[$1, i - 1] + to[$1, i - 1] - from[$1, i - 1]
			next
		}
		$1 in n { overlap += before($1, $3) - before($1, $2) }
		END { printf "%.0f\n", overlap }' - "$2"
}
# ns of all clients, and the number of their transactions: ms of a thousand.
thousand() { awk -v ns="$1" -v transactions="$2" 'BEGIN { printf "%.1f\n", ns / transactions / 1000 }'; }
calls() { jq -r '.calls[] | "\(.tid) \(.from_ns) \(.to_ns)"' "$1"; }

# For the slow peak of PortalRun: the time that its calls waited for flushes by any thread.
predict_portal() {
	path PortalRun --call --above 0 >"$there/all.json"
	transactions=$(jq "[.buckets[].count] | add / $STATEMENTS" "$there/all.json")
	peak=$(jq "$peak_of_most" "$there/all.json")
	path PortalRun --call --peak "$peak" >"$there/calls.json"
	thousand "$(jq "$behind_flushes * .asked.calls" "$there/calls.json")" "$transactions" >>"$there/portal.cause"
	thousand "$(jq --argjson peak "$peak" --slurpfile of "$there/calls.json" "($beside_peak) + \$of[0].asked.calls * \$of[0].asked.mean_ns" "$there/all.json")" \
		"$transactions" >>"$there/portal.recorded"
}
# For whole transactions, each of which ends with a call of XLogFlush: the time that a client waits for its own flush; for
# any flush; and the time that the threads on its path spend within XLogFlush, waiting or not.
predict_transactions() {
	path XLogFlush --call --above 0 >"$there/calls.json"
	calls "$there/calls.json" >"$there/calls"
	from=$(cut -d' ' -f2 "$there/calls" | sort -n | head -n 1)
	to=$(cut -d' ' -f3 "$there/calls" | sort -n | tail -n 1)
	transactions=$(jq .asked.calls "$there/calls.json")
	segments XLogFlush "$from" "$to" >"$there/segments"
	cut -d' ' -f2-4 "$there/segments" >"$there/whose"
	for part in 'own' 'own|others' 'own|others|rest'; do
		thousand "$(awk -v part="^($part)\$" '$5 ~ part { ns += $4 - $3 } END { printf "%.0f\n", ns }' "$there/segments")" "$transactions"
	done | paste -sd' ' >"$there/figures"
	read -r own waits whole <"$there/figures"
	echo "$own" >>"$there/own.cause"
	echo "$waits" >>"$there/waits.cause"
	# Where the calls are many, an even choice of them is explained.
	thousand "$(overlap "$there/calls" "$there/whose" | jq --slurpfile of "$there/calls.json" '. / $of[0].asked.explained * $of[0].asked.calls')" \
		"$transactions" >>"$there/flush.cause"
	for name in own waits flush; do echo "$whole" >>"$there/$name.recorded"; done
}

for run in $(seq "$RUNS"); do
	transactions on >>"$there/flush.before"
	bench on count_json
	portal "$there/latency.json" >>"$there/portal.before"
	bench on record PortalRun
	predict_portal
	bench on record XLogFlush
	predict_transactions
	for name in own waits flush portal; do
		echo "$name: $(tail -qn 1 "$there/$name.recorded" "$there/$name.cause" | paste -sd' ')"
	done | awk -v run="$run" '{ printf "run %s, before the removal: %s %.1f of %.1f ms will go\n", run, $1, $3, $2 }'
	transactions off >>"$there/flush.after"
	bench off count_json
	portal "$there/latency.json" >>"$there/portal.after"
done
for name in own waits; do
	cp "$there/flush.before" "$there/$name.before"
	cp "$there/flush.after" "$there/$name.after"
done

say "how long the calls of PortalRun take"
bench on count
say "what those of peak $peak waited for"
"$WAKEPATH" path --call --peak "$peak" "$kept/PortalRun.rec"
say "who waited for whom"
"$WAKEPATH" path --call --peak "$peak" --tree "$kept/PortalRun.rec" | head -n 30
say "without waiting for the flush"
bench off count
# The prediction for runs that are recorded, and what follows for others: recording slows what is short of CPU.
reported_twice() {
	verdict "$there/$1"
	awk -v before="$(median <"$there/$1.before")" -v cause="$(median <"$there/$1.cause")" -v after="$(median <"$there/$1.after")" \
		'BEGIN { printf "of what it takes unrecorded: predicted %.1f ms, got %.1f ms\n", before - cause, after }'
}
say "a client's thousand transactions: prediction and result, if only its own wait for the flush goes"
reported_twice own
say "the same, if the waits go of those too that it waited for"
reported_twice waits
say "the same, with all that is done within XLogFlush"
reported_twice flush
say "what they spend in PortalRun, if the waits for flushes go"
reported_twice portal
