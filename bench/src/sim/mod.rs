//! Studies: scenarios run under several policies, with replicas, on all cores.
//!
//! ```text
//!   scenario ─► study ─► result ─┐
//!   formula  ─► analysis ────────┴─► report (HTML), pictures (SVG), JSON
//!   experiments: those of the thesis, as scenarios and formulas
//! ```

mod analysis;
mod experiments;
mod parallel;
mod picture;
mod report;
mod result;
mod study;

pub use analysis::Analysis;
pub use experiments::{EXPERIMENTS, Experiment, Source};
pub use parallel::in_parallel;
pub use picture::reliability as reliability_picture;
pub(crate) use picture::{Curves, Line};
pub use report::{write as write_report, write_analysis};
pub use result::{BoundResult, JobResult, PointResult, PolicyResult, StudyResult};
pub use study::{Progress, run};
