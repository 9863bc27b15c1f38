# healthy: tar and gzip pack 60 MB
# needs: tar
# needs: gzip
# ask: record -- sh run
mkdir -p data
for part in 1 2 3 4 5 6; do head -c 7500000 /dev/urandom | base64 >data/$part; done
echo 'tar -cf - data | gzip -1 >data.tar.gz' >run
echo ready >>"$PLANTED"
sleep 60
