//! Where request threads wait for a core, alone and beside jobs: a diagnosis.
//!
//! ```text
//!   run ─► tracefs ─► event ─► replay ─► slowest    record; read; who had the core;
//!    └───────────────────────────┴─────► report     where each slow request was
//! ```
//!
//! Without tracefs only `schedstat` is left: how long these threads waited in all.

mod event;
mod replay;
mod report;
mod run;
mod slowest;
mod tracefs;

pub use report::Waits;
pub use run::run;
