# Functions that the scripts of the case studies read; not run by itself.
#
# WAKEPATH is the program to use (default: target/release/wakepath of this tree, else the one on PATH),
# RUNS the number of measurements (default 7).
# shellcheck shell=sh

RUNS=${RUNS:-7}
: "${WAKEPATH:=$(dirname "$0")/../../target/release/wakepath}"
[ -x "$WAKEPATH" ] || WAKEPATH=$(command -v wakepath) || {
	echo "error: no wakepath: run \`make program\` first, or name it in WAKEPATH" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || {
	echo "error: this records, and installs packages: run it as root" >&2
	exit 1
}

say() { printf '\n== %s\n' "$*"; }

# need COMMAND=PACKAGE ...: installs by apt the packages whose commands are missing. Their daemons are not started.
need() {
	missing=""
	for pair in "$@"; do
		command -v "${pair%%=*}" >/dev/null 2>&1 || [ -e "${pair%%=*}" ] || missing="$missing ${pair#*=}"
	done
	[ -n "$missing" ] || return 0
	say "installing through apt, and leaving installed:$missing"
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	else
		policy=""
	fi
	# shellcheck disable=SC2086 # a list of packages
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null && code=0 || code=$?
	[ -z "$policy" ] || rm -f "$policy"
	return "$code"
}

# timed COMMAND...: how long it took, ms.
timed() {
	timed_from=$(date +%s%N)
	"$@" >/dev/null 2>&1 || return
	echo $((($(date +%s%N) - timed_from) / 1000)) | awk '{ printf "%.1f\n", $1 / 1000 }'
}

# Numbers on stdin, one per line: their median; their minimum and maximum.
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.1f\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
spread() { sort -n | awk '{ v[NR] = $1 } END { printf "%.1f to %.1f\n", v[1], v[NR] }'; }

# summary FILE: median and spread of the numbers in it, as `12.3 ms (11.0 to 14.9)`.
summary() { printf '%s ms (%s)' "$(median <"$1")" "$(spread <"$1")"; }

# verdict NAME: from files of ms, a line per run. The predicted time of each recorded run without the cause
# on its path, beside the measured time after the removal of the cause.
verdict() {
	paste "$1.recorded" "$1.cause" | awk '{ print $1 - $2 }' >"$1.predicted"
	printf 'before:       %s\n' "$(summary "$1.before")"
	printf 'recorded:     %s\n' "$(summary "$1.recorded")"
	printf 'of it, cause: %s\n' "$(summary "$1.cause")"
	printf 'predicted:    %s\n' "$(summary "$1.predicted")"
	printf 'without it:   %s\n' "$(summary "$1.after")"
	printf 'predicted %s ms, got %s ms\n' "$(median <"$1.predicted")" "$(median <"$1.after")"
}

# part CONDITION < PATH.json: ms of the path's segments for which CONDITION (jq) holds.
part() { jq "[.segments[] | select($1) | .to_ns - .from_ns] | add // 0 | . / 1e6"; }

# behind CONDITION < PATH.json: ms of all that stands for waits for which CONDITION (jq) holds.
behind() {
	jq "(reduce .waits[] as \$wait ({}; .[\$wait.id | tostring] = \$wait)) as \$waits
		| def above: if .parent == null then empty else \$waits[.parent | tostring] | ., above end;
		[.segments[] | select(any(above; $1)) | .to_ns - .from_ns] | add // 0 | . / 1e6"
}

# of COMM ... < PATH.json: ms of these processes, and of all that stands for waits that they ended.
of() {
	jq '(reduce .waits[] as $wait ({}; .[$wait.id | tostring] = $wait)) as $waits
		| def above: if .parent == null then empty else $waits[.parent | tostring] | ., above end;
		def its: . as $comm | any($ARGS.positional[]; . == $comm);
		[.segments[] | select((.comm | its) or any(above; .ended_by.comm | its)) | .to_ns - .from_ns] | add // 0 | . / 1e6' \
		--args "$@"
}
