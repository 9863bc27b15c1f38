//! The head of a service's file: the services to start, and the questions, as lines `KEY: VALUE` in its first comments.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// A service's file.
#[derive(Debug, Clone, Default)]
pub struct Service {
    /// Its file's name without the extension; for a program in a folder of its own, the folder's name.
    pub name: String,
    /// The programs to start, the first is asked.
    pub programs: Vec<Program>,
    /// More options for `wakepath record`, in place of a plug-in or beside it.
    pub record: Vec<String>,
    /// The questions.
    pub questions: Vec<Question>,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its runtime: a word that `lab/questions/start` knows.
    pub runtime: String,
    /// The service's name in its spans.
    pub service: String,
    /// The port on which it listens.
    pub port: u16,
    /// Its command.
    pub command: Vec<String>,
}

/// A question.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Its name.
    pub name: String,
    /// The planted cause, as a sentence.
    pub cause: String,
    /// The requests, in the order of their times.
    pub send: Vec<Sending>,
    /// The requests of the twin; empty without a twin.
    pub twin: Vec<Sending>,
    /// The asked request's path; the last request's if there is none.
    pub asked: Option<String>,
    /// The planted size.
    pub size: Size,
    /// Names required in a block with the size.
    pub who: Vec<String>,
    /// Words for the cause, required in the same block.
    pub says: Vec<String>,
    /// Words forbidden in a block with the size.
    pub never: Vec<String>,
    /// Words for an answer that is true and stops short of the cause.
    pub short: Vec<String>,
    /// Words forbidden in the twin's headline; if there are none, `who`, or `says` without it.
    pub twin_words: Vec<String>,
}

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// The time since the question's begin.
    pub at: Duration,
    /// The path, with its query.
    pub path: String,
}

/// The planted size.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Size {
    /// A fixed time, ns.
    Fixed(f64),
    /// The number in the answer's body, ms.
    #[default]
    Body,
    /// The number in the body of the other request's answer, ms.
    OtherBody,
    /// The time for which the client waited beyond this, ns.
    Beyond(f64),
    /// The number in the answer's body, ms, beyond this, ns.
    BodyBeyond(f64),
}

impl Service {
    /// Reads a head.
    ///
    /// # Errors
    /// If it cannot be read, or is not complete.
    pub fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let own = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let name = if own == "main" { folder.unwrap_or(own) } else { own };
        Self::parse(name, &text).with_context(|| format!("the head of `{}`", file.display()))
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut service = Self { name: name.to_owned(), ..Self::default() };
        for line in text.lines() {
            let Some(line) = line.strip_prefix('#').or_else(|| line.strip_prefix("//")) else { break };
            if line.trim().is_empty() {
                continue;
            }
            let (key, value) =
                line.trim().split_once(": ").with_context(|| format!("no `KEY: VALUE` in `{line}`"))?;
            let value = value.trim();
            match (key, service.questions.last_mut()) {
                ("service", None) => service.programs.push(program(value)?),
                ("record", None) => service.record.extend(value.split(' ').map(str::to_owned)),
                ("question", _) => {
                    service.questions.push(Question { name: value.to_owned(), ..Question::default() });
                }
                (_, Some(question)) => question.set(key, value)?,
                _ => bail!("`{key}` stands before the first question"),
            }
        }
        for question in &service.questions {
            let complete = !question.cause.is_empty() && !question.send.is_empty();
            ensure!(complete, "`{}` lacks `cause` or `send`", question.name);
            ensure!(
                !question.who.is_empty() || !question.says.is_empty(),
                "`{}` lacks `who` and `says`",
                question.name
            );
            for requests in [&question.send, &question.twin].into_iter().filter(|it| !it.is_empty()) {
                question.asked_index(requests)?;
            }
        }
        ensure!(service.questions.is_empty() || !service.programs.is_empty(), "no `service`");
        Ok(service)
    }
}

/// `RUNTIME SERVICE PORT COMMAND…`; a runtime `postgres` has a port alone.
fn program(value: &str) -> Result<Program> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let (runtime, service, port, command) = match words[..] {
        ["postgres", port] => ("postgres", "postgres", port, vec![port.to_owned()]),
        [runtime, service, port, ref command @ ..] if !command.is_empty() => {
            (runtime, service, port, command.iter().map(|&word| word.to_owned()).collect())
        }
        _ => bail!("no `RUNTIME SERVICE PORT COMMAND` in `{value}`"),
    };
    let port = port.parse().with_context(|| format!("`{port}` is no port"))?;
    Ok(Program { runtime: runtime.to_owned(), service: service.to_owned(), port, command })
}

