# cause: a script looks for a file and sleeps, 49 times
# size: 1.47 s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: migrated.flag
# says: ENOENT
# short: sleeping
# json: contributors kind=timer comm=sleep
rm -f migrated.flag
[ "$TWIN" ] && : >migrated.flag
tries=0
until [ -e migrated.flag ]; do
    sleep 0.03
    tries=$((tries + 1))
    [ $tries = 49 ] && : >migrated.flag
done
echo "twin ${tries}e-2" >>"$PLANTED"
[ "$TWIN" ] && while [ $tries -lt 500000 ]; do tries=$((tries + 1)); done
true
