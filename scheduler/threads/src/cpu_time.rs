//! The CPU time of the calling thread, and of its process.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns the CPU time that the calling thread has used since it started. Costs a system call.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Returns the CPU time that all threads of the process have used since it started, including
/// threads that have ended. Costs a system call.
#[must_use]
pub fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_other_threads_counts_for_the_process_only() {
        const COMPUTED: Duration = Duration::from_millis(20);
        let (thread_before, process_before) = (thread_cpu(), process_cpu());
        let other = std::thread::spawn(|| {
            while thread_cpu() < COMPUTED {
                std::hint::spin_loop();
            }
        });
        other.join().unwrap();
        assert!(thread_cpu() - thread_before < COMPUTED);
        assert!(process_cpu() - process_before >= COMPUTED);
    }
}
