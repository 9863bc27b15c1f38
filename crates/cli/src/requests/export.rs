//! Explained requests in other tools' formats, beside the answer.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use wakepath_engine::requests::{Joined, RequestAnswer};
use wakepath_report::otlp::{Beside, otlp};
use wakepath_report::perfetto_requests;

use super::RequestsArguments;
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::file;
use crate::output::Output;

/// The destination for spans.
enum Spans {
    File(PathBuf),
    #[cfg(feature = "collect")]
    Backend(wakepath_live::spans::ForwardUrl),
}

/// The explained requests to export.
pub struct Export<'a> {
    spans: Option<Spans>,
    /// The Perfetto trace's file.
    perfetto: Option<PathBuf>,
    /// Empty if nothing is exported.
    answers: Vec<RequestAnswer<'a>>,
}

impl<'a> Export<'a> {
    /// Checks the destinations before the answers are computed.
    pub fn new(arguments: &RequestsArguments) -> Result<Self, Failure> {
        let spans = arguments.export_otlp.as_deref().map(place).transpose()?;
        let perfetto = arguments.export_perfetto.clone();
        perfetto.as_deref().map(file::check_path).transpose()?;
        Ok(Self { spans, perfetto, answers: Vec::new() })
    }

    /// Adds an explained request.
    pub fn add(&mut self, answer: RequestAnswer<'a>) {
        if self.spans.is_some() || self.perfetto.is_some() {
            self.answers.push(answer);
        }
    }

    /// Writes all explained requests.
    pub fn write(self, joined: &Joined<'_>, output: &Output) -> Result<(), Failure> {
        let answers = &self.answers;
        if let Some(path) = &self.perfetto {
            file::write(path, |file| {
                let mut out = BufWriter::new(file);
                perfetto_requests(joined, answers, &mut out).and_then(|()| out.flush())
            })?;
            output.note(&format!("wrote {}: open it at https://ui.perfetto.dev", path.display()));
        }
        match self.spans {
            None => Ok(()),
            Some(Spans::File(path)) => {
                file::write(&path, |file| {
                    let mut out = BufWriter::new(file);
                    otlp(joined, answers, Beside::Trace, &mut out).and_then(|()| out.flush())
                })?;
                output.note(&format!("wrote {}", path.display()));
                Ok(())
            }
            #[cfg(feature = "collect")]
            Some(Spans::Backend(url)) => {
                let mut documents = Vec::new();
                for answer in answers.chunks(1) {
                    let mut document = Vec::new();
                    otlp(joined, answer, Beside::None, &mut document)?;
                    documents.push(document);
                }
                let failed =
                    |why: String| Failure::new(Code::Input, format!("cannot send to {}: {why}", url.text()));
                wakepath_live::spans::send(&url, documents).map_err(failed)?;
                output.note(&format!("sent to {}", url.text()));
                Ok(())
            }
        }
    }
}

fn place(text: &OsStr) -> Result<Spans, Failure> {
    match text.to_str().filter(|text| text.contains("://")) {
        #[cfg(feature = "collect")]
        Some(url) => url.parse().map(Spans::Backend).map_err(|why: String| Failure::new(Code::Usage, why)),
        #[cfg(not(feature = "collect"))]
        Some(_) => Err(Failure::new(Code::Usage, "this build sends nothing: it was made without `collect`")
            .hint("write a file, and give it to a collector")),
        None => {
            let path = Path::new(text);
            file::check_path(path)?;
            Ok(Spans::File(path.to_owned()))
        }
    }
}
