//! Pacing: measures the CPU time and the bytes that an attempt uses, and makes it wait until it may
//! use more.
//!
//! | file | contents |
//! | --- | --- |
//! | `account` | the use of one thread, and the times at which it is measured |
//! | `attempt` | one attempt at a task, on its own thread |
//! | `attempt_state` | the state of an attempt for other threads, and requests to stop it |
//! | `pacer`, `reads`, `bucket` | CPU per job, bytes read by all jobs; the token bucket of both |
//! | `task_class` | the scheduling class in which tasks run at present |
//! | `cores`, `lowered` | the core of a thread; a thread of the caller in a low class |

#[expect(
    clippy::disallowed_methods,
    reason = "paces threads that run in real time"
)]
pub(in crate::runtime) mod account;
pub(in crate::runtime) mod attempt;
pub(in crate::runtime) mod attempt_state;
pub(in crate::runtime) mod bucket;
pub(in crate::runtime) mod cores;
pub(in crate::runtime) mod lowered;
pub(in crate::runtime) mod pacer;
pub(in crate::runtime) mod reads;
pub(in crate::runtime) mod task_class;
