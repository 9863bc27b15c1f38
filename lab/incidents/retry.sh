# cause: a script waits for commands: it sleeps between its attempts
# size: 750 ms
# ask: record -- $0
# who: sleep
# says: sleeping
# json: contributors kind=timer comm=sleep
for attempt in 1 2 3; do
    test -e "$0.not-there" || [ "$TWIN" ] || sleep 0.25
done
if [ "$TWIN" ]; then
    echo "twin 0" >>"$PLANTED"
    i=0
    while [ $i -lt 500000 ]; do i=$((i + 1)); done
fi
