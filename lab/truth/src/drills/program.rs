//! A program with planted culprits, made from a seed.

mod go;
mod kernel;
mod python;
mod rust;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub use kernel::SystemCall;
use rust::Rust;

/// A program's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// C.
    C,
    /// C++, with virtual functions.
    Cpp,
    /// Rust, with `dyn` trait methods.
    Rust,
    /// Go, with interface methods and goroutines.
    Go,
    /// Python, with methods, generators and exceptions.
    Python,
}

/// A Python program that compiles another and writes nothing.
const COMPILES: &str = "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')";

/// A Python interpreter with built-in probes, such as Debian's.
const PYTHON: &str = "/usr/bin/python3.11";

impl Language {
    /// Its compiler's command.
    pub fn compiler(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cpp => "c++",
            Self::Rust => "rustc",
            Self::Go => "go",
            Self::Python => PYTHON,
        }
    }

    /// Its name.
    pub fn shown(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Python => "Python",
        }
    }

    /// Whether its compiler can be run here.
    pub fn can_be_built(self) -> bool {
        let version = if self == Self::Go { "version" } else { "--version" };
        let run = Command::new(self.compiler()).arg(version).output();
        run.is_ok_and(|output| output.status.success())
    }
}

/// A culprit's way to take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Culprit {
    /// It computes.
    Computes,
    /// It sleeps.
    Sleeps,
    /// It waits for a lock held by another thread.
    Locks,
    /// It waits for bytes that another thread writes to a pipe.
    Reads,
}

/// The way to call a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Directly,
    /// Only in some calls, and on the planted path.
    Sometimes,
    /// This number of times, but once where the callee goes on.
    InALoop(u32),
    ByPointer,
    Virtually,
    /// In the last place: an optimising compiler makes the call a jump.
    InTheLastPlace,
    /// Through a pointer, in the last place.
    ByPointerInTheLastPlace,
}

/// A call to a function on the next level.
#[derive(Debug, Clone, Copy)]
struct Site {
    callee: usize,
    how: How,
}

/// A program.
#[derive(Debug, Clone)]
pub struct Program {
    /// The seed from which it is made.
    pub seed: u64,
    /// Its language.
    pub language: Language,
    optimised: bool,
    threads: u32,
    /// The culprit's time, ms.
    ms: u64,
    /// The functions on each level below `f0`; each has the same number of sites.
    levels: Vec<Vec<Vec<Site>>>,
    /// The sites in `f0`.
    first: Vec<Site>,
    /// For each planted path, its sites from `f0` down.
    planted: Vec<Vec<usize>>,
    culprit: Culprit,
    /// Replaces the culprit, in C.
    system_call: Option<SystemCall>,
    /// Functions that call themselves once at the beginning.
    recursive: Vec<(usize, usize)>,
    rust: Rust,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

impl Program {
    /// The program for a seed: the same each time.
    pub fn from_seed(seed: u64, language: Language) -> Self {
        let mut random = Random(seed);
        let fan_out = random.of(&[2, 4, 8]);
        let depth = 2 + random.below(7);
        let optimised = random.below(2) == 1;
        let culprit = random.of(&[Culprit::Computes, Culprit::Sleeps, Culprit::Locks, Culprit::Reads]);
        let site = |random: &mut Random, place: usize| {
            let mut how = match random.below(10) {
                0..4 => How::Directly,
                4..6 => How::Sometimes,
                6 => How::InALoop(2 + random.below(8) as u32),
                7 => How::ByPointer,
                8 if language != Language::C => How::Virtually,
                9 if place + 1 == fan_out => How::InTheLastPlace,
                _ => How::Directly,
            };
            // More indirect calls on a level cost the program too much time: only every fourth place may have a
            // pointer.
            if how == How::ByPointer && !place.is_multiple_of(4) {
                how = How::Directly;
            }
            let callee = random.below(fan_out);
            if how == How::InTheLastPlace
                && callee % 2 == 1
                && matches!(language, Language::C | Language::Cpp)
            {
                how = How::ByPointerInTheLastPlace;
            }
            Site { callee, how }
        };
        let sites = |random: &mut Random| (0..fan_out).map(|place| site(random, place)).collect::<Vec<_>>();
        let first = sites(&mut random);
        let levels: Vec<Vec<Vec<Site>>> =
            (1..depth).map(|_| (0..fan_out).map(|_| sites(&mut random)).collect()).collect();
        // The last level calls nothing.
        let way = |random: &mut Random| (0..depth).map(|_| random.below(fan_out)).collect::<Vec<_>>();
        let mut planted = vec![way(&mut random)];
        // Two culprits part at `f0`, so that a thread meets both in a call.
        if random.below(5) == 0 {
            let mut second = way(&mut random);
            second[0] = (planted[0][0] + 1) % fan_out;
            planted.push(second);
        }
        let recursive =
            (0..random.below(3)).map(|_| (1 + random.below(depth), random.below(fan_out))).collect();
        // Only a single thread waits for the lock at a time.
        let threads = if culprit == Culprit::Computes || culprit == Culprit::Sleeps {
            1 + random.below(3) as u32
        } else {
            1
        };
        // Computing threads need a CPU each, or they wait for a CPU.
        let threads = if culprit == Culprit::Computes { 1 } else { threads };
        let ms = 2 + random.below(7) as u64;
        let rust = Rust::default();
        let system_call = None;
        let mut program = Self {
            seed,
            language,
            optimised,
            threads,
            ms,
            levels,
            first,
            planted,
            culprit,
            system_call,
            recursive,
            rust,
        };
        if language == Language::Rust {
            program.rust = Rust::at_random(&mut random, &program.all());
        }
        program
    }

