# build.sh OUT pkgs...
cd ./tree2
out=$1; shift; args=
for p in $*; do args="$args -p wakepath-$p"; done
CARGO_TARGET_DIR=./tgt cargo test --locked --no-run --tests --message-format=json --config 'profile.dev.debug=0' --config 'profile.dev.package."*".debug=true' $args > ../$out.json 2>../$out.log
grep -E "^error" ../$out.log | head -5
python3 - ../$out.json <<'P'
import json,sys
for l in open(sys.argv[1]):
    try: m=json.loads(l)
    except: continue
    if m.get('reason')=='compiler-message' and m['message']['level']=='error': print(m['message']['rendered'][:700])
P
