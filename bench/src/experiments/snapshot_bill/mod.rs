//! The cost of a snapshot that is not read.
//!
//! ```text
//!   args ─► bill ─► report        the command; rounds of processes; the figures
//!            │ starts
//!           case ─► space         one process: load, overwrite, wait, measure
//! ```
//!
//! Each case has a process of its own, so that its memory includes no other case. *With* and
//! *without* a snapshot alternate, so that a drift of the machine affects both. *Fresh* runs once,
//! and loads the entries as the overwrites leave them: the size of its SSTables is that of the live
//! data.

mod args;
mod bill;
mod case;
mod report;
mod space;

pub use args::{BillArgs, CaseArgs};
pub use bill::run;
pub use case::run as run_case;
