//! Scripts are named, and words with secrets never.

use proptest::prelude::*;

use super::*;

/// The name for a program that is started with these words.
fn named(line: &str) -> Option<String> {
    let program = last_component(line.split(' ').next().expect("a program").as_bytes());
    let arguments: Vec<u8> = line.split(' ').flat_map(|word| word.bytes().chain([0])).collect();
    let script = script(program, &arguments);
    assert!(script.is_none() || may_run_scripts(program), "{line}");
    script.map(|name| String::from_utf8(name.into()).expect("the words are text"))
}

#[test]
fn only_interpreters_may_run_a_script() {
    for (program, may) in [
        ("bash", true),
        ("python3.11 (deleted)", true),
        ("busybox", true),
        ("sleep", false),
        ("", false),
        ("make", false),
    ] {
        assert_eq!(may_run_scripts(program.as_bytes()), may, "{program}");
    }
}

#[test]
fn the_script_is_the_first_word_that_is_no_option_and_no_options_value() {
    for (line, name) in [
        ("/bin/sh mon.sh", "mon.sh"),
        ("/bin/bash -ex /opt/entry.sh --password SECRET", "entry.sh"),
        ("bash -o pipefail -O extglob +x --norc --rcfile /etc/SECRET entry.sh", "entry.sh"),
        ("bash -eo pipefail entry.sh", "entry.sh"),
        ("bash -- -e.sh", "-e.sh"),
        ("dash hook", "hook"),
        ("zsh -f deploy.zsh", "deploy.zsh"),
        ("ksh93 a.ksh", "a.ksh"),
        ("/usr/bin/python3.11 h.py", "h.py"),
        ("python3 -u -W SECRET -X dev -WSECRET h.py SECRET", "h.py"),
        ("python3 -Im http.server 8000", "http.server"),
        ("python -mpytest SECRET", "pytest"),
        ("python2.7 -Q new a.py", "a.py"),
        ("pypy3 --jit off a.py", "a.py"),
        ("perl -w -I lib -Ilib -MSECRET -i.bak -0777 -l12 a.pl", "a.pl"),
        ("perl -d:NYTProf a.pl", "a.pl"),
        ("ruby -W2 -W:no-x -rSECRET -r SECRET -E utf-8 --yjit --disable=gems a.rb", "a.rb"),
        ("node server.js", "server.js"),
        ("node --require=x a.js SECRET", "a.js"),
        (
            "nodejs -r SECRET --require=SECRET --max-old-space-size=4096 --inspect=0:9229 app/server.js",
            "server.js",
        ),
        ("php -d a=SECRET -c SECRET -f a.php", "a.php"),
        ("php8.2 artisan queue:work", "artisan"),
        ("lua5.4 -l SECRET a.lua", "a.lua"),
        ("luajit -O2 -jon a.lua", "a.lua"),
        ("java -Dpassword=SECRET -cp SECRET M", "M"),
        ("java -Xmx1g -javaagent:SECRET -ea -jar /opt/shop/app.jar SECRET", "app.jar"),
        ("java --module-path SECRET --add-opens=SECRET -m shop/com.shop.Main", "com.shop.Main"),
        ("Rscript --vanilla a.R SECRET", "a.R"),
        ("R --no-echo --no-restore --file=a.R --args SECRET", "a.R"),
        ("awk -F: -v x=SECRET -f a.awk SECRET", "a.awk"),
        ("mawk -fa.awk", "a.awk"),
        ("tclsh8.6 -encoding utf-8 a.tcl", "a.tcl"),
        ("guile --no-auto-compile -L SECRET -e SECRET -s a.scm", "a.scm"),
        ("deno run -A --allow-net=SECRET --config SECRET a.ts", "a.ts"),
        ("bun --watch server.ts", "server.ts"),
        ("bun run dev", "dev"),
        ("busybox sh a.sh", "a.sh"),
    ] {
        assert_eq!(named(line).as_deref(), Some(name), "{line}");
    }
    // The kernel starts an applet by its link's name.
    assert_eq!(script(b"busybox", b"/bin/ash\0a.sh\0").as_deref(), Some(&b"a.sh"[..]));
    assert_eq!(script(b"python3.11 (deleted)", b"py\0a.py\0").as_deref(), Some(&b"a.py"[..]));
}

