//! A receiver and real clients of it: each protocol, sending on, bounds, and input of strangers.

mod backend;
mod forward;
mod hostile;
mod made;
mod protocols;
mod refusals;
