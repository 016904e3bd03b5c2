//! The kernel's idle class, for clients that must not take CPU from the server.

use anyhow::{Result, ensure};
use ebb_threads::{SchedulingClass, lower_current_thread};

/// Puts the calling thread under `SCHED_IDLE`: it gets the CPU that threads of its session (or
/// cgroup) leave.
///
/// # Errors
/// If the system does not grant the class.
pub(crate) fn enter_idle_class() -> Result<()> {
    let class = lower_current_thread();
    ensure!(
        class == SchedulingClass::Idle,
        "the system does not grant the idle class, only {class}"
    );
    Ok(())
}
