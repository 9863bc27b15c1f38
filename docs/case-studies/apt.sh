#!/bin/sh
# Installing a package with apt: its waits, and the time that their removal saves.
# docs/case-studies/apt.md has the results.
#
#   sudo docs/case-studies/apt.sh [FOLDER]    keeps its recordings there, or nowhere
#
# It installs into a Debian of its own (debootstrap, some 150 MB under /var/tmp), from a package that was
# fetched before, so that no network is measured. Removes it at the end.
set -eu
. "$(dirname "$0")/measure.sh"
need debootstrap=debootstrap jq=jq

package=tree
. /etc/os-release
there=$(mktemp -d /var/tmp/wakepath-apt.XXXXXX)
# A recording on the disk that is asked about would be part of the answer.
memory=$(mktemp -d /dev/shm/wakepath.XXXXXX)
root=$there/root
kept=${1:-$memory}
mkdir -p "$kept"

end() {
	trap - EXIT INT TERM
	umount "$root/dev/pts" 2>/dev/null || :
	umount "$root/proc" 2>/dev/null || :
	rm -rf --one-file-system "$there" "$memory"
}
trap end EXIT
trap 'exit 1' INT TERM

say "a ${NAME%% *} of its own, as it is installed by default, with manual pages"
debootstrap --variant=minbase --include=man-db,eatmydata "${VERSION_CODENAME:-stable}" "$root" >"$there/log" 2>&1 || {
	tail "$there/log" >&2
	exit 1
}
mount -t proc proc "$root/proc"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
[ -e "$root/dev/ptmx" ] || ln -s pts/ptmx "$root/dev/ptmx"
inside() { LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
inside apt-get -qq install -y --download-only "$package" >/dev/null

cat >"$there/install" <<END
#!/bin/sh
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
exec chroot "$root" "\$@" apt-get install -y $package
END
chmod 755 "$there/install"
anew() {
	inside apt-get -qq purge -y "$package" >/dev/null
	sync
}

# study NAME CAUSE: predicts the time of "install" without CAUSE, a filter of its path; `with` puts the cause
# in place, `without` removes it and prints what goes before apt-get then.
study() {
	name=$1 cause=$2
	for run in $(seq "$RUNS"); do
		"with_$name"
		anew
		timed "$there/install" >>"$there/$name.before"
		anew
		"$WAKEPATH" record -o "$kept/$name.rec" -- "$there/install" >/dev/null 2>&1
		"$WAKEPATH" path --join-timeouts --json "$kept/$name.rec" >"$there/path.json" 2>/dev/null
		jq '(.window.to_ns - .window.from_ns) / 1e6' "$there/path.json" >>"$there/$name.recorded"
		$cause <"$there/path.json" >>"$there/$name.cause"
		anew
		wrapper=$("without_$name")
		# shellcheck disable=SC2086 # a command, or nothing
		timed "$there/install" $wrapper >>"$there/$name.after"
	done
	say "$name, run $run: what wakepath says"
	"$WAKEPATH" path "$kept/$name.rec"
	echo
	"$WAKEPATH" path --join-timeouts "$kept/$name.rec"
	say "$name: prediction and result"
	verdict "$there/$name"
}

# The time of the manual pages' index: the trigger of man-db, its script and everything that these wait for.
manual() { of man-db.postinst mandb; }
with_manual() { touch "$root/var/lib/man-db/auto-update"; }
# debconf does the same for users who decline the update of the index.
without_manual() { rm "$root/var/lib/man-db/auto-update"; }

# The program that asks the questions of packages before they are unpacked.
questions() { of dpkg-preconfigu; }
with_questions() {
	rm -f "$root/var/lib/man-db/auto-update"
	[ ! -e "$there/70debconf" ] || mv "$there/70debconf" "$root/etc/apt/apt.conf.d/"
}
without_questions() { mv "$root/etc/apt/apt.conf.d/70debconf" "$there"; }

# The remaining waits for the disk, with the kernel threads that such waits go through.
disk() { part '.kind == "block_device" or (.comm // "" | startswith("kworker/") or startswith("jbd2/")) and .kind == "running"'; }
with_disk() { :; }
# A library that makes fsync and its like do nothing.
without_disk() { echo eatmydata; }

study manual manual
study questions questions
study disk disk
