//! `ebb-bench ycsb`: a load, a workload, and what both took.
//!
//! ```text
//!   args ─► run ─► outcome ─► table      the command, the run, its JSON and print
//!            │
//!        snapshots                       what is measured beside the load
//!
//!   args ─► through_cql ─► cql_outcome   the same of a server
//! ```

mod args;
mod cql_outcome;
mod outcome;
mod run;
mod snapshots;
mod table;
mod through_cql;
mod verdict;

pub use args::YcsbArgs;
pub use run::run;
pub use verdict::Verdict;
