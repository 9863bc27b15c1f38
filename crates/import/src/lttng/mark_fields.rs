//! The fields in programs' marks: meaning and values.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use wakepath_ctf::plan::{FieldKind, Plan, Visitor};
use wakepath_ctf::stream::Plans;
use wakepath_event::{MAX_MARK_FIELDS, MAX_MARK_TEXT, Tid};

use crate::kind::tid;

/// The tracer's own providers: their events describe the process, and mark nothing in its work.
const OWN_PROVIDERS: [&str; 2] = ["lttng_ust_statedump:", "lttng_ust_lib:"];

/// A mark's class.
pub(super) struct Class {
    /// `None` for the tracer's own events.
    pub name: Option<Arc<str>>,
    /// The meaning of each field, by its number.
    fields: Vec<Meaning>,
}

/// A field's meaning.
enum Meaning {
    Thread,
    Process,
    Payload(Arc<str>),
    Nothing,
}

impl Class {
    fn new(name: &str, plan: &Plan) -> Self {
        let is_own = OWN_PROVIDERS.iter().any(|provider| name.starts_with(provider));
        let mut payload = 0;
        let meaning = |field: u16| {
            let path = plan.path(field);
            // An array's elements have no names.
            let is_plain = plan.fields().get(usize::from(field)).is_some_and(|field| {
                !field.name.is_empty() && !matches!(field.kind, FieldKind::Struct | FieldKind::Variant)
            });
            match path.as_str() {
                "context.vtid" => Meaning::Thread,
                "context.vpid" => Meaning::Process,
                // A sequence's length begins with a second underscore.
                name if is_plain && !name.contains('.') && !name.starts_with('_') => {
                    payload += 1;
                    if payload > MAX_MARK_FIELDS { Meaning::Nothing } else { Meaning::Payload(path.into()) }
                }
                _ => Meaning::Nothing,
            }
        };
        let fields = (0..u16::try_from(plan.fields().len()).unwrap_or(u16::MAX)).map(meaning).collect();
        Self { name: (!is_own).then(|| name.into()), fields }
    }
}

/// A folder's classes.
pub(super) struct Classes(pub Vec<Class>);

impl Classes {
    pub fn new(plans: &Plans) -> Self {
        let classes = (0..plans.len() as u32).filter_map(|class| plans.class(class));
        Self(classes.map(|class| Class::new(&class.event.name, class.plan)).collect())
    }
}

/// Whether any class notes the thread with each mark.
pub(super) fn names_threads(plans: &Plans) -> bool {
    plans
        .metadata()
        .streams
        .iter()
        .any(|stream| stream.event_context.fields.iter().any(|field| field.shown() == "vtid"))
}

/// A mark's values.
pub(super) struct Values<'c> {
    class: &'c Class,
    pub thread: Option<Tid>,
    pub process: Option<Tid>,
    pub fields: Vec<(Arc<str>, Box<str>)>,
}

impl<'c> Values<'c> {
    pub const fn new(class: &'c Class) -> Self {
        Self { class, thread: None, process: None, fields: Vec::new() }
    }

    fn add(&mut self, field: u16, value: impl Display) {
        if let Some(Meaning::Payload(name)) = self.class.fields.get(usize::from(field)) {
            let mut text = String::new();
            let _ = write!(text, "{value}");
            let mut end = text.len().min(MAX_MARK_TEXT);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            self.fields.push((name.clone(), text.into()));
        }
    }

    fn number(&mut self, field: u16, value: i128) {
        let id = || tid(i64::try_from(value).ok());
        match self.class.fields.get(usize::from(field)) {
            Some(Meaning::Thread) => self.thread = id(),
            Some(Meaning::Process) => self.process = id(),
            _ => self.add(field, value),
        }
    }
}

impl Visitor for Values<'_> {
    fn begin(&mut self) {
        (self.thread, self.process) = (None, None);
        self.fields.clear();
    }

    fn unsigned(&mut self, field: u16, value: u64) {
        self.number(field, value.into());
    }

    fn signed(&mut self, field: u16, value: i64) {
        self.number(field, value.into());
    }

    fn float(&mut self, field: u16, value: f64) {
        self.add(field, value);
    }

    fn bytes(&mut self, field: u16, value: &[u8]) {
        let text = String::from_utf8_lossy(&value[..value.len().min(2 * MAX_MARK_TEXT)]);
        self.add(field, text);
    }
}
