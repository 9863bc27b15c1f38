//! Text that `ftrace`, `trace-cmd report` and `perf script` print.
//!
//! Such text is attached to bug reports where the binary file is not. Every thread chooses its own name, and names are
//! printed unescaped: a name can look like a field, or like a separator between fields. So no line is searched for a
//! field. A line is read as a whole, by the fixed text between the fields and by a kernel's longest name;
//! a line with two readings is counted and left out.
//!
//! - `head`: a line's kind; the part in front of a tracepoint's own text, in each program's form;
//! - `scan`: the parts of a line from its begin and from its end;
//! - `fields`: a tracepoint's text, as a tracepoint;
//! - `lines`: a file's lines; `survey`: the first pass over them;
//! - `order`: the lines by time, as far as a bounded memory can bring them into order;
//! - `convert`: from lines to events; `open`: the file as a recording.
//!
//! Sources: the forms are those in the output by Linux 6.18, trace-cmd 3.1.6 and perf 6.1, and from the `TP_printk` texts in
//! Linux's `include/trace/events`.

mod convert;
mod fields;
mod head;
mod lines;
mod open;
mod order;
mod scan;
mod survey;

pub use open::TextTrace;
