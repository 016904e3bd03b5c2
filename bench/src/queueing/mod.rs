//! Policies of the queueing model at several loads, on all cores.

mod study;

pub use study::{Case, QueueingResult, QueueingRow, run, run_cases, stability_limit};
