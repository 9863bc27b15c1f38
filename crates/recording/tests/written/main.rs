//! Recordings on disk: what is written is read again, by us and by others, whatever happened to the files meanwhile.

mod babeltrace2;
mod damage;
mod directory;
mod made;
mod room;
mod round_trip;
