//! The plans of all streams and events of a trace, compiled once.

use std::collections::HashMap;

use super::head::HeadShape;
use super::packet::FIELDS;
use crate::packet::MAGIC;
use crate::plan::{Compiler, Plan, PlanError, Want};
use crate::schema::{ByteOrder, Clock, EventClass, FieldType, Metadata, StreamClass, Structure};
use crate::signature::Signature;

/// The fields of events that are wanted.
pub enum Selection<'a> {
    /// All fields; [`Plan::fields`] of the event's plan describes them.
    All,
    /// The fields that this function returns for an event class: each by its path, and the slot that it is passed on with. Fields
    /// of the stream's event context have `context.` in front, those of the event's own `own-context.`
    /// `None`: not even that there was such an event.
    Fields(&'a dyn Fn(&EventClass) -> Option<Wanted>),
}

/// Fields by path, each with the slot that it is passed on with.
pub type Wanted = Vec<(&'static str, u16)>;

/// Why a trace cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {source}")]
pub struct PlansError {
    /// The part of it.
    part: String,
    source: PlanError,
}

/// The plans of all that a trace's metadata declares.
#[derive(Debug)]
pub struct Plans {
    metadata: Metadata,
    /// Reads the stream of a packet.
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

/// By id, the events whose size their class fixes; empty where the form of the headers lets no event be found ahead.
#[derive(Debug, Default)]
pub(super) struct Sizes(Vec<Option<Size>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub class: u32,
    /// The size of the fields behind the header.
    pub bits: u32,
    pub wanted: bool,
    /// Only the last of such events in a row is needed.
    pub in_row: bool,
}

impl Sizes {
    fn new(head: &HeadShape, events: &ById, classes: &[EventPlan]) -> Self {
        let ById::Dense(table) = events else { return Self::default() };
        if matches!(head, HeadShape::Any(_)) {
            return Self::default();
        }
        let size = |&class: &u32| {
            let plan = classes.get(class as usize)?;
            let bits = u32::try_from(plan.plan.size()?).ok()?;
            Some(Size { class, bits, wanted: !plan.ignored, in_row: false })
        };
        Self(table.iter().map(size).collect())
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks these classes: only the last of their wanted events in a row is needed.
    fn need_last(&mut self, in_row: impl Fn(u32) -> bool) {
        for size in self.0.iter_mut().flatten() {
            size.in_row = size.wanted && in_row(size.class);
        }
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<Size> {
        *self.0.get(usize::try_from(id).ok()?)?
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
        // A table costs as much as its largest id says.
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
    /// Indices into the metadata's streams and that one's events.
    pub stream: usize,
    pub event: usize,
    pub plan: Plan,
    /// Bits that it passes, where that is the same each time, and not none.
    pub fixed: Option<u64>,
    /// Its events are not reported.
    pub ignored: bool,
}

/// An event class of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Class<'a> {
    /// Its class in the metadata.
    pub event: &'a EventClass,
    /// How it is decoded.
    pub plan: &'a Plan,
    /// The clock of its stamps.
    pub clock: Option<&'a Clock>,
}

impl Plans {
    /// The plans of a trace, for the fields that are wanted.
    ///
    /// # Errors
    /// When a length or a tag refers to nothing, or there is too much of something.
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
            let sizes = Sizes::new(&head, &events, &classes);
            streams.push(StreamPlans { id: stream.id, packet, head, events, sizes });
        }
        let signature = signature(&metadata);
        Ok(Self { metadata, packet_header, signature, streams, classes })
    }

    /// The same plans for a reader that needs only the last of the events of these classes that follow each other in a
    /// stream, with no other wanted event in between: [`super::Reader::next`] passes over earlier ones where that is
    /// cheaper than to report them.
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

    /// The metadata of the trace.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How many event classes there are; [`super::Head::class`] is below this.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there are none.
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

/// The clock that the first stamp in a structure is of.
fn clock_name(structure: &Structure) -> Option<&str> {
    structure.fields.iter().find_map(|field| clock_of(&field.ty))
}

fn clock_of(ty: &FieldType) -> Option<&str> {
    match ty {
        FieldType::Integer(integer) | FieldType::Enumeration(integer, _) => integer.clock.as_deref(),
        FieldType::Struct(structure) => clock_name(structure),
        FieldType::Variant(variant) => variant.options.iter().find_map(|field| clock_of(&field.ty)),
        FieldType::Array(element, _) | FieldType::Sequence(element, _) => clock_of(element),
        FieldType::Float(_) | FieldType::Text(_) => None,
    }
}

/// The bytes that every packet begins with: the magic number and behind it the uuid, where there is one.
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
