//! The kernel's idle class, for clients that must not take CPU from the server.

use anyhow::{Result, ensure};
use ebb_threads::{SchedulingClass, lower_current_thread};

/// Puts the calling thread under `SCHED_IDLE`: it gets only the CPU time that the other threads of
/// its session (or cgroup) leave unused.
pub(crate) fn enter_idle_class() -> Result<()> {
    let class = lower_current_thread();
    ensure!(
        class == SchedulingClass::Idle,
        "the system does not grant the idle class, only {class}"
    );
    Ok(())
}
