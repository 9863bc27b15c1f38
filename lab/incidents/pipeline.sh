# cause: in a pipeline of three programs the first one sleeps for 1.3 s before its last line
# size: 1300 ms
# ask: record -- $0
# who: sleep
# says: sleeping
# json: contributors kind=timer comm=sleep
producer() {
    echo begin
    [ "$TWIN" ] || sleep 1.3
    echo end
}
echo "twin 0" >>"$PLANTED"
producer | tr a-z A-Z | sort >/dev/null
i=0
[ "$TWIN" ] && while [ $i -lt 500000 ]; do i=$((i + 1)); done
true
