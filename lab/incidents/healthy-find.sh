# healthy: find lists a folder
# needs: find
# ask: record -- find /usr -name *.conf
echo ready >>"$PLANTED"
sleep 60
