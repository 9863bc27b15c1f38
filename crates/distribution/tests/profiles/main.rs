//! What holds of histograms, their peaks and their comparison: by drawings, by hand, and by lot.

mod compared;
mod drawn;
mod judged;
mod lot;
mod sampled;
mod service;
