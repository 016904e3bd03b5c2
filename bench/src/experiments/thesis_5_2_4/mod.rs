//! Repeats section 5.2.4 of the thesis: reads of snapshots compared with regular reads (Polo,
//! *Multi-constraint scheduling of MapReduce workloads*, 2014; tables 5.3 to 5.5, figures 5.7 to
//! 5.13).
//!
//! ```text
//!   args ─► plan      the list of executions: pure
//!            │
//!       experiment    processes in turn, each on a copy of the same data
//!            │
//!          case ◄─ data, uncached_disk   one process
//!            │
//!         results     means, spreads and ratios over the rounds: pure
//!            │
//!   published ─► tables, figures ─► report      the thesis's figures beside ours
//! ```
//!
//! *Original* is the same engine without snapshots, and with merges that ignore the boundaries of
//! snapshots. S/R, S/RwS and S/SR are the engine as it is: reading without a snapshot, reading
//! beside one, and reading one.

mod args;
mod case;
mod data;
mod experiment;
mod figures;
mod mix;
mod plan;
mod published;
mod reads;
mod report;
mod results;
mod table;
mod tables;
mod uncached_disk;

pub use args::{CaseArgs, ThesisArgs};
pub use case::run as run_case;
pub use experiment::run;
