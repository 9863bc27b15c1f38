fn main() { if let Err(e) = wakepath_collect::try_it() { println!("{e} {:?}", e); } }
