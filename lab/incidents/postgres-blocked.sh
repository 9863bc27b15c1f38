# cause: a transaction waits for a row that another transaction has updated, which is idle
# size: 2 s
# needs: postgres
# needs: setpriv
# ask: record -p $pid -d 2
# who: $pid
# says: undecided
# never: idle
# json: threads tid=$pid sum=undecided_ns
as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
mkdir data socket && chmod 755 . && chown nobody data socket
$as initdb -A trust -D data >/dev/null
$as postgres -D data -k "$PWD/socket" -h "" & trap "kill $!" EXIT
sql() { psql -qAt -h "$PWD/socket" -U nobody postgres "$@"; }
until sql -c "create table item (n int); insert into item values (1)"; do sleep 0.1; done
(echo "begin; update item set n = 2;"; sleep 40) | sql &
sleep 1
# The twin's second transaction has the row, and computes.
[ "$TWIN" ] || sql -c "update item set n = 3" &
[ "$TWIN" ] && sql -c "select sum(n * sqrt(n)) from generate_series(1, 300000000) n" &
sleep 0.5
[ "$TWIN" ] && where="query like 'select sum%'" || where="wait_event_type = 'Lock'"
echo "pid $(sql -c "select pid from pg_stat_activity where $where limit 1")" >>"$PLANTED"
echo "twin $(sql -c "select count(*) from pg_stat_activity where wait_event_type = 'Lock'")" >>"$PLANTED"
echo ready >>"$PLANTED"
wait
