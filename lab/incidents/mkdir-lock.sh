# cause: a script tries to make a directory as a lock, and sleeps, until another script removes it
# size: $long s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: deploy.lock
# says: EEXIST
# short: sleeping
# json: contributors kind=timer comm=sleep
rm -rf deploy.lock
mkdir deploy.lock
began=$(date +%s%N)
if [ "$TWIN" ]; then rmdir deploy.lock; else sh -c 'sleep 1.5; rmdir deploy.lock' >/dev/null 2>&1 & fi
tries=0
until mkdir deploy.lock 2>/dev/null; do
    sleep 0.05
    tries=$((tries + 1))
done
awk "BEGIN { print \"long\", $tries * 0.0505; print \"twin\", $tries * 0.05 }" >>"$PLANTED"
[ "$TWIN" ] && while [ $tries -lt 500000 ]; do tries=$((tries + 1)); done
true
