# healthy: dd copies 1 GB in memory
# needs: dd
# ask: record -- dd if=/dev/zero of=/dev/null bs=1M count=20000
echo ready >>"$PLANTED"
sleep 60
