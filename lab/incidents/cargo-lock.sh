# cause: cargo waits for the build directory's lock; another cargo has it, whose build script sleeps
# size: $long s
# needs: cargo
# ask: record -- sh victim
# who: cargo
# who: build-script-bu
# says: slept
# json: contributors kind=timer comm=build-script-bu
export CARGO_TARGET_DIR="$PWD/target"
mkdir -p app/src && cd app && mkfifo cue held
echo "fn main() {}" >src/main.rs
cat >Cargo.toml <<'TOML'
[package]
name = "app"
version = "0.1.0"
edition = "2021"
build = "build.rs"
[workspace]
TOML
cat >build.rs <<'RS'
use std::{fs, io::Write, time::{Duration, SystemTime, UNIX_EPOCH}};
fn now() -> f64 { SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() }
fn main() {
    println!("cargo:rerun-if-env-changed=HOLD");
    if std::env::var("HOLD").is_err() { return; }
    fs::write("held", "1").unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let began: f64 = fs::read_to_string("began").unwrap().trim().parse().unwrap();
    let mut planted = fs::OpenOptions::new().append(true).open(std::env::var("PLANTED").unwrap()).unwrap();
    writeln!(planted, "long {}", now() - began).unwrap();
}
RS
cargo check -q --offline || { echo "lacks a way to build offline" >>"$PLANTED"; exit; }
cat >../victim <<SH
cd app; export CARGO_TARGET_DIR=$CARGO_TARGET_DIR
[ "\$TWIN" ] || { echo >cue; read held <held; }
date +%s.%N >began
cargo check -q --offline
[ "\$TWIN" ] && i=0 && while [ \$i -lt 500000 ]; do i=\$((i + 1)); done
SH
echo "twin 0" >>"$PLANTED" # nothing has the lock
echo ready >>"$PLANTED"
[ "$TWIN" ] || { read cue <cue; HOLD=1 cargo check --offline; }
sleep 60
