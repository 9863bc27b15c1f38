//! Properties of histograms, their peaks and their comparison: from drawings, by hand, at random, and
//! measured.

mod compared;
mod drawn;
mod judged;
mod measured;
mod rng;
mod sampled;
mod service;
mod tables;
mod watched;
