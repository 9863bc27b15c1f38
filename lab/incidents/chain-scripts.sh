# cause: a script runs a script, which runs a script, which runs a Python program that computes
# size: $long s
# ask: record -- $0
# who: thumbs.py
# who: build.sh
# says: running
# json: contributors kind=running comm=python3
cat >thumbs.py <<'PY'
import os, time
open("/proc/self/comm", "w").write("python3")
began = time.process_time()
while "TWIN" not in os.environ and time.process_time() < 0.9:
    pass
print("long", time.process_time(), "\ntwin", time.process_time() - began, file=open(os.environ["PLANTED"], "a"))
PY
python=$(python3 -c "import sys; print(sys.executable)")
echo "$python thumbs.py; true" >build.sh
echo 'sh build.sh; true' >deploy.sh
[ "$TWIN" ] && sleep 0.9
sh deploy.sh