    /// The language and the optimisation level.
    pub fn kind(&self) -> String {
        if self.language == Language::Python {
            return self.language.shown().to_owned();
        }
        format!("{} -O{}", self.language.shown(), if self.optimised { 2 } else { 0 })
    }

    /// The name by which a user asks for the first function.
    pub fn first(&self) -> &'static str {
        match self.language {
            Language::C | Language::Cpp => "f0",
            Language::Rust => self.first_in_rust(),
            Language::Go => "main.f0",
            Language::Python => "f0",
        }
    }

    /// The target by which a user asks for the first function in this file.
    pub fn target(&self, file: &Path) -> String {
        match self.language {
            Language::Python => format!("python:{}", self.first()),
            _ => format!("{}:{}", file.display(), self.first()),
        }
    }

    /// The interpreter that runs the file, if it needs one.
    pub fn interpreter(&self) -> Option<&'static str> {
        (self.language == Language::Python).then_some(PYTHON)
    }

    /// All functions: level and number, from `f0` down.
    fn all(&self) -> Vec<(usize, usize)> {
        let level = |level| (0..self.first.len()).map(move |number| (level, number));
        std::iter::once((0, 0)).chain((1..=self.planted[0].len()).flat_map(level)).collect()
    }

    fn sites_of(&self, level: usize, number: usize) -> &[Site] {
        match level {
            0 => &self.first,
            level => {
                self.levels.get(level - 1).and_then(|level| level.get(number)).map_or(&[], Vec::as_slice)
            }
        }
    }

    /// The functions on a planted path: level and number.
    fn functions_on(&self, way: &[usize]) -> Vec<(usize, usize)> {
        let mut at = (0, 0);
        let mut functions = vec![at];
        for &place in way {
            at = (at.0 + 1, self.sites_of(at.0, at.1)[place].callee);
            functions.push(at);
        }
        functions
    }

    /// The function names on each planted path.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let named = |way: &Vec<usize>| self.functions_on(way).into_iter().map(name).collect();
        self.planted.iter().map(named).collect()
    }

    /// A line that describes the program.
    pub fn describe(&self) -> String {
        let paths: Vec<_> = self.paths().iter().map(|path| path.join(" ")).collect();
        format!(
            "seed {} {}: {} wide, {} deep, {} threads, {} for {} ms in {}",
            self.seed,
            self.kind(),
            self.first.len(),
            self.planted[0].len(),
            self.threads,
            self.system_call
                .map_or_else(|| format!("{:?}", self.culprit), |call| format!("{call:?} in the kernel")),
            self.ms,
            paths.join(" and ")
        )
    }

    /// Writes and compiles the source. Returns the program's file.
    pub fn build(&self, folder: &Path) -> Result<PathBuf> {
        let compiler = self.language.compiler();
        let source = folder.join(match self.language {
            Language::C => "program.c",
            Language::Cpp => "program.cc",
            Language::Rust => "program.rs",
            Language::Go => "program.go",
            Language::Python => "program.py",
        });
        std::fs::write(&source, self.source())?;
        let program = match self.language {
            Language::Python => source.clone(),
            _ => folder.join("program"),
        };
        let mut command = Command::new(compiler);
        match (self.language, self.optimised) {
            (Language::Rust, false) => command.args(["--edition", "2021", "-g", "-C", "opt-level=0"]),
            (Language::Rust, true) => command.args(["--edition", "2021", "-g", "-C", "opt-level=2"]),
            (Language::Go, false) => command.args(["build", "-gcflags=-N -l"]),
            (Language::Go, true) => command.arg("build"),
            // The command checks that the file is Python, and leaves it unchanged.
            (Language::Python, _) => command.args(["-c", COMPILES]),
            (_, false) => command.args(["-g", "-pthread", "-w", "-O0"]),
            (_, true) => command.args(["-g", "-pthread", "-w", "-O2"]),
        };
        if self.language == Language::Rust {
            command.args(self.rust_options());
        }
        if self.language == Language::Go {
            // The build needs no downloads.
            command.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "")]);
            if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
                command.env("GOCACHE", folder.join("cache"));
            }
        }
        if self.language != Language::Python {
            command.arg("-o").arg(&program);
        }
        let output = command.arg(&source).output().with_context(|| format!("cannot run {compiler}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {compiler} refused it: {errors}", self.describe());
        Ok(program)
    }

    fn source(&self) -> String {
        match self.language {
            Language::C | Language::Cpp => self.c_source(),
            Language::Rust => self.rust_source(),
            Language::Go => self.go_source(),
            Language::Python => self.python_source(),
        }
    }

    /// The same code serves C and C++, which has methods too.
    fn c_source(&self) -> String {
        let culprit = match self.culprit {
            Culprit::Computes => "computes",
            Culprit::Sleeps => "sleeps",
            Culprit::Locks => "locks",
            Culprit::Reads => "reads",
        };
        let culprit = self.system_call.map_or(culprit, SystemCall::in_c);
        let ways: Vec<String> = self.planted.iter().map(|way| braced(way)).collect();
        let mut text = format!(
            "enum {{ DEPTH = {}, FAN_OUT = {}, THREADS = {}, MS = {}, NUMBER_OF_WAYS = {} }};\n\
             #define CULPRIT {culprit}\n#define WAYS {{ {} }}\n{HEAD}",
            self.planted[0].len(),
            self.first.len(),
            self.threads,
            self.ms,
            ways.len(),
            ways.join(", ")
        );
        let all = self.all();
        let below = &all[1..];
        for &function in below {
            let _ = writeln!(text, "PROBED long {}(struct call *c, int goes_on);", name(function));
        }
        if self.language == Language::Cpp {
            for &function in below {
                let name = name(function);
                let _ = writeln!(
                    text,
                    "struct B{name} {{ virtual long {name}(struct call *c, int goes_on) = 0; }};\n\
                     struct V{name} : B{name} {{ PROBED virtual long {name}(struct call *c, int goes_on); }};\n\
                     static V{name} object_{name};\nstatic B{name} *volatile pointer_{name} = &object_{name};"
                );
            }
        }
        // From the last level up, as a programmer would write it.
        for &function in all.iter().rev() {
            self.function(function, &mut text);
        }
        text += TAIL;
        text
    }

    fn function(&self, at: (usize, usize), text: &mut String) {
        let own = name(at);
        let _ = writeln!(
            text,
            "PROBED long {own}(struct call *c, int goes_on)\n{{\n\tlong x = goes_on;\n\n\tKEEP(x);"
        );
        let _ = writeln!(text, "\tif (!goes_on)\n\t\treturn x + work(20);");
        if self.recursive.contains(&at) {
            let _ = writeln!(text, "\tx += {own}(c, 0);");
        }
        for way in &self.planted {
            let functions = self.functions_on(way);
            if functions.last() == Some(&at) {
                let number = self.planted.iter().position(|other| other == way).unwrap_or(0);
                let _ = writeln!(text, "\tif (c->culprit == {})\n\t\tx += take_time();", number + 1);
            }
        }
        let sites = self.sites_of(at.0, at.1);
        for (place, site) in sites.iter().enumerate() {
            let callee = name((at.0 + 1, site.callee));
            // A call goes on at a single place on each level; `f0` follows two ways if there are two culprits.
            let on = match at.0 {
                0 => format!("enters(c, {place})"),
                level => format!("c->way[{level}] == {place}"),
            };
            let call = match site.how {
                How::ByPointer | How::ByPointerInTheLastPlace => format!("p_{own}_{place}(c, {on})"),
                How::Virtually => format!("pointer_{callee}->{callee}(c, {on})"),
                _ => format!("{callee}(c, {on})"),
            };
            if matches!(site.how, How::ByPointer | How::ByPointerInTheLastPlace) {
                let _ = writeln!(
                    text,
                    "\tstatic long (*volatile p_{own}_{place})(struct call *, int) = {callee};"
                );
            }
            match site.how {
                How::Sometimes => {
                    let _ = writeln!(text, "\tif ({on} || (c->number + {place}) % 3)\n\t\tx += {call};");
                }
                How::InALoop(times) => {
                    let _ = writeln!(
                        text,
                        "\tfor (int i = {on} ? {} : 0; i < {times}; i++)\n\t\tx += {call};",
                        times - 1
                    );
                }
                How::InTheLastPlace | How::ByPointerInTheLastPlace => {
                    let _ = writeln!(text, "\tc->sum += x;\n\treturn {call};\n}}\n");
                    self.method(at, text);
                    return;
                }
                How::Directly | How::ByPointer | How::Virtually => {
                    let _ = writeln!(text, "\tx += {call};");
                }
            }
        }
        let _ = writeln!(text, "\tKEEP(x);\n\treturn x;\n}}\n");
        self.method(at, text);
    }

    /// In C++, the method with the function's name has the same code; a call to the method is no call to the function.
    fn method(&self, at: (usize, usize), text: &mut String) {
        if self.language == Language::C || at.0 == 0 {
            return;
        }
        let own = name(at);
        let Some(begin) = text.rfind(&format!("PROBED long {own}(struct call *c, int goes_on)\n{{")) else {
            return;
        };
        let body = text[begin..].replacen(&format!("PROBED long {own}"), &format!("long V{own}::{own}"), 1);
        text.push_str(&body);
    }
}

fn name((level, number): (usize, usize)) -> String {
    if level == 0 { "f0".to_owned() } else { format!("f{level}_{number}") }
}

fn braced(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{{ {} }}", numbers.join(", "))
}

const HEAD: &str = include_str!("head.c");
const TAIL: &str = include_str!("tail.c");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_program_which_compiles() {
        let languages = [
            (Language::C, 24),
            (Language::Cpp, 24),
            (Language::Rust, 8),
            (Language::Go, 8),
            (Language::Python, 8),
        ];
        for (language, seeds) in languages.into_iter().filter(|(language, _)| language.can_be_built()) {
            for seed in 0..seeds {
                let program = Program::from_seed(seed, language);
                assert_eq!(program.source(), Program::from_seed(seed, language).source());
                for path in program.paths() {
                    assert_eq!(path.len(), program.planted[0].len() + 1, "{}", program.describe());
                }
                let folder = tempfile::tempdir().expect("a folder");
                program.build(folder.path()).expect("it compiles");
            }
        }
    }
}
