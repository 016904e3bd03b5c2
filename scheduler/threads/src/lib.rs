//! Threads that work beside a transactional load: their scheduling class, when they yield, and
//! their CPU time.
//!
//! | file | content |
//! | --- | --- |
//! | `class` | the kernel's scheduling class, nice value and time slices of the calling thread |
//! | `yielding` | when such a thread lets the kernel choose anew which thread gets its core |
//! | `cpu_time` | the CPU time of the calling thread, and of the process |
//! | `thread_use` | CPU time, waiting time and disk bytes of any thread of the process |
//!
//! This crate is below `ebb-scheduler`, and contains no jobs, no policy and no shares: it
//! is for code that works beside the load and need not know how its share is decided.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

mod class;
mod cpu_time;
#[expect(clippy::disallowed_methods, reason = "reads the kernel's own counters")]
mod thread_use;
#[expect(clippy::disallowed_methods, reason = "yields in real time")]
mod yielding;

pub use class::{
    FLOOR_NICE, SchedulingClass, current_class, current_nice, enter_floor, lower_current_thread,
    nice_current_thread, raise_current_thread, return_to_floor,
};
pub use cpu_time::{process_cpu, thread_cpu};
pub use thread_use::{ThreadFiles, ThreadUse};
pub use yielding::{YIELD_EVERY, Yielding};
