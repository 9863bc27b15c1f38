//! Searches for functions in programs compiled for the purpose.

mod addresses;
mod debug;
mod files;
mod go;
mod hostile;
mod lookup;
mod places;
mod processes;
mod programs;
mod returns;
