//! `wakepath drill` on the machine that runs the tests: it changes the code of programs while they run, in user space.

mod drill;
mod drill_python;
