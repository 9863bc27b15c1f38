# cause: redis-server syncs its log at each write; the I/O limit of its cgroup, 40 writes a second, holds the requests back
# size: $long s
# needs: redis-server
# needs: redis-benchmark
# ask: record -- sh victim
# who: shopredis
# who: redis-server
# says: I/O limit
# short: disk
# json: contributors code=io_limit
# twin: limit
# twin: held back
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
number=$(stat -c %Hd:%Ld .)
place=$(realpath "/sys/dev/block/$number")
[ -e "$place/partition" ] && place=${place%/*}
disk=$(cat "$place/dev")
group=/sys/fs/cgroup/blkio/shopredis file=blkio.throttle.write_iops_device limit=40
if [ ! -e /sys/fs/cgroup/blkio/$file ]; then
    echo +io >/sys/fs/cgroup/cgroup.subtree_control
    group=/sys/fs/cgroup/shopredis file=io.max limit=wiops=40
fi
rmdir "$group" # an earlier run's, with its limit
mkdir -p "$group"
[ "$TWIN" ] || echo "$disk $limit" >"$group/$file"
redis-server --port "$port" --dir "$PWD" --appendonly yes --appendfsync always --save '' &
server=$!
echo $server >"$group/cgroup.procs"
until redis-cli -p "$port" ping; do sleep 0.1; done
cat >victim <<SH
began=\$(date +%s%N)
read ran delayed rest </proc/$server/schedstat
redis-benchmark -p $port -t set -n 60 -c 1 -q >/dev/null
took=\$((\$(date +%s%N) - began))
read ran_now delayed_now rest </proc/$server/schedstat
took=\$(((took - ran_now + ran - delayed_now + delayed) / 1000000))e-3
echo "long \$took" >>$PLANTED
echo "twin \$took" >>$PLANTED
SH
setsid sh -c "sleep 20; rmdir $group" &
echo ready >>"$PLANTED"
wait
