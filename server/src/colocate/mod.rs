//! Co-location: what the store uses, turned into what analytics may use.
//!
//! ```text
//!   threads' CPU time ─► LoadMonitor ─► Governor ─► scheduler's capacity
//!   the day's schedule ───────────────────┘ forecast f(t)
//! ```
//!
//! What always holds: everything in the process that is not a task of an
//! analytics job counts as transactional, flushes and compactions included, and
//! comes first.

mod governor;
mod monitor;

pub use governor::{Governor, LoadSample};
pub use monitor::LoadMonitor;
