# healthy: sort sorts half a million lines
# needs: sort
# ask: record -- sort -n lines -o sorted
seq 1 600000 | shuf >lines
echo ready >>"$PLANTED"
sleep 60
