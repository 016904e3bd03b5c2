//! An event-driven simulator, which simulates a week in about a second.
//!
//! ```text
//!   Workload ─> SimJobs, SimConfig ─> engine ─> SimReport ─> Metrics
//!                                    │  ▲
//!                        ClusterView ▼  │ Decision
//!                                   Policy      the same code as live
//! ```
//!
//! Runs are deterministic: the same configuration, jobs and seed give the same report. A
//! task runs once, from its start to its end, unless its node is lost; nothing is
//! preempted. f(t) limits the tasks that are started. If a node's capacity falls, its
//! running tasks drain.

pub mod bounds;
mod config;
mod engine;
mod events;
mod forecast_error;
mod job;
mod job_run;
mod metrics;
mod node_run;
mod report;
#[cfg(feature = "scenarios")]
pub mod scenario;
mod share_out;
#[cfg(test)]
mod tests;
mod workload;

pub use config::{NodeLoss, Recording, SimConfig, SimError, SimNode, Spread};
pub use engine::simulate;
pub use forecast_error::ForecastError;
pub use job::{SimJob, Stragglers, TaskLength};
pub use job_run::drawn_lengths_s;
pub use metrics::{Interval, Metrics};
pub use report::{JobRecord, ShareSample, SimReport, TaskRecord};
pub use workload::{Variety, Workload, place_splits};
