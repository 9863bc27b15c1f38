//! Recordings on disk read as they were written, by us and by others, also where files were damaged.

mod babeltrace2;
mod beginning;
mod damage;
mod damages;
mod directory;
mod doubt;
mod made;
mod packets;
mod room;
mod round_trip;
mod spans;
mod synthetic;