#[test]
fn program_text_and_values_are_never_a_name() {
    for line in [
        "bash -c SECRET",
        "bash -xc SECRET",
        "bash -o pipefail -ec SECRET x",
        "bash -oe pipefail SECRET",
        "sh -s SECRET",
        "zsh -c SECRET",
        "python3 -c SECRET",
        "python3 -uc SECRET",
        "python3 -ic SECRET",
        "perl -e SECRET",
        "perl -lane SECRET",
        "perl -0777pe SECRET",
        "perl -pie SECRET",
        "perl -F: -E SECRET",
        "ruby -e SECRET",
        "ruby -rx -ne SECRET",
        "node -e SECRET",
        "node -p SECRET",
        "node -pe SECRET",
        "node --eval SECRET",
        "node --eval=SECRET a.js",
        "node --print SECRET",
        "node --run SECRET",
        "php -r SECRET",
        "php -- SECRET",
        "lua -e SECRET",
        "java @SECRET",
        "java -cp SECRET @SECRET",
        "Rscript -e SECRET",
        "R --no-echo --args SECRET",
        "R SECRET",
        "awk SECRET",
        "awk -F: -- SECRET",
        "gawk -e SECRET",
        "guile -c SECRET",
        "deno eval SECRET",
        "deno SECRET",
        "bun -e SECRET",
        "bun --print=SECRET a.ts",
        "bun SECRET",
        "busybox awk SECRET",
    ] {
        assert_eq!(named(line), None, "{line}");
    }
}

#[test]
fn an_unknown_option_gives_no_name_since_the_next_word_may_be_its_value() {
    for line in [
        "bash -Z SECRET",
        "bash --unknown SECRET",
        "python3 -Z SECRET",
        "python3 -uZ SECRET",
        "python3 --unknown SECRET",
        "python3 --unknown=1 SECRET",
        "perl -Z SECRET",
        "perl -M SECRET",
        "ruby -Z SECRET",
        "ruby --unknown SECRET",
        "node --unknown SECRET",
        "php -Z SECRET",
        "java -unknown SECRET",
        "java --unknown SECRET",
        "java --unknown=1 SECRET",
        "tclsh -unknown SECRET",
        "guile --unknown SECRET",
        "deno run --unknown SECRET",
        "bun --unknown SECRET.ts",
    ] {
        assert_eq!(named(line), None, "{line}");
    }
}

#[test]
fn other_programs_and_words_that_name_no_file_have_no_script() {
    for line in [
        "mysql -pSECRET",
        "curl https://user:SECRET@shop",
        "env python3 a.py",
        "pythonic a.py",
        "python3-config a.py",
        "python3",
        "python3 -",
        "python3 - SECRET",
        "bash",
        "bash -x",
        "bash -o",
        "bash /dev/fd/63",
        "bash /proc/self/fd/3",
        "python3 dir/",
        "deno run https://user:SECRET@shop",
        "bun https://shop/a.ts?token=SECRET",
        "guile \\ SECRET",
    ] {
        assert_eq!(named(line), None, "{line}");
    }
    // A process may overwrite its words.
    assert_eq!(script(b"perl", b"worker\0\0\0\0SECRET\0"), None);
    for nothing in [&b""[..], b"\0", b"python3", b"python3\0"] {
        assert_eq!(script(b"python3", nothing), None);
    }
}

#[test]
fn a_cut_word_is_no_name_and_a_name_is_at_most_32_bytes() {
    assert_eq!(script(b"python3", b"python3\0/opt/dir"), None, "a cut path has another name");
    assert_eq!(script(b"python3", b"python3\0-W\0SEC"), None);
    let long = [b"python3\0/opt/", &[b'a'; 40][..], b"\0"].concat();
    assert_eq!(script(b"python3", &long).as_deref(), Some(&[b'a'; 32][..]));
}

proptest! {
    #[test]
    fn a_name_is_the_end_of_a_word_behind_the_first(
        program in prop::sample::select(&["bash", "python3", "perl", "ruby", "node", "php", "java", "busybox", "x"][..]),
        words in prop::collection::vec("[-+=/a-zA-Z.:@ ]{0,8}", 0..6),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut arguments: Vec<u8> = words.iter().flat_map(|word| word.bytes().chain([0])).collect();
        arguments.extend(rest);
        if let Some(name) = script(program.as_bytes(), &arguments) {
            prop_assert!(!name.is_empty() && name.len() <= MAX_SCRIPT_BYTES);
            prop_assert!(!name.contains(&0) && !name.contains(&b'/'));
            let mut behind = arguments.split(|byte| *byte == 0).skip(1);
            prop_assert!(behind.any(|word| last_component(word).ends_with(&name) || name.len() == MAX_SCRIPT_BYTES));
        }
    }
}
