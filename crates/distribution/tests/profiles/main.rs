//! Properties of histograms, their peaks and their comparison: from drawings, by hand, at random, and
//! measured.

mod compared;
mod drawn;
mod judged;
mod lot;
mod measured;
mod sampled;
mod service;
mod told;
