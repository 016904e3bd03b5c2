//! Decisions, without threads, files or clock: the life of a job, the share of each job, and the
//! victims of preemption.
//!
//! | file | contents |
//! | --- | --- |
//! | `tracker`, `task_set`, `speculation` | the life of one job, as a state machine |
//! | `live_view`, `shares` | from jobs to a policy's view, from a placement to shares |
//! | `lookahead`, `grant_use` | control cycles ahead of time: the predicted ends of jobs |
//! | `memory`, `preemption` | the memory of all attempts, and the victims when it is short |

pub(in crate::runtime) mod grant_use;
pub(in crate::runtime) mod live_view;
pub(in crate::runtime) mod lookahead;
pub(in crate::runtime) mod memory;
pub(in crate::runtime) mod preemption;
pub(in crate::runtime) mod shares;
pub(in crate::runtime) mod speculation;
pub(in crate::runtime) mod task_set;
pub(in crate::runtime) mod tracker;
