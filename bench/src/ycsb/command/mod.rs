//! `ebb-bench ycsb`: a load, a workload, and what both took.
//!
//! ```text
//!   args ─► run ─► outcome ─► table      the command, the run, its JSON and print
//!            │
//!        snapshots                       what is measured beside the load
//! ```

mod args;
mod outcome;
mod run;
mod snapshots;
mod table;

pub use args::YcsbArgs;
pub use run::{Verdict, run};
