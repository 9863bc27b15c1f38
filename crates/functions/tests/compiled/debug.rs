//! Separate debug files, and functions with only debug information left.

use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_functions::FunctionNote;

use crate::lookup::versioned;
use crate::programs::{Programs, find, only, refusal, run};

const SOURCE: &str = "
    __attribute__((noinline)) static int helper(int x) { __asm__(\"\"); return x + 3; }
    int main(int argc, char **argv) { return helper(argc); }
";

/// A stripped program, with its debug file beside it at `debug`, linked to.
fn split(programs: &Programs, options: &[&str], debug: &str) -> (PathBuf, PathBuf) {
    let app = programs.compile("app.c", SOURCE, options);
    let debug = programs.path(debug);
    std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&app).arg(&debug));
    run(Command::new("strip").arg(&app));
    add_link(&app, &debug);
    (app, debug)
}

fn add_link(file: &Path, debug: &Path) {
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(debug);
    run(Command::new("objcopy").arg(link).arg(file));
}

#[test]
fn a_debug_file_gives_a_stripped_program_its_names_back() {
    for (options, debug) in [
        (&["-g", "-O1", "-Wl,--build-id=sha1"][..], "app.debug"),
        (&["-g", "-O1", "-Wl,--build-id=none"], "app.debug"),
        (&["-g", "-O1", "-Wl,--build-id=none"], ".debug/app.debug"),
    ] {
        let programs = Programs::new();
        let (app, debug) = split(&programs, options, debug);
        let before = only(&app, "helper");
        assert_eq!(before.probe.file, app);
        std::fs::remove_file(debug).unwrap();
        assert!(refusal(&app, "helper").contains("stripped"), "{options:?}");
    }
}

#[test]
fn a_debug_file_of_another_build_is_not_believed() {
    for build_id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        let programs = Programs::new();
        let (app, debug) = split(&programs, &["-g", "-O1", build_id], "app.debug");
        let other = programs.compile("other.c", &SOURCE.replace("+ 3", "+ 4"), &["-g", "-O0", build_id]);
        run(Command::new("objcopy").arg("--only-keep-debug").arg(other).arg(debug));
        assert!(refusal(&app, "helper").contains("stripped"), "{build_id}");
    }
}

#[test]
fn a_debug_file_that_is_whole_repeats_what_the_file_says() {
    let programs = Programs::new();
    let library = versioned(&programs);
    let debug = programs.path("whole.debug");
    std::fs::copy(&library, &debug).unwrap();
    run(Command::new("strip").arg(&library));
    add_link(&library, &debug);
    let names: Vec<_> =
        find(&library, "work").unwrap().functions.into_iter().map(|found| found.names).collect();
    assert_eq!(names, [vec!["work@V1", "old"], vec!["work", "new"]]);
}

const INLINED: &str = "
    static inline __attribute__((always_inline)) int only_inlined(int x) { return x * x + 1; }
    __attribute__((noinline)) int sometimes(int x);
    __attribute__((noinline)) int caller(int x) { return only_inlined(x) + only_inlined(x + 1); }
    int main(int argc, char **argv) { return caller(argc); }
";

fn inlined(options: &[&str]) -> (Programs, PathBuf) {
    let programs = Programs::new();
    let app = programs.compile("app.c", INLINED, options);
    (programs, app)
}

fn says_inlined(app: &Path) {
    let error = refusal(app, "only_inlined");
    assert!(error.contains("inlined it into its callers (2 places)"), "{error}");
}

#[test]
fn a_function_that_is_only_inlined_is_said_to_be() {
    for options in [&["-O2", "-g"][..], &["-O2", "-g", "-gz=zlib"], &["-O2", "-g", "-gdwarf-4"]] {
        let (_programs, app) = inlined(options);
        says_inlined(&app);
    }
    let (_programs, app) = inlined(&["-O2"]);
    assert!(!refusal(&app, "only_inlined").contains("callers"), "without debug information it is not known");
}

