# cause: git waits for its fsmonitor hook, which sleeps 1 s each time
# size: $long s
# needs: git
# ask: record -- git -C repo status
# who: mon.sh
# says: sleeping
# json: contributors kind=timer comm=sleep
git init -q repo && cd repo && git config user.email a@example.org && git config user.name a
for file in $(seq 100); do echo "$file" >"f$file"; done
git add . && git commit -qm files
cat >../mon.sh <<SH
#!/bin/sh
echo >>$PWD/../calls
echo "long \$(wc -l <$PWD/../calls)" >>$PLANTED
sleep 1
printf '/\0'
SH
chmod +x ../mon.sh
# The twin's git asks no hook.
[ "$TWIN" ] || git config core.fsmonitor "$PWD/../mon.sh"
echo "twin 0" >>"$PLANTED"
echo ready >>"$PLANTED"
sleep 60
