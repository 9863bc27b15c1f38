# healthy: grep searches a folder
# needs: grep
# ask: record -- grep -r stellar -c /usr/include
echo ready >>"$PLANTED"
sleep 60
