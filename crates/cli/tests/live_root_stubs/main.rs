//! `wakepath drill` on the test machine: it changes the code of running programs, in user space.

mod drill;
mod drill_python;
