//! The length of the time slices that the calling thread asks the kernel for.
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
pub const SHORTEST_NS: u64 = 100_000;

/// Requests time slices of [`SHORTEST_NS`] for the calling thread, and so for threads that it starts later.
/// `nice` is the nice value of the thread, which stays the same, as does its class. Returns whether the
/// kernel grants the request: not before Linux 6.12, nor on other systems.
#[cfg(target_os = "linux")]
#[must_use]
pub fn shorten(nice: i32) -> bool {
    use libc::{SCHED_FLAG_KEEP_POLICY, SYS_sched_getattr, SYS_sched_setattr, sched_attr, syscall};

    const SIZE: u32 = size_of::<sched_attr>() as u32;
    const THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;

    let mut attr = sched_attr {
        size: SIZE,
        sched_policy: 0,
        sched_flags: SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SHORTEST_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `attr.size` bytes from `attr`, which has that size and lives until the call
    // returns. The call changes no memory of the process, only how its thread is scheduled.
    let set = unsafe { syscall(SYS_sched_setattr, THIS_THREAD, &raw const attr, NO_FLAGS) };
    // Older kernels ignore the length without an error, so what counts is what the kernel reports.
    attr.sched_runtime = 0;
    // SAFETY: the kernel writes at most `SIZE` bytes to `attr`, which has that size, lives until the call
    // returns, and has no other reference. Each of its fields is an integer, so all bytes are valid.
    let get = unsafe {
        syscall(
            SYS_sched_getattr,
            THIS_THREAD,
            &raw mut attr,
            SIZE,
            NO_FLAGS,
        )
    };
    set == 0 && get == 0 && attr.sched_runtime == SHORTEST_NS
}

/// Does nothing: this system does not let a thread choose its slices. Returns false.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn shorten(_nice: i32) -> bool {
    false
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
        let changed = thread::spawn(|| {
            let (nice, _) = nice_and_class();
            let is_granted = shorten(nice);
            let inherited = thread::spawn(move || shorten(nice));
            assert_eq!(inherited.join().unwrap(), is_granted);
            assert_eq!(shorten(nice), is_granted, "again");
            nice_and_class()
        });
        assert_eq!(changed.join().unwrap(), before);
    }
}
