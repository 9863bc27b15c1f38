//! A receiver and its real clients: each protocol, forwarding, bounds, and input from strangers.

mod backend;
mod forward;
mod hostile;
mod made;
mod protocols;
mod refusals;
mod send;
