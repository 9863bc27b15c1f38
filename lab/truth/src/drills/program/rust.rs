//! A program in Rust.

use std::fmt::Write;

use super::{Culprit, How, Program, Random, name};

/// The parts of a program that only Rust has.
#[derive(Debug, Clone, Default)]
pub(super) struct Rust {
    /// A panic ends the program; otherwise it unwinds, for which functions have more code.
    aborts: bool,
    /// Names are mangled in the newer of the two ways (v0).
    newer_names: bool,
    /// The functions with unmangled names.
    unmangled: Vec<(usize, usize)>,
    /// The functions that drop a value at their end, behind their last call.
    owners: Vec<(usize, usize)>,
}

impl Rust {
    pub fn at_random(random: &mut Random, all: &[(usize, usize)]) -> Self {
        let (aborts, newer_names) = (random.below(2) == 1, random.below(2) == 1);
        let mut some = |one_in| all.iter().copied().filter(|_| random.below(one_in) == 0).collect::<Vec<_>>();
        Self { aborts, newer_names, unmangled: some(2), owners: some(4) }
    }
}

impl Program {
    /// The compiler's options for panics and name mangling.
    pub(super) fn rust_options(&self) -> Vec<&'static str> {
        let panic = if self.rust.aborts { "panic=abort" } else { "panic=unwind" };
        let names: &[&str] = if self.rust.newer_names { &["-C", "symbol-mangling-version=v0"] } else { &[] };
        [&["-C", panic], names].concat()
    }

    /// The name by which a user asks for the first function.
    pub(super) fn first_in_rust(&self) -> &'static str {
        if self.rust.unmangled.contains(&(0, 0)) { "f0" } else { "program::f0" }
    }

    pub(super) fn rust_source(&self) -> String {
        let culprit = match self.culprit {
            Culprit::Computes => "Computes",
            Culprit::Sleeps => "Sleeps",
            Culprit::Locks => "Locks",
            Culprit::Reads => "Reads",
        };
        let mut text = format!(
            "{HEAD}\nconst DEPTH: usize = {};\nconst FAN_OUT: usize = {};\nconst THREADS: u64 = {};\n\
             const MS: u64 = {};\nconst CULPRIT: Culprit = Culprit::{culprit};\nconst NUMBER_OF_WAYS: usize = {};\n\
             const WAYS: [[usize; DEPTH]; NUMBER_OF_WAYS] = {:?};\n\n",
            self.planted[0].len(),
            self.first.len(),
            self.threads,
            self.ms,
            self.planted.len(),
            self.planted,
        );
        self.indirect(&mut text);
        for at in self.all() {
            let own = name(at);
            let no_mangle = if self.rust.unmangled.contains(&at) { "#[no_mangle]\n" } else { "" };
            let _ = writeln!(
                text,
                "#[inline(never)]\n{no_mangle}pub fn {own}(c: &mut Call, goes_on: bool) -> u64 {{\n{}}}\n",
                self.rust_body(at, &own, &format!("{own}(c, false)"))
            );
        }
        text
    }

    /// Writes the pointers and objects for calls whose callee is unknown at compile time.
    fn indirect(&self, text: &mut String) {
        let (mut fields, mut values, mut virtually) = (String::new(), String::new(), Vec::new());
        for at in self.all() {
            for (place, site) in self.sites_of(at.0, at.1).iter().enumerate() {
                let callee = (at.0 + 1, site.callee);
                match site.how {
                    How::ByPointer => {
                        let field = format!("p_{}_{place}", name(at));
                        let _ = writeln!(fields, "    {field}: Function,");
                        let _ = writeln!(values, "            {field}: {},", name(callee));
                    }
                    How::Virtually if !virtually.contains(&callee) => virtually.push(callee),
                    _ => {}
                }
            }
        }
        for &at in &virtually {
            let own = name(at);
            let _ = writeln!(fields, "    o_{own}: Box<dyn B{own} + Send + Sync>,");
            let _ = writeln!(values, "            o_{own}: Box::new(V{own}),");
            // The method with the function's name has the same code; a call to the method is no call to the function.
            let _ = writeln!(
                text,
                "trait B{own} {{\n    fn {own}(&self, c: &mut Call, goes_on: bool) -> u64;\n}}\n\nstruct V{own};\n\n\
                 impl B{own} for V{own} {{\n#[inline(never)]\nfn {own}(&self, c: &mut Call, goes_on: bool) -> u64 {{\n{}}}\n}}\n",
                self.rust_body(at, &format!("V{own}"), &format!("self.{own}(c, false)"))
            );
        }
        let _ = writeln!(
            text,
            "struct Indirect {{\n{fields}}}\n\nimpl Indirect {{\n    fn new() -> Self {{\n        Self {{\n{values}        }}\n    }}\n}}\n"
        );
    }

    /// A function's body; no other function's code has `label`.
    fn rust_body(&self, at: (usize, usize), label: &str, itself: &str) -> String {
        let own = name(at);
        let mut text = format!("    let mut x = goes_on as u64;\n    keep!(x, \"{label} begins\");\n");
        text += "    if !goes_on {\n        return x.wrapping_add(work(20));\n    }\n";
        if self.rust.owners.contains(&at) {
            text += "    let owned = std::hint::black_box(Box::new(x));\n";
        }
        if self.recursive.contains(&at) {
            let _ = writeln!(text, "    x = x.wrapping_add({itself});");
        }
        for (number, way) in (1..).zip(&self.planted) {
            if self.functions_on(way).last() == Some(&at) {
                let _ = writeln!(
                    text,
                    "    if c.way == {number} {{\n        x = x.wrapping_add(take_time());\n    }}"
                );
            }
        }
        for (place, site) in self.sites_of(at.0, at.1).iter().enumerate() {
            let callee = name((at.0 + 1, site.callee));
            // A call goes on at a single place on each level; `f0` follows two ways if there are two culprits.
            let on = match at.0 {
                0 => format!("enters(c, {place})"),
                level => format!("c.ways[c.way][{level}] == {place}"),
            };
            let _ = writeln!(text, "    let on = {on};");
            let call = match site.how {
                How::ByPointer => format!("(c.indirect.p_{own}_{place})(c, on)"),
                How::Virtually => format!("c.indirect.o_{callee}.{callee}(c, on)"),
                _ => format!("{callee}(c, on)"),
            };
            let added = format!("x = x.wrapping_add({call});");
            let _ = match site.how {
                How::Sometimes => {
                    writeln!(text, "    if on || (c.number + {place}) % 3 != 0 {{\n        {added}\n    }}")
                }
                How::InALoop(times) => {
                    writeln!(
                        text,
                        "    for _ in if on {{ {} }} else {{ 0 }}..{times} {{\n        {added}\n    }}",
                        times - 1
                    )
                }
                How::InTheLastPlace | How::ByPointerInTheLastPlace => {
                    let _ = writeln!(text, "    c.sum = c.sum.wrapping_add(x);\n    {call}");
                    return text;
                }
                How::Directly | How::ByPointer | How::Virtually => writeln!(text, "    {added}"),
            };
        }
        let _ = writeln!(text, "    keep!(x, \"{label} ends\");\n    x");
        text
    }
}

const HEAD: &str = include_str!("../head.rs");
