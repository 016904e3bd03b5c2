//! Studies: scenarios run under several policies, with replicas, on all cores.
//!
//! ```text
//!   scenario ─► study ─► result ─► report (HTML), pictures (SVG), JSON
//!   experiments: the thesis's, as scenarios that come with ebb
//! ```

mod experiments;
mod picture;
mod report;
mod result;
mod study;

pub use experiments::{EXPERIMENTS, Experiment};
pub use picture::{missed_bars, reliability as reliability_picture, shares};
pub use report::write as write_report;
pub use result::{BoundResult, JobResult, PointResult, PolicyResult, StudyResult};
pub use study::{Progress, run};
