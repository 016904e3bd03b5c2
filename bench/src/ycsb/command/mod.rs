//! `ebb-bench ycsb`: a load and a workload, with their costs.
//!
//! ```text
//!   args ─► run ─► outcome ─► table      the command, the run, its JSON and print
//!            │
//!        snapshots                       snapshots during the run, and writes beside them
//!
//!   args ─► through_cql ─► cql_outcome   the same against a server
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
