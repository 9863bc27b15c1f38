//! Traces as text.