impl Question {
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let text = || value.to_owned();
        match key {
            "cause" => self.cause = text(),
            "send" => self.send = sendings(value)?,
            "twin" => self.twin = sendings(value)?,
            "asked" => self.asked = Some(text()),
            "size" => self.size = size(value)?,
            "who" => self.who.push(text()),
            "says" => self.says.push(text()),
            "never" => self.never.push(text()),
            "short" => self.short.push(text()),
            "twin-never" => self.twin_words.push(text()),
            _ => bail!("`{key}` is no key"),
        }
        Ok(())
    }

    /// The index of the request that is asked about.
    ///
    /// # Errors
    /// If no request has the path.
    pub fn asked_index(&self, requests: &[Sending]) -> Result<usize> {
        let Some(path) = &self.asked else { return Ok(requests.len() - 1) };
        let is_asked = |sending: &Sending| sending.path.split('?').next() == Some(path);
        requests.iter().position(is_asked).with_context(|| format!("`{}` sends no `{path}`", self.name))
    }

    /// The words forbidden in the twin's headline.
    pub fn forbidden_in_twin(&self) -> Vec<String> {
        let words = [&self.twin_words, &self.who, &self.says];
        words.into_iter().find(|words| !words.is_empty()).cloned().unwrap_or_default()
    }
}

/// `0 /hold, 100 /item`: times in ms, and paths.
fn sendings(value: &str) -> Result<Vec<Sending>> {
    let sending = |text: &str| {
        let (at, path) = text.trim().split_once(' ').with_context(|| format!("no `MS /PATH` in `{text}`"))?;
        let at = at.parse().with_context(|| format!("`{at}` is no time in ms"))?;
        ensure!(path.starts_with('/'), "`{path}` is no path");
        Ok(Sending { at: Duration::from_millis(at), path: path.to_owned() })
    };
    let all = value.split(',').map(sending).collect::<Result<Vec<_>>>()?;
    ensure!(all.is_sorted_by_key(|sending| sending.at), "the requests are not in the order of their times");
    Ok(all)
}

fn size(value: &str) -> Result<Size> {
    let ns = |text: &str| {
        let ms = text.strip_suffix(" ms").and_then(|ms| ms.parse::<f64>().ok());
        ms.map(|ms| ms * 1e6).with_context(|| format!("`{text}` is no time in ms"))
    };
    Ok(match value {
        "body" => Size::Body,
        "other body" => Size::OtherBody,
        _ => match (value.strip_prefix("body beyond "), value.strip_prefix("beyond ")) {
            (Some(least), _) => Size::BodyBeyond(ns(least)?),
            (None, Some(least)) => Size::Beyond(ns(least)?),
            (None, None) => Size::Fixed(ns(value)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# service: python api 8192 uvicorn --port 8192 app:app\n# service: postgres 5499\n# record: --goroutines=all\n#\n# question: lock\n# cause: it waits\n# send: 0 /hold, 100 /item\n# twin: 0 /hold?free=1, 100 /item\n# size: body\n# who: GET /hold\n";

    #[test]
    fn a_head_has_programs_and_questions() {
        let service = Service::parse("app", &format!("{HEAD}import time\n# who: not me\n")).unwrap();
        let names: Vec<_> = service.programs.iter().map(|it| (it.service.as_str(), it.port)).collect();
        assert_eq!(names, [("api", 8192), ("postgres", 5499)]);
        assert_eq!(service.programs[0].command[0], "uvicorn");
        assert_eq!(service.record, ["--goroutines=all"]);
        let question = &service.questions[0];
        assert_eq!((question.name.as_str(), question.who.len()), ("lock", 1));
        assert_eq!(question.send[1], Sending { at: Duration::from_millis(100), path: "/item".to_owned() });
        assert_eq!(question.asked_index(&question.send).unwrap(), 1);
        assert_eq!(question.forbidden_in_twin(), ["GET /hold"]);
    }

    #[test]
    fn the_asked_request_may_be_named_without_its_query() {
        let head = HEAD.replace("# size: body", "# size: 300 ms\n# asked: /hold");
        let service = Service::parse("app", &head).unwrap();
        let question = &service.questions[0];
        assert_eq!(question.asked_index(&question.twin).unwrap(), 0);
        assert_eq!(question.size, Size::Fixed(300e6));
    }

    #[test]
    fn sizes_are_fixed_in_a_body_or_beyond_a_time() {
        assert_eq!(size("other body").unwrap(), Size::OtherBody);
        assert_eq!(size("beyond 5 ms").unwrap(), Size::Beyond(5e6));
        assert_eq!(size("body beyond 5 ms").unwrap(), Size::BodyBeyond(5e6));
        assert!(size("5 s").is_err());
    }

    #[test]
    fn a_head_that_lacks_something_or_says_what_is_not_known_is_refused() {
        for text in [
            HEAD.replace("# who: GET /hold\n", ""),
            HEAD.replace("# cause: it waits\n", ""),
            format!("{HEAD}# whom: me\n"),
            format!("{HEAD}# asked: /other\n"),
            HEAD.replace("100 /item\n", "item\n"),
            HEAD.replace("# send: 0 /hold, 100", "# send: 200 /hold, 100"),
            HEAD.replace("# service: postgres 5499", "# who: me"),
        ] {
            assert!(Service::parse("app", &text).is_err(), "{text}");
        }
    }
}
