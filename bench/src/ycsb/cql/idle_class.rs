//! The kernel's idle class, for a client that must not be in the way.

use anyhow::{Result, anyhow};
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Puts the calling thread under `SCHED_IDLE`: it runs on what threads of its session (or
/// cgroup) leave.
///
/// # Errors
/// When the system does not grant it.
pub(crate) fn enter_idle_class() -> Result<()> {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
        .map_err(|error| anyhow!("the system does not grant the idle class: {error}"))
}