#[test]
fn the_debug_file_tells_of_inlining_too() {
    let (programs, app) = inlined(&["-O2", "-g", "-Wl,--build-id=sha1"]);
    let debug = programs.path("app.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&app).arg(&debug));
    run(Command::new("strip").arg(&app));
    add_link(&app, &debug);
    says_inlined(&app);
}

#[test]
fn a_function_that_is_inlined_in_some_places_says_so() {
    let programs = Programs::new();
    let source = "
        int total;
        void add(int x) { total += x * 7; }
        void (*volatile by_pointer)(int) = add;
        __attribute__((noinline)) void both(int x) { add(x); add(x + 1); by_pointer(x); }
        int main(int argc, char **argv) { both(argc); return total; }
    ";
    let app = programs.compile("app.c", source, &["-O2", "-g"]);
    assert_eq!(only(&app, "add").notes, [FunctionNote::AlsoInlined(2)]);
    assert_eq!(only(&app, "both").notes, []);
    // A single function's number would be taken for the number of all.
    assert_eq!(only(&app, "ad?").notes, []);
}

#[test]
fn methods_of_cpp_are_known_by_their_whole_name() {
    let programs = Programs::new();
    let source = "
        namespace shop { struct Cart { int n; __attribute__((always_inline)) int add(int x); }; }
        inline int shop::Cart::add(int x) { n += x * n; return n; }
        extern \"C\" __attribute__((noinline)) int caller(int x) { shop::Cart c{x}; return c.add(x) * c.add(3); }
        int main(int argc, char **) { return caller(argc); }
    ";
    let app = programs.compile("app.cc", source, &["-O2", "-g"]);
    let error = refusal(&app, "shop::Cart::add");
    // One call is folded into the other's result.
    assert!(error.contains("inlined it into its callers (1 place)"), "{error}");
    assert_eq!(find(&app, "caller").unwrap().functions.len(), 1);
}

#[test]
fn a_function_of_another_source_file_may_be_inlined_too() {
    let programs = Programs::new();
    let other = programs.path("other.c");
    std::fs::write(&other, "int only_inlined(int x) { return x * x + 1; }").unwrap();
    let source = "
        int only_inlined(int x);
        __attribute__((noinline)) int caller(int x) { return only_inlined(x) + only_inlined(x + 1); }
        int main(int argc, char **argv) { return caller(argc); }
    ";
    says_inlined(&programs.compile("app.c", source, &["-O2", "-g", "-flto", other.to_str().unwrap()]));
}

#[test]
fn a_name_of_four_kilobytes_is_not_looked_for_in_debug_information() {
    for (length, known) in [(4095, true), (4096, false)] {
        let name = "a".repeat(length);
        let programs = Programs::new();
        let app = programs.compile("app.c", &INLINED.replace("only_inlined", &name), &["-O2", "-g"]);
        assert_eq!(refusal(&app, &name).contains("inlined it into its callers"), known, "{length}");
    }
}

const FUTURES: &str = "
use std::{future::Future, hint::black_box, pin::Pin, task::{Context, Poll, Waker}};
struct Twice(bool);
impl Future for Twice {
    type Output = u64;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(3) } else { Poll::Pending }
    }
}
#[inline(never)] fn work(n: u64) -> u64 { (0..n).fold(0, |sum, next| black_box(sum + next)) }
async fn conn(n: u64) -> u64 { let first = work(n); first + work(Twice(false).await) }
#[inline(always)] fn plain(n: u64) -> u64 {
    let add: Box<dyn Fn(u64) -> u64> = black_box(Box::new(move |x| work(x + n)));
    add(n)
}
fn main() {
    let n = std::env::args().count() as u64;
    let mut future: Pin<Box<dyn Future<Output = u64>>> = black_box(Box::pin(conn(n)));
    let mut context = Context::from_waker(Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {}
    println!(\"{}\", plain(n));
}
";

#[test]
fn an_async_function_is_known_by_its_debug_information() {
    let programs = Programs::new();
    let source = programs.path("app.rs");
    std::fs::write(&source, FUTURES).unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    for options in [&["-g"][..], &["-g", "-Csymbol-mangling-version=v0"], &[]] {
        let app = programs.path("app");
        let output = ["--edition=2021", "-Copt-level=2", "-o"];
        run(Command::new(&compiler).args(output).arg(&app).args(options).arg(&source));
        let refused = |function| refusal(&app, function);
        let body = if options.len() > 1 { "app::conn::{closure#0}" } else { "app::conn::{{closure}}" };
        let sentence = match options.is_empty() {
            true => format!("if it is an async fn, its body is `{body}`"),
            false => format!("it is an async fn, whose body is `{body}`"),
        };
        assert!(refused("app::conn").contains(&sentence), "{options:?}: {}", refused("app::conn"));
        assert_eq!(only(&app, body).readable, body);
        // A closure in a function that was inlined is no body of an async function.
        let plain = refused("app::plain");
        let is_inlined = plain.contains("the compiler inlined it into its callers (1 place)");
        assert_eq!(is_inlined, !options.is_empty(), "{options:?}: {plain}");
        assert!(is_inlined || plain.contains("otherwise the compiler inlined it: probe a caller"), "{plain}");
    }
}
