//! The interpreters whose scripts are named, and their options, from their manuals.

use Long::{Flag, Script, Text, Value};

/// A family of interpreters with the same options.
pub(super) struct Rules {
    /// The programs' names; a version may stand behind.
    names: &'static [&'static str],
    /// Letters for options without a value.
    pub flags: &'static str,
    /// Letters behind which digits may stand in the same word.
    pub digits: &'static str,
    /// Letters with a value: the rest of the word, or else the next word.
    pub values: &'static str,
    /// Letters with a value in the next word, only at the end of their word.
    pub last: &'static str,
    /// Letters with a value in the rest of the word.
    pub joined: &'static str,
    /// Letters and marks: the rest of the word is a value if it begins with the mark.
    pub suffixes: &'static [(u8, u8)],
    /// Letters whose value names the script.
    pub scripts: &'static str,
    /// Options also begin with `+`.
    pub plus: bool,
    /// Long options may begin with a single dash; there are no letters.
    pub long_with_one_dash: bool,
    pub long: &'static [(&'static str, Long)],
    /// Beginnings of long options in a single word.
    pub prefixes: &'static [&'static str],
    /// An option outside `long` with `=` in it is a word.
    pub any_with_value: bool,
    /// The script stands behind `--`.
    pub ends_options: bool,
    /// The first word behind the options names the script.
    pub takes_script: bool,
    pub command: Command,
}

/// A long option.
#[derive(Clone, Copy)]
pub(super) enum Long {
    Flag,
    /// With a value: behind `=`, or else the next word.
    Value,
    /// Its value names the script.
    Script,
    /// With program text, or a task's name.
    Text,
}

