//! Traces in the Common Trace Format: metadata as text, packets and streams, sound and damaged.

mod babeltrace2;
mod json;
mod json_classes;
mod json_refused;
mod json_rules;
mod packets;
mod streams;
mod text;
mod tsdl;
mod tsdl_types;
