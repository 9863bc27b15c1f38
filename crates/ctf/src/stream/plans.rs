//! The plans for all a trace's streams and events, compiled once.

use std::collections::HashMap;

use super::head::HeadShape;
use super::packet::FIELDS;
use crate::packet::MAGIC;
use crate::plan::{Compiler, Plan, PlanError, Want};
use crate::schema::{ByteOrder, Clock, EventClass, FieldType, Metadata, StreamClass, Structure};
use crate::signature::Signature;

/// The wanted fields of events.
pub enum Selection<'a> {
    /// All fields, as [`Plan::fields`] of the event's plan describes them.
    All,
    /// The fields from this function for an event class: each by its path, with the slot to pass it to. Fields in the
    /// stream's event context have the prefix `context.`, fields in the event's own context `own-context.`; `None`
    /// hides the event itself.
    Fields(&'a dyn Fn(&EventClass) -> Option<Wanted>),
}

/// Fields by path, each with the slot to pass it to.
pub type Wanted = Vec<(&'static str, u16)>;

/// Why a trace cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {source}")]
pub struct PlansError {
    /// The trace's undecodable part.
    part: String,
    source: PlanError,
}

/// The plans for all a trace's metadata declares.
#[derive(Debug)]
pub struct Plans {
    metadata: Metadata,
    /// Reads a packet's stream id.
    pub(super) packet_header: Plan,
    pub(super) signature: Option<Signature>,
    pub(super) streams: Vec<StreamPlans>,
    pub(super) classes: Vec<EventPlan>,
}

#[derive(Debug)]
pub(super) struct StreamPlans {
    pub id: u64,
    /// Packet header and packet context.
    pub packet: Plan,
    pub head: HeadShape,
    pub events: ById,
    pub sizes: Sizes,
}

/// By id, the events with a fixed size in whole bytes; empty where ids are too large for a table.
#[derive(Debug, Default)]
pub(super) struct Sizes(Vec<Option<Size>>);

/// An event's size. It fills 8 bytes, which are found without a multiplication.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub class: u32,
    /// The size of the fields behind the header.
    pub bytes: u16,
    pub need: Need,
}

/// The need for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    None,
    Each,
    /// Only the last such event in a row is needed.
    LastInRow,
}

impl Sizes {
    fn new(events: &ById, classes: &[EventPlan]) -> Self {
        let ById::Dense(table) = events else { return Self::default() };
        let size = |&class: &u32| {
            let plan = classes.get(class as usize)?;
            let bits = plan.plan.size().filter(|bits| bits.is_multiple_of(8))?;
            let need = if plan.ignored { Need::None } else { Need::Each };
            Some(Size { class, bytes: u16::try_from(bits / 8).ok()?, need })
        };
        Self(table.iter().map(size).collect())
    }

    /// Marks these classes: only the last of their wanted events in a row is needed.
    fn need_last(&mut self, in_row: impl Fn(u32) -> bool) {
        for size in self.0.iter_mut().flatten().filter(|size| size.need != Need::None) {
            size.need = if in_row(size.class) { Need::LastInRow } else { Need::Each };
        }
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<&Size> {
        self.0.get(usize::try_from(id).ok()?)?.as_ref()
    }
}

/// Indices into [`Plans::classes`].
#[derive(Debug)]
pub(super) enum ById {
    Dense(Vec<u32>),
    Sparse(HashMap<u64, u32>),
}

impl ById {
    fn new(ids: &[(u64, u32)]) -> Self {
        let most = ids.iter().map(|(id, _)| *id).max().unwrap_or(0);
        // The largest id decides a table's size.
        if most > 1 << 16 {
            return Self::Sparse(ids.iter().copied().collect());
        }
        let mut table = vec![u32::MAX; most as usize + 1];
        for &(id, class) in ids {
            table[id as usize] = class;
        }
        Self::Dense(table)
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<u32> {
        match self {
            Self::Dense(table) => {
                let class = table.get(usize::try_from(id).ok()?)?;
                (*class != u32::MAX).then_some(*class)
            }
            Self::Sparse(map) => map.get(&id).copied(),
        }
    }
}

#[derive(Debug)]
pub(super) struct EventPlan {
    /// Indices into the metadata's streams and the stream's events.
    pub stream: usize,
    pub event: usize,
    pub plan: Plan,
    /// The plan's size in bits, if always the same and not 0.
    pub fixed: Option<u64>,
    /// Its events are not reported.
    pub ignored: bool,
}

/// A trace's event class.
#[derive(Debug, Clone, Copy)]
pub struct Class<'a> {
    /// The class in the metadata.
    pub event: &'a EventClass,
    /// The decoding of its fields.
    pub plan: &'a Plan,
    /// The clock for its stamps.
    pub clock: Option<&'a Clock>,
}

impl Plans {
    /// A trace's plans, for the wanted fields.
    ///
    /// # Errors
    /// When a length or a tag refers to nothing, or the metadata exceeds a limit.
    pub fn new(metadata: Metadata, wanted: &Selection<'_>) -> Result<Self, PlansError> {
        let part = |part: String| move |source| PlansError { part, source };
        let packet_header = Compiler::new(&metadata.packet_header, &StreamClass::default())
            .plan(&[(0, &metadata.packet_header, "")], Want::Slots(&FIELDS))
            .map_err(part("packet header".to_owned()))?;
        let (mut streams, mut classes) = (Vec::new(), Vec::new());
        for (index, stream) in metadata.streams.iter().enumerate() {
            let mut compiler = Compiler::new(&metadata.packet_header, stream);
            let packet = compiler
                .plan(
                    &[(0, &metadata.packet_header, ""), (1, &stream.packet_context, "")],
                    Want::Slots(&FIELDS),
                )
                .map_err(part(format!("packet context of stream {}", stream.id)))?;
            compiler.anywhere();
            let head = compiler
                .plan(&[(2, &stream.event_header, "")], Want::Header)
                .map_err(part(format!("event header of stream {}", stream.id)))?;
            let head = HeadShape::of(stream, head, compiler.register("stream.event.header.id"));
            let mut ids = Vec::new();
            for (at, event) in stream.events.iter().enumerate() {
                let parts = [
                    (3, &stream.event_context, "context"),
                    (4, &event.context, "own-context"),
                    (5, &event.fields, ""),
                ];
                let fields;
                let (want, ignored) = match wanted {
                    Selection::All => (Want::All, false),
                    Selection::Fields(wanted) => {
                        fields = wanted(event);
                        (Want::Slots(fields.as_deref().unwrap_or_default()), fields.is_none())
                    }
                };
                let plan = compiler.event(&parts, want).map_err(part(format!("event `{}`", event.name)))?;
                ids.push((event.id, classes.len() as u32));
                let fixed = plan.size().filter(|&bits| bits > 0);
                classes.push(EventPlan { stream: index, event: at, plan, fixed, ignored });
            }
            let events = ById::new(&ids);
            let sizes = Sizes::new(&events, &classes);
            streams.push(StreamPlans { id: stream.id, packet, head, events, sizes });
        }
        let signature = signature(&metadata);
        Ok(Self { metadata, packet_header, signature, streams, classes })
    }

