//! What a snapshot costs that nobody reads.
//!
//! ```text
//!   args ─► bill ─► report        the command; rounds of processes; the figures
//!            │ starts
//!           case ─► space         one process: load, overwrite, wait, measure
//! ```
//!
//! Each case has a process of its own, so that memory is that of the case and of
//! nothing before it. *With* and *without* a snapshot alternate, so that both
//! meet the same machine. *Fresh* loads what the overwrites leave, once: its
//! SSTables are what the live data takes.

mod args;
mod bill;
mod case;
mod report;
mod space;

pub use args::{BillArgs, CaseArgs};
pub use bill::run;
pub use case::run as run_case;
