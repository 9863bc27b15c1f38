//! Recordings on disk read as written, by wakepath and by other readers, also from damaged files.

mod babeltrace2;
mod beginning;
mod damage;
mod damages;
mod directory;
mod doubt;
mod go_traces;
mod made;
mod packets;
mod room;
mod round_trip;
mod spans;
mod synthetic;
