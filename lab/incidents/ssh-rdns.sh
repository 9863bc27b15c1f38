# cause: sshd asks for the client's name; the name server on 127.0.0.78 never answers
# size: $long s
# needs: /usr/sbin/sshd
# needs: ssh
# needs: unshare
# ask: record -- sh victim
# who: 127.0.0.78:53
# who: sshd
# says: DNS
# says: nothing came
# never: sleeping
# json: segments object.name~127.0.0.78:53
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
chmod 755 . && mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f user && chmod 600 user.pub
cat >sshd.conf <<CONF
Port $port
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/user.pub
UseDNS $([ "$TWIN" ] && echo no || echo yes)
UsePAM no
PermitRootLogin yes
StrictModes no
PidFile none
CONF
printf 'nameserver 127.0.0.78\noptions timeout:1 attempts:2\n' >resolv.conf
printf 'hosts: dns\npasswd: files\nshadow: files\ngroup: files\n' >nss
cat >names.py <<'PY'
import os, socket
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.78", 53))
asked = 0
while True:
    names.recvfrom(512)
    asked += 1
    # Each question waits for 1 s.
    print(f"long {asked}\ntwin {asked}", file=open(os.environ["PLANTED"], "a"))
PY
python3 names.py &
unshare -m sh -c "mount --bind resolv.conf /etc/resolv.conf; mount --bind nss /etc/nsswitch.conf; exec /usr/sbin/sshd -D -e -f $PWD/sshd.conf" &
echo "exec ssh -q -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i user -p $port root@127.0.0.1 true" >victim
sleep 1
echo "twin 0" >>"$PLANTED"
echo ready >>"$PLANTED"
wait
