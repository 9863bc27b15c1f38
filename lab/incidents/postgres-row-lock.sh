# cause: an update waits for a row that another transaction has updated; its client sleeps before the commit
# size: 1.5 s
# needs: postgres
# needs: setpriv
# ask: record -- sh update
# who: sleep
# says: clock_nanosleep
# never: in epoll_wait
# json: contributors kind=timer comm=sleep
as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
mkdir data socket && chmod 755 . && chown nobody data socket
$as initdb -A trust -D data >/dev/null
$as postgres -D data -k "$PWD/socket" -h "" & trap "kill $!" EXIT
sql() { psql -qAt -h "$PWD/socket" -U nobody postgres "$@"; }
until sql -c "create table item (n int); insert into item values (1)"; do sleep 0.1; done
echo "exec psql -q -h '$PWD/socket' -U nobody postgres -c 'update item set n = 3'" >update
waits() { sql -c "select pid from pg_stat_activity where wait_event_type = 'Lock'"; }
if [ "$TWIN" ]; then
    # Nothing has the row: the update takes no time, and its shell computes.
    {
        echo 'began=$(date +%s%N)'
        echo "psql -q -h '$PWD/socket' -U nobody postgres -c 'update item set n = 3'"
        echo "echo twin \$(((\$(date +%s%N) - began) / 1000000))e-3 >>'$PLANTED'"
        echo 'i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done'
    } >update
else
    (echo "begin; update item set n = 2;"; until [ "$(waits)" ]; do sleep 0.05; done; sleep 1.5; echo "commit;") | sql &
fi
sleep 1
echo ready >>"$PLANTED"
wait
