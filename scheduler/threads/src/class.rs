//! The kernel's scheduling class for threads that work beside a transactional load.

use rustix::process::{getpriority_process, nice, setpriority_process};
use serde::Serialize;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id, thread_schedule_policy,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// The highest nice value there is.
const NICEST: i32 = 19;

/// The least nice value of a thread on the *floor*. Such a thread gets a part of a core even while other
/// processes keep all cores busy. Beside one busy thread of nice value 0 on its core it gets a quarter of the
/// core, or, because a [yield](crate::Yielding) can cost it the rest of a slice, only a seventh (Linux 6.18). A
/// thread under `SCHED_IDLE` gets 0.3%, and one of nice value 19 gets 1.4%.
pub const FLOOR_NICE: i32 = 5;

/// The nice value of a thread on the floor where the kernel grants no short time slices: such a thread
/// keeps its core for milliseconds, so it gets the core more seldom. Beside one busy thread it gets a tenth.
const FLOOR_NICE_LONG: i32 = 10;

const OTHER: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);

const IDLE: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);

/// The class that a thread runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingClass {
    /// `SCHED_IDLE`: the thread runs almost only while no ordinary thread needs its core. An
    /// ordinary thread that wakes up there mostly displaces it within microseconds, but not always,
    /// so idle-class threads [yield](crate::Yielding). While an idle-class thread runs in the
    /// kernel, it keeps its core until its system call or page fault ends, or until the kernel
    /// itself looks for other threads (with `preempt=none`, as on many servers). Where the kernel
    /// schedules by session or by cgroup, all this holds only between threads of the same session
    /// or cgroup.
    Idle,
    /// The ordinary class with the lowest weight (nice 19), for systems that do not grant
    /// `SCHED_IDLE`. Threads of the transactional side get nearly all of a core, but may have to
    /// wait for it.
    Nice,
    /// The class of every other thread. These include threads on the [floor](crate::enter_floor), unless
    /// their nice value is 19, and threads for which the system refused the lower classes.
    Normal,
}

impl std::fmt::Display for SchedulingClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Idle => "SCHED_IDLE",
            Self::Nice => "nice 19",
            Self::Normal => "normal priority",
        })
    }
}

/// Moves the calling thread to `SCHED_IDLE`, or to nice 19 where the system refuses that.
/// Returns the class that the thread has then.
pub fn lower_current_thread() -> SchedulingClass {
    // What counts is what the kernel reports afterwards: a refused nice value
    // does not undo a granted class.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, IDLE);
    if current_class() == SchedulingClass::Normal {
        // Linux changes the calling thread only.
        let _ = nice(NICEST);
    }
    current_class()
}

/// Raises the nice value of the calling thread by `steps`. Where two threads compete for a core, one
/// of nice value 5 gets a third of the time that one of nice value 0 gets, and one of 10 a tenth.
/// Does nothing where the system has no nice values.
pub fn nice_current_thread(steps: i32) {
    // Linux changes the calling thread only, and needs no privilege for it.
    let _ = nice(steps);
}

/// Moves the calling thread, which is of the ordinary class, to the floor: to short time slices and
/// [`FLOOR_NICE`], or to a higher nice value where the kernel does not grant such slices. From there it can
/// always be [lowered](lower_current_thread), while the [way back](return_to_floor) requires a permission.
///
/// The slices bound how long other threads wait: a waiting thread of the floor is owed CPU time. With long
/// slices that becomes so much that a request thread which wakes up is not entitled to the core, and waits for
/// the next tick of the clock, up to 4 ms.
pub fn enter_floor() {
    let floor_nice = if ebb_time_slice::shorten() {
        FLOOR_NICE
    } else {
        FLOOR_NICE_LONG
    };
    let steps = floor_nice - current_nice();
    if steps > 0 {
        nice_current_thread(steps);
    }
}

/// Moves the calling thread from a lower class to the floor. `nice` is the nice value that ordinary threads
/// of the process have. Returns false if the system refuses, as [`raise_current_thread`] does; the thread is
/// of a lower class then.
pub fn return_to_floor(nice: i32) -> bool {
    let is_raised = raise_current_thread(nice.max(FLOOR_NICE));
    if is_raised {
        enter_floor();
    } else {
        // The system may have permitted the class, but not the nice value.
        lower_current_thread();
    }
    is_raised
}

