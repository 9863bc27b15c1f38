# healthy: Python reads and writes JSON
# needs: python3
# ask: record -- python3 run.py
cat >run.py <<'PY'
import json
rows = [{"id": number, "name": f"item {number}", "price": number / 7} for number in range(150_000)]
text = json.dumps(rows)
print(len(json.loads(text)))
PY
echo ready >>"$PLANTED"
sleep 60
