# healthy: git looks for changes among three thousand files
# needs: git
# ask: record -- git -C repo status
git init -q repo && cd repo && git config user.email a@example.org && git config user.name a
for folder in $(seq 30); do mkdir "$folder"; for file in $(seq 100); do echo "$file" >"$folder/$file"; done; done
git add . && git commit -qm files
echo ready >>"$PLANTED"
sleep 60
