//! An incident as a file: lines `KEY: VALUE` in the comments at its beginning, and the program below them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// A planted incident.
#[derive(Debug, Clone, Default)]
pub struct Incident {
    /// Its file's name, without the extension.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// The planted cause, as a sentence; what a healthy program does.
    pub cause: String,
    /// It has no cause: the program is healthy.
    pub is_healthy: bool,
    /// The planted size, as a time (`600 ms`); a `$NAME` in it is a fact written by the program.
    pub size: String,
    /// The wakepath commands to ask, without the word `wakepath`.
    pub asks: Vec<String>,
    /// Names required on the first screen, in a block with the size.
    pub who: Vec<String>,
    /// Words for the cause, required in the same block.
    pub says: Vec<String>,
    /// Words forbidden in a block with the size.
    pub never: Vec<String>,
    /// Words for an answer that is true and stops short of the cause.
    pub short: Vec<String>,
    /// The required parts of the document; the first gives the size.
    pub json: Vec<String>,
    /// Words forbidden in the twin's headline; if there are none, `who` and `says`.
    pub twin: Vec<String>,
    /// A signal to the whole process group, and the time after `ready` at which it is sent.
    pub signal: Option<(String, Duration)>,
    /// Programs that must be installed, and files that must be there.
    pub needs: Vec<String>,
    /// The reason for a wrong or missing answer, where it is known.
    pub known: Option<String>,
}

/// The largest number of commands in an incident.
const MAX_ASKS: usize = 2;

impl Incident {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its head is not complete.
    pub fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        Self::parse(file, &text).with_context(|| format!("the head of `{}`", file.display()))
    }

    fn parse(file: &Path, text: &str) -> Result<Self> {
        let name = file.file_stem().and_then(|name| name.to_str()).context("its name is no text")?.to_owned();
        let mut incident = Self { name, file: file.to_owned(), ..Self::default() };
        for line in text.lines() {
            let Some(line) = line.strip_prefix("# ").or_else(|| line.strip_prefix("// ")) else { break };
            let (key, value) =
                line.split_once(": ").with_context(|| format!("no `KEY: VALUE` in `{line}`"))?;
            let value = value.trim().to_owned();
            match key {
                "cause" => incident.cause = value,
                "healthy" => (incident.cause, incident.is_healthy) = (value, true),
                "size" => incident.size = value,
                "ask" => incident.asks.push(value),
                "who" => incident.who.push(value),
                "says" => incident.says.push(value),
                "never" => incident.never.push(value),
                "short" => incident.short.push(value),
                "json" => incident.json.push(value),
                "twin" => incident.twin.push(value),
                "needs" => incident.needs.push(value),
                "known" => incident.known = Some(value),
                "signal" => {
                    let (signal, after) = value.split_once(" after ").context("no `SIGNAL after TIME`")?;
                    let after = nanoseconds(after).context("no time of the signal")?;
                    incident.signal = Some((signal.to_owned(), Duration::from_nanos(after as u64)));
                }
                _ => bail!("`{key}` is no key"),
            }
        }
        ensure!(!incident.cause.is_empty(), "no `cause` and no `healthy`");
        ensure!((1..=MAX_ASKS).contains(&incident.asks.len()), "one or two `ask` are needed");
        if incident.is_healthy {
            return Ok(incident);
        }
        ensure!(!incident.size.is_empty(), "no `size`");
        ensure!(!incident.who.is_empty(), "no `who`");
        ensure!(!incident.says.is_empty(), "no `says`");
        ensure!(!incident.json.is_empty(), "no `json`");
        for part in &incident.json {
            // A value has no space: a word behind it would match nothing.
            let vain = part.split_whitespace().skip(1).find(|word| !word.contains(['=', '~']));
            ensure!(vain.is_none(), "`{}` in `json` is no `KEY=VALUE`", vain.unwrap_or_default());
        }
        Ok(incident)
    }

    /// The words forbidden in the twin's headline.
    pub fn forbidden_in_twin(&self) -> Vec<String> {
        if self.twin.is_empty() { [&self.who[..], &self.says].concat() } else { self.twin.clone() }
    }

    /// True if wakepath starts the program; otherwise it runs before wakepath does.
    pub fn is_command(&self) -> bool {
        self.asks[0].split(' ').any(|word| word == "$0")
    }
}

/// A text with each `$NAME` replaced by that fact's value.
pub(crate) fn with_facts(text: &str, facts: &BTreeMap<String, String>) -> String {
    let longest_first = facts.iter().rev();
    longest_first.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

/// The facts in a file: a name and its value in each line.
pub(crate) fn facts(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        (name.to_owned(), value.trim().to_owned())
    };
    text.lines().map(pair).collect()
}

/// A time in ns, from its text: `600 ms`.
pub(crate) fn nanoseconds(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    Some(number.parse::<f64>().ok()? * unit_ns(unit)?)
}

/// A time unit's length, ns.
pub(crate) fn unit_ns(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# cause: it sleeps\n# size: $long s\n# ask: record -- $0\n# who: me\n# says: sleeping\n# json: segments kind=timer\n";

    #[test]
    fn a_head_is_read_up_to_the_first_line_that_is_no_comment() {
        let text = format!("{HEAD}# signal: INT after 1.5 s\nimport time\n# who: not me\n");
        let incident = Incident::parse(Path::new("a/nap.py"), &text).unwrap();
        assert_eq!((incident.name.as_str(), incident.who.len()), ("nap", 1));
        assert_eq!(incident.signal, Some(("INT".to_owned(), Duration::from_millis(1500))));
        assert!(incident.is_command());
    }

    #[test]
    fn a_head_that_lacks_a_key_or_has_one_that_is_not_known_is_refused() {
        for text in [
            HEAD.replace("# who: me\n", ""),
            format!("{HEAD}# whom: me\n"),
            format!("{HEAD}# json: rows text~garbage collection\n"),
            format!("{HEAD}# ask: path\n# ask: path\n"),
        ] {
            assert!(Incident::parse(Path::new("nap.py"), &text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_cause_s_own_words_are_forbidden_in_the_twin_unless_it_has_others() {
        let parse = |head: &str| Incident::parse(Path::new("nap.py"), head).unwrap().forbidden_in_twin();
        assert_eq!(parse(HEAD), ["me", "sleeping"]);
        assert_eq!(parse(&format!("{HEAD}# twin: nap\n")), ["nap"]);
    }

    #[test]
    fn a_fact_replaces_its_name_and_not_the_beginning_of_a_longer_one() {
        let facts = facts("long 0.25\nlonger 7\nready\n");
        assert_eq!(with_facts("$long s, $longer", &facts), "0.25 s, 7");
        assert_eq!(nanoseconds("0.25 s"), Some(25e7));
        assert_eq!(nanoseconds("$long s"), None);
    }
}