/// A command before the script.
#[derive(Clone, Copy)]
pub(super) enum Command {
    None,
    Needed(&'static str),
    /// Without it, only a word with a dot or a slash is a script.
    Possible(&'static str),
}

impl Rules {
    /// The row for a program with this name.
    pub fn find(program: &[u8]) -> Option<&'static Self> {
        let is_version = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let is_named = |name: &&str| program.strip_prefix(name.as_bytes()).is_some_and(is_version);
        ALL.iter().find(|rules| rules.names.iter().any(is_named))
    }
}

const NONE: Rules = Rules {
    names: &[],
    flags: "",
    digits: "",
    values: "",
    last: "",
    joined: "",
    suffixes: &[],
    scripts: "",
    plus: false,
    long_with_one_dash: false,
    long: &[],
    prefixes: &[],
    any_with_value: false,
    ends_options: true,
    takes_script: true,
    command: Command::None,
};

const ALL: &[Rules] = &[
    // `-s` reads standard input.
    Rules {
        names: &["sh", "bash", "rbash", "dash", "ash"],
        flags: "abefhiklmnprtuvxBCEHIPTV",
        last: "oO",
        plus: true,
        long: &[
            ("--debug", Flag),
            ("--debugger", Flag),
            ("--login", Flag),
            ("--noediting", Flag),
            ("--noprofile", Flag),
            ("--norc", Flag),
            ("--posix", Flag),
            ("--restricted", Flag),
            ("--verbose", Flag),
            ("--init-file", Value),
            ("--rcfile", Value),
        ],
        ..NONE
    },
    Rules { names: &["ksh", "mksh", "zsh"], flags: "aefilmnuvx", last: "o", plus: true, ..NONE },
    Rules {
        names: &["python", "pypy"],
        flags: "3bBdEhiIOPqRsStuvVx",
        values: "QWX",
        scripts: "m",
        long: &[("--check-hash-based-pycs", Value), ("--jit", Value)],
        ..NONE
    },
    Rules {
        names: &["perl"],
        flags: "acdfghinpsStTuUvwWX",
        digits: "0lC",
        values: "I",
        joined: "FmM",
        suffixes: &[(b'i', b'.'), (b'd', b':')],
        ..NONE
    },
    Rules {
        names: &["ruby"],
        flags: "acdhilnpsSUvwy",
        digits: "0TW",
        values: "CEIr",
        joined: "FK",
        suffixes: &[(b'i', b'.'), (b'W', b':')],
        long: &[("--jit", Flag), ("--rjit", Flag), ("--yjit", Flag), ("--verbose", Flag)],
        prefixes: &["--disable-", "--disable=", "--enable-", "--enable=", "--encoding=", "--yjit-"],
        ..NONE
    },
    Rules {
        names: &["node", "nodejs"],
        flags: "chiv",
        values: "Cr",
        long: NODE,
        any_with_value: true,
        ..NONE
    },
    // Behind `--` stand arguments, for a script from standard input.
    Rules {
        names: &["php"],
        flags: "aCehHilmnqsvw",
        values: "cdz",
        scripts: "fF",
        long: &[("--define", Value), ("--file", Script), ("--no-php-ini", Flag), ("--php-ini", Value)],
        ends_options: false,
        ..NONE
    },
    Rules { names: &["lua", "luajit"], flags: "EivW", digits: "O", values: "jl", ..NONE },
    Rules { names: &["java"], long_with_one_dash: true, long: JAVA, prefixes: JAVA_WORDS, ..NONE },
    Rules { names: &["Rscript"], long: R, prefixes: &["--default-packages=", "--encoding="], ..NONE },
    // `Rscript` runs `R --file=…`.
    Rules { names: &["R"], scripts: "f", long: R, takes_script: false, ..NONE },
    // The first word behind the options is program text.
    Rules {
        names: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        values: "FvW",
        scripts: "f",
        long: &[("--assign", Value), ("--field-separator", Value), ("--file", Script)],
        takes_script: false,
        ..NONE
    },
    Rules { names: &["tclsh"], long_with_one_dash: true, long: &[("-encoding", Value)], ..NONE },
    Rules {
        names: &["guile"],
        flags: "q",
        values: "CeLlx",
        scripts: "s",
        long: &[
            ("--auto-compile", Flag),
            ("--debug", Flag),
            ("--no-auto-compile", Flag),
            ("--no-debug", Flag),
        ],
        ..NONE
    },
    Rules {
        names: &["deno"],
        flags: "Aqr",
        values: "cL",
        long: &[
            ("--cached-only", Flag),
            ("--check", Flag),
            ("--inspect", Flag),
            ("--inspect-brk", Flag),
            ("--no-check", Flag),
            ("--no-lock", Flag),
            ("--no-prompt", Flag),
            ("--no-remote", Flag),
            ("--quiet", Flag),
            ("--reload", Flag),
            ("--watch", Flag),
            ("--config", Value),
            ("--import-map", Value),
            ("--location", Value),
        ],
        prefixes: &["--allow-", "--deny-", "--unstable-"],
        any_with_value: true,
        command: Command::Needed("run"),
        ..NONE
    },
    Rules {
        names: &["bun"],
        flags: "b",
        values: "r",
        long: &[
            ("--bun", Flag),
            ("--hot", Flag),
            ("--inspect", Flag),
            ("--smol", Flag),
            ("--watch", Flag),
            ("--cwd", Value),
            ("--eval", Text),
            ("--preload", Value),
            ("--print", Text),
        ],
        any_with_value: true,
        command: Command::Possible("run"),
        ..NONE
    },
];

const NODE: &[(&str, Long)] = &[
    ("--abort-on-uncaught-exception", Flag),
    ("--check", Flag),
    ("--cpu-prof", Flag),
    ("--enable-source-maps", Flag),
    ("--experimental-strip-types", Flag),
    ("--experimental-vm-modules", Flag),
    ("--expose-gc", Flag),
    ("--harmony", Flag),
    ("--heap-prof", Flag),
    ("--inspect", Flag),
    ("--inspect-brk", Flag),
    ("--inspect-wait", Flag),
    ("--interactive", Flag),
    ("--no-deprecation", Flag),
    ("--no-warnings", Flag),
    ("--pending-deprecation", Flag),
    ("--preserve-symlinks", Flag),
    ("--preserve-symlinks-main", Flag),
    ("--prof", Flag),
    ("--throw-deprecation", Flag),
    ("--trace-deprecation", Flag),
    ("--trace-gc", Flag),
    ("--trace-uncaught", Flag),
    ("--trace-warnings", Flag),
    ("--use-openssl-ca", Flag),
    ("--watch", Flag),
    ("--conditions", Value),
    ("--env-file", Value),
    ("--experimental-loader", Value),
    ("--icu-data-dir", Value),
    ("--import", Value),
    ("--input-type", Value),
    ("--inspect-port", Value),
    ("--loader", Value),
    ("--openssl-config", Value),
    ("--require", Value),
    ("--title", Value),
    ("--eval", Text),
    ("--print", Text),
    ("--run", Text),
];

const JAVA: &[(&str, Long)] = &[
    ("-client", Flag),
    ("-d64", Flag),
    ("-da", Flag),
    ("-disableassertions", Flag),
    ("-disablesystemassertions", Flag),
    ("-dsa", Flag),
    ("-ea", Flag),
    ("-enableassertions", Flag),
    ("-enablesystemassertions", Flag),
    ("-esa", Flag),
    ("-server", Flag),
    ("-showversion", Flag),
    ("-verbose", Flag),
    ("--enable-preview", Flag),
    ("--show-version", Flag),
    ("-classpath", Value),
    ("-cp", Value),
    ("-p", Value),
    ("--add-exports", Value),
    ("--add-modules", Value),
    ("--add-opens", Value),
    ("--add-reads", Value),
    ("--class-path", Value),
    ("--enable-native-access", Value),
    ("--limit-modules", Value),
    ("--module-path", Value),
    ("--patch-module", Value),
    ("--source", Value),
    ("--upgrade-module-path", Value),
    ("-jar", Script),
    ("-m", Script),
    ("--module", Script),
];

const JAVA_WORDS: &[&str] = &[
    "-D",
    "-X",
    "-agentlib:",
    "-agentpath:",
    "-da:",
    "-disableassertions:",
    "-ea:",
    "-enableassertions:",
    "-javaagent:",
    "-splash:",
    "-verbose:",
];

const R: &[(&str, Long)] = &[
    ("--no-echo", Flag),
    ("--no-environ", Flag),
    ("--no-init-file", Flag),
    ("--no-restore", Flag),
    ("--no-save", Flag),
    ("--no-site-file", Flag),
    ("--restore", Flag),
    ("--save", Flag),
    ("--slave", Flag),
    ("--vanilla", Flag),
    ("--verbose", Flag),
    ("--file", Script),
];
