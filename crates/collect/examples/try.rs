use std::sync::atomic::AtomicBool;
use wakepath_collect::*;
use wakepath_recording::{HostIdentity, Options as W, Writer};
fn main() {
    let options = Options { command: std::env::args_os().skip(2).collect(), ..Options::default() };
    let mut writer = Writer::create(std::env::args().nth(1).unwrap().as_ref(), &HostIdentity::of_this_host(), &W::new("0", "")).unwrap();
    println!("{:?}", record(&options, &mut writer, &AtomicBool::new(false)));
}
