//! The CPU time of the calling thread.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns the CPU time that the calling thread has used since it started. Costs a system call.
#[must_use]
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_thread_grows_while_it_computes() {
        let before = thread_cpu();
        while thread_cpu() == before {
            std::hint::spin_loop();
        }
        assert!(thread_cpu() > before);
    }
}
