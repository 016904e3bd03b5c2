//! The kernel's scheduling class for task threads.

use serde::Serialize;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id, thread_schedule_policy,
};

const IDLE: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);

/// The class a task thread runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingClass {
    /// `SCHED_IDLE`: any thread of the transactional side displaces it at once.
    Idle,
    /// The class of every other thread: not asked for, or not granted.
    Normal,
}

impl std::fmt::Display for SchedulingClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Idle => "SCHED_IDLE",
            Self::Normal => "normal priority",
        })
    }
}

/// Puts the calling thread under `SCHED_IDLE` if the system allows it, and
/// says what it runs under now.
pub(super) fn lower_current_thread() -> SchedulingClass {
    // What counts is what the kernel reports afterwards: a refused nice value
    // does not undo a granted class.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, IDLE);
    current_class()
}

/// What the calling thread runs under.
pub(super) fn current_class() -> SchedulingClass {
    match thread_schedule_policy() {
        Ok(policy) if policy == IDLE => SchedulingClass::Idle,
        _ => SchedulingClass::Normal,
    }
}
