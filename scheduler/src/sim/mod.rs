//! A deterministic event-driven simulator for any policy.
//!
//! ```text
//!   SimJob ─┐                      ┌─> JobRecord, TaskRecord
//!   SimConfig ─> events ─> Policy ─┤
//!   f(t) ───┘   (submit, finish,   └─> ShareSample per cycle
//!                control cycle)
//! ```
//!
//! It builds the same [`ClusterView`](crate::policy::ClusterView) as the live
//! runtime and runs the same policy code, with time that costs nothing: a week
//! takes seconds. The same configuration, jobs and seed give the same report.
//! Task lengths are drawn per job, so they do not depend on the policy.

mod config;
mod engine;
mod job_run;
mod report;
#[cfg(test)]
mod tests;

pub use config::{SimConfig, SimError, SimJob, TaskLength};
pub use engine::simulate;
pub use report::{JobRecord, ShareSample, SimReport, TaskRecord};