/// Returns whether the calling thread, which is of the ordinary class, is on the floor and has short time
/// slices there.
pub(crate) fn has_floor_slices() -> bool {
    current_nice() >= FLOOR_NICE && ebb_time_slice::are_short()
}

/// Moves the calling thread back to the ordinary class, with this nice value. A thread that was on the
/// [floor](enter_floor) gets the usual time slices of the kernel. Returns false if the system refuses: the move
/// requires a permission (`CAP_SYS_NICE`, or a limit `RLIMIT_NICE`) that most processes do not have.
pub fn raise_current_thread(nice: i32) -> bool {
    let middle = ThreadPriorityValue::try_from(50_u8).map(ThreadPriority::Crossplatform);
    if let Ok(middle) = middle {
        let _ = set_thread_priority_and_policy(thread_native_id(), middle, OTHER);
    }
    // Linux changes the calling thread only.
    let _ = setpriority_process(None, nice);
    // The kernel keeps the slices of a thread when its class changes.
    if ebb_time_slice::are_short() {
        ebb_time_slice::reset();
    }
    current_class() == class_of(false, nice) && current_nice() == nice
}

/// Returns the nice value of the calling thread.
pub fn current_nice() -> i32 {
    getpriority_process(None).unwrap_or(0)
}

/// Returns the scheduling class of the calling thread.
pub fn current_class() -> SchedulingClass {
    let is_idle = thread_schedule_policy().is_ok_and(|policy| policy == IDLE);
    class_of(is_idle, current_nice())
}

fn class_of(is_idle: bool, nice: i32) -> SchedulingClass {
    match (is_idle, nice) {
        (true, _) => SchedulingClass::Idle,
        (false, NICEST) => SchedulingClass::Nice,
        (false, _) => SchedulingClass::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_one_that_the_kernel_reports() {
        assert_eq!(class_of(true, 0), SchedulingClass::Idle);
        assert_eq!(class_of(false, 19), SchedulingClass::Nice);
        assert_eq!(class_of(false, 5), SchedulingClass::Normal);
    }

    #[test]
    fn only_the_calling_thread_gets_nicer() {
        let before = current_nice();
        let nicer = std::thread::spawn(|| {
            nice_current_thread(3);
            current_nice()
        });
        assert_eq!(nicer.join().unwrap(), (before + 3).min(NICEST));
        assert_eq!(current_nice(), before);
    }

    #[test]
    fn a_thread_on_the_floor_can_be_lowered() {
        let before = current_nice();
        let thread = std::thread::spawn(|| {
            enter_floor();
            enter_floor();
            let on_floor = (current_class(), current_nice(), has_floor_slices());
            (on_floor, lower_current_thread())
        });
        let ((class, nice, has_slices), lowered) = thread.join().unwrap();
        let floor_nice = if has_slices {
            FLOOR_NICE
        } else {
            FLOOR_NICE_LONG
        };
        assert_eq!(nice, before.max(floor_nice));
        assert_eq!(class, class_of(false, nice));
        assert_ne!(lowered, SchedulingClass::Normal);
    }

    /// Regression: a thread that was on the floor under a lease kept the short slices after the lease.
    #[test]
    fn a_thread_that_returns_to_the_ordinary_class_has_the_usual_slices_again() {
        let thread = std::thread::spawn(|| {
            let before = (current_nice(), ebb_time_slice::are_short());
            enter_floor();
            lower_current_thread();
            let is_raised = raise_current_thread(before.0);
            !is_raised || (current_nice(), ebb_time_slice::are_short()) == before
        });
        assert!(thread.join().unwrap());
    }

    #[test]
    fn a_lowered_thread_returns_to_the_floor_where_the_system_permits_it() {
        let before = current_nice();
        let thread = std::thread::spawn(move || {
            lower_current_thread();
            let returned = return_to_floor(before);
            (returned, current_class(), current_nice())
        });
        let (returned, class, nice) = thread.join().unwrap();
        if returned {
            assert_eq!(class, class_of(false, nice));
            assert!(nice >= before.max(FLOOR_NICE));
        } else {
            assert_ne!(class, SchedulingClass::Normal);
        }
    }

    #[test]
    fn a_lowered_thread_is_not_of_the_ordinary_class() {
        let lowered = std::thread::spawn(lower_current_thread).join().unwrap();
        assert_ne!(lowered, SchedulingClass::Normal);
    }
}
