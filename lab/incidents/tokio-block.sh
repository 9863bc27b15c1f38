# cause: a tokio program's task waits for the only worker thread, which sleeps for another task
# size: $long s
# needs: cargo
# ask: record -- target/debug/app
# who: courier
# says: sleeping
# json: contributors kind=timer comm=courier
mkdir -p src
cat >Cargo.toml <<'TOML'
[package]
name = "app"
version = "0.1.0"
edition = "2021"
[dependencies]
tokio = { version = "1", features = ["rt-multi-thread"] }
[workspace]
TOML
cat >src/main.rs <<'RS'
use std::io::Write;
use std::time::{Duration, Instant};
fn main() {
    let twin = std::env::var("TWIN").is_ok();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("courier").build().unwrap();
    runtime.spawn(async move { std::thread::sleep(Duration::from_millis(if twin { 0 } else { 2000 })) });
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    runtime.block_on(async { tokio::spawn(async {}).await.unwrap() });
    let took = began.elapsed().as_secs_f64();
    let mut planted = std::fs::OpenOptions::new().append(true).open(std::env::var("PLANTED").unwrap()).unwrap();
    writeln!(planted, "long {took}\ntwin {took}").unwrap();
    let mut sum = 0u64;
    while twin && began.elapsed() < Duration::from_millis(800) { sum = sum.wrapping_add(1); }
    if sum == 1 { println!(); }
}
RS
CARGO_TARGET_DIR=$PWD/target cargo build -q --offline || { echo "lacks the crate tokio" >>"$PLANTED"; exit; }
echo ready >>"$PLANTED"
sleep 60
