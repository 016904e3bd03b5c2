//! Decisions, without threads, files or clock: what becomes of a job, what each may use,
//! and who gives up memory.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `tracker`, `task_set`, `speculation` | the life of one job, as a state machine |
//! | `live_view`, `shares` | from jobs to a policy's view, from a placement to shares |
//! | `lookahead`, `grant_use` | the same cycles ahead of time: when jobs will be done |
//! | `memory`, `preemption` | what all attempts together hold, and who gives some up |

pub(in crate::runtime) mod grant_use;
pub(in crate::runtime) mod live_view;
pub(in crate::runtime) mod lookahead;
pub(in crate::runtime) mod memory;
pub(in crate::runtime) mod preemption;
pub(in crate::runtime) mod shares;
pub(in crate::runtime) mod speculation;
pub(in crate::runtime) mod task_set;
pub(in crate::runtime) mod tracker;
