//! Schedules of jobs that are known in advance, compared with a lower bound, on all cores.

mod study;

pub use study::{MsjoBound, MsjoResult, MsjoRow, Study, run};