    /// The same plans for a reader that needs only the last event from these classes in a row, without another wanted
    /// event in between: [`super::Reader::next`] passes over earlier events where this is cheaper than to report
    /// them.
    #[must_use]
    pub fn with_last_of(mut self, in_row: impl Fn(&EventClass) -> bool) -> Self {
        let Self { metadata, streams, classes, .. } = &mut self;
        let event = |class: u32| {
            let EventPlan { stream, event, .. } = classes.get(class as usize)?;
            metadata.streams.get(*stream)?.events.get(*event)
        };
        for stream in streams {
            stream.sizes.need_last(|class| event(class).is_some_and(&in_row));
        }
        self
    }

    /// The trace's metadata.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The number of event classes; [`super::Head::class`] is below it.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there are no event classes.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// An event class, by [`super::Head::class`].
    pub fn class(&self, class: u32) -> Option<Class<'_>> {
        let EventPlan { stream, event, plan, .. } = self.classes.get(class as usize)?;
        let stream = self.metadata.streams.get(*stream)?;
        let clock = clock_name(&stream.event_header).or_else(|| clock_name(&stream.packet_context));
        let clock = clock.and_then(|name| self.metadata.clock(name));
        Some(Class { event: stream.events.get(*event)?, plan, clock: clock.or(self.metadata.clocks.first()) })
    }
}

/// The clock of the first stamp in a structure.
fn clock_name(structure: &Structure) -> Option<&str> {
    structure.fields.iter().find_map(|field| clock_of(&field.ty))
}

fn clock_of(ty: &FieldType) -> Option<&str> {
    match ty {
        FieldType::Integer(integer) | FieldType::Enumeration(integer, _) | FieldType::Leb128(integer, _) => {
            integer.clock.as_deref()
        }
        FieldType::Struct(structure) => clock_name(structure),
        FieldType::Variant(variant) => variant.options.iter().find_map(|field| clock_of(&field.ty)),
        FieldType::Array(element, _) | FieldType::Sequence(element, _) => clock_of(element),
        FieldType::Float(_) | FieldType::Text(_) => None,
    }
}

/// The bytes at every packet's beginning: the magic number and the uuid behind it, if any.
fn signature(metadata: &Metadata) -> Option<Signature> {
    let mut fields = metadata.packet_header.fields.iter();
    let magic = fields.next()?;
    let FieldType::Integer(integer) = &magic.ty else { return None };
    if magic.name != "magic" || integer.bits != 32 {
        return None;
    }
    let mut bytes = match integer.byte_order {
        ByteOrder::Little => MAGIC.to_le_bytes().to_vec(),
        ByteOrder::Big => MAGIC.to_be_bytes().to_vec(),
    };
    if let (Some(uuid), Some(field)) = (metadata.uuid, fields.next())
        && let FieldType::Array(element, 16) = &field.ty
        && matches!(element.as_ref(), FieldType::Integer(integer) if integer.bits == 8 && integer.align == 8)
        && field.name == "uuid"
    {
        bytes.extend_from_slice(&uuid);
    }
    Some(Signature::new(&bytes))
}
