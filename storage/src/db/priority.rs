//! The CPU priority of threads that flush and merge: below that of threads that
//! serve requests, so that on a busy machine the background pays first.

/// The number of steps of niceness by which background threads rank below the threads that serve
/// requests. Each step divides a thread's share of a core by about 1.25. So a background thread
/// gets a third of an ordinary thread's share when both need the core, and flushes do not starve.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// Lowers the priority of the calling thread by `NICE` steps on Linux, where each thread has a
/// priority of its own. Does nothing on other systems.
pub(super) fn lower() {
    #[cfg(target_os = "linux")]
    {
        // On Linux niceness belongs to the thread. Every process may raise it, and a failure does
        // no harm.
        let thread = Some(rustix::thread::gettid());
        let nice = rustix::process::getpriority_process(thread).unwrap_or(0);
        let _ = rustix::process::setpriority_process(thread, nice + NICE);
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_is_lowered() {
        let nice = || {
            let thread = rustix::thread::gettid();
            rustix::process::getpriority_process(Some(thread)).unwrap()
        };
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower();
            nice()
        });
        // The last step is 19.
        assert_eq!(lowered.join().unwrap(), (before + NICE).min(19));
        assert_eq!(nice(), before);
    }
}
