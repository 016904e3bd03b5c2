//! Schedules of jobs that are known in advance, beside the bound, on all cores.

mod study;

pub use study::{MsjoBound, MsjoResult, MsjoRow, Study, run};
