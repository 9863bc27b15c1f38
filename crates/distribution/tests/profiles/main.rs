//! What holds of histograms, their peaks and their comparison: by drawings, by hand, by lot, and
//! measured.

mod compared;
mod drawn;
mod judged;
mod lot;
mod measured;
mod sampled;
mod service;
mod told;
