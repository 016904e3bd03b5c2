//! The length of the time slices that the calling thread requests from the kernel.
//!
//! Linux (6.12 and later, EEVDF) lets each thread of the ordinary class choose its slice, without a
//! permission. The share of the core stays the same: a thread with shorter slices runs more often, for
//! less time each. A thread that wakes up displaces one with longer slices at once, if it is entitled to the
//! core, and not only when the other's slice ends. See `sched_setattr(2)`, and Zijlstra, *sched/eevdf: Use
//! sched_attr::sched_runtime to set request/slice suggestion* (2024).
//!
//! No library wraps this system call safely, and all `unsafe` code of ebb is below `storage/`. That is why
//! this crate is here, though it has nothing to do with data.

/// The shortest slice that the kernel grants, in nanoseconds: 0.1 ms.
const SHORTEST_NS: u64 = 100_000;

/// The request for the usual slices of the kernel, whose length depends on the machine.
const USUAL: u64 = 0;

/// Requests time slices of 0.1 ms for the calling thread, which must be of the ordinary class. Threads and
/// processes that it starts later inherit them. Returns whether the kernel grants the request: not before
/// Linux 6.12, nor on other systems.
#[must_use]
pub fn shorten() -> bool {
    request(SHORTEST_NS);
    // Older kernels ignore the length without an error, so what counts is what the kernel reports.
    are_short()
}

/// Gives the calling thread, which must be of the ordinary class, the usual time slices of the kernel. Without
/// this it keeps short ones, also when its class or its nice value changes.
pub fn reset() {
    request(USUAL);
}

/// Returns whether the calling thread has time slices of 0.1 ms.
#[must_use]
pub fn are_short() -> bool {
    slice_ns() == Some(SHORTEST_NS)
}

/// Requests time slices of this length, in nanoseconds. The nice value of the thread and its class stay the
/// same. Has no effect if the system refuses.
#[cfg(target_os = "linux")]
fn request(slice_ns: u64) {
    let Some(mut attributes) = attributes() else {
        return;
    };
    attributes.sched_flags = libc::SCHED_FLAG_KEEP_POLICY as u64;
    attributes.sched_runtime = slice_ns;
    // SAFETY: the kernel reads `attributes.size` bytes from `attributes`, which has that size and lives until
    // the call returns. The call changes no memory of the process, only how its thread is scheduled.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            THIS_THREAD,
            &raw const attributes,
            NO_FLAGS,
        )
    };
}

/// Returns the length of the thread's time slices in nanoseconds, 0 before Linux 6.12. `None` if the system
/// does not report it.
#[cfg(target_os = "linux")]
fn slice_ns() -> Option<u64> {
    attributes().map(|attributes| attributes.sched_runtime)
}

#[cfg(target_os = "linux")]
const THIS_THREAD: libc::pid_t = 0;

#[cfg(target_os = "linux")]
const NO_FLAGS: libc::c_uint = 0;

/// Returns how the kernel schedules the calling thread. `None` if the system does not report it.
#[cfg(target_os = "linux")]
fn attributes() -> Option<libc::sched_attr> {
    const SIZE: u32 = size_of::<libc::sched_attr>() as u32;

    let mut attributes = libc::sched_attr {
        size: SIZE,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `SIZE` bytes to `attributes`, which has that size, lives until the call
    // returns, and has no other reference. Each of its fields is an integer, so all bytes are valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            THIS_THREAD,
            &raw mut attributes,
            SIZE,
            NO_FLAGS,
        )
    };
    (result == 0).then_some(attributes)
}

/// Does nothing: this system does not let a thread choose its slices.
#[cfg(not(target_os = "linux"))]
fn request(_slice_ns: u64) {}

/// Returns `None`: this system does not report the length of slices.
#[cfg(not(target_os = "linux"))]
fn slice_ns() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::thread;

    /// Returns the nice value and the class of the calling thread, as in `proc_pid_stat(5)`.
    fn nice_and_class() -> (i32, String) {
        #[expect(clippy::disallowed_methods, reason = "reads what the kernel reports")]
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name of the thread, in parentheses, may have spaces. Behind it is field 3.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let field = |number: usize| fields.split_whitespace().nth(number - 3).unwrap();
        (field(19).parse().unwrap(), field(41).to_owned())
    }

    #[test]
    fn a_thread_with_short_slices_keeps_its_nice_value_and_class() {
        let before = nice_and_class();
        let usual = slice_ns();
        let changed = thread::spawn(move || {
            let is_granted = shorten();
            assert_eq!(thread::spawn(are_short).join().unwrap(), is_granted);
            assert_eq!(shorten(), is_granted, "again");
            let changed = nice_and_class();
            reset();
            assert_eq!(slice_ns(), usual);
            changed
        });
        assert_eq!(changed.join().unwrap(), before);
        assert_eq!(slice_ns(), usual, "of another thread");
    }
}
