# cause: redis-server forks for BGSAVE, which copies the page tables of about 1 GB
# size: $long s
# needs: redis-server
# ask: record -- redis-cli -p $port -r $times -i $pause $command
# who: redis-server
# says: running
# json: rows code=process what~redis-server
# json: contributors kind=running comm=redis-server
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
redis-server --port "$port" --dir "$PWD" --save '' --enable-debug-command yes &
cli() { redis-cli -p "$port" "$@"; }
until cli ping; do sleep 0.1; done
cli debug populate 6000000 key 100
# The twin asks for nothing that forks, and sleeps between its questions.
[ "$TWIN" ] && command=ping times=5 pause=0.1 || command=bgsave times=1 pause=0
echo "port $port" >>"$PLANTED"
echo "command $command" >>"$PLANTED"
echo "times $times" >>"$PLANTED"
echo "pause $pause" >>"$PLANTED"
echo ready >>"$PLANTED"
while sleep 0.1; do
    echo "long $(cli info stats | sed -n 's/latest_fork_usec:\([0-9]*\).*/\1e-6/p')" >>"$PLANTED"
    echo "twin $(cli info stats | sed -n 's/latest_fork_usec:\([0-9]*\).*/\1e-6/p')" >>"$PLANTED"
done
