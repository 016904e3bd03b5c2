//! Waiting for an event: by polling, or in a call that the system may interrupt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test that still waits fails. The limit ends tests that would run for
/// ever, and is far above the longest wait on the slowest machine: threads of the idle class make
/// hardly any progress beside a build.
pub const HANG: Duration = Duration::from_secs(180);

/// The time between two checks of the condition.
const POLL_EVERY: Duration = Duration::from_millis(2);

/// Waits until `condition` returns true. `what` is a clause that completes "waited for", such as
/// `"the index to be built"`.
///
/// # Panics
/// After [`HANG`], with `what` and the caller's line.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Waits until `look` returns a value, and returns it; otherwise like [`until`].
///
/// # Panics
/// After [`HANG`], with `what` and the caller's line.
#[track_caller]
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(started.elapsed() < HANG, "waited {HANG:?} for {what}");
        thread::sleep(POLL_EVERY);
    }
}

/// A thread of this process, which other threads can observe.
#[derive(Debug)]
pub struct Observed(PathBuf);

impl Observed {
    /// Returns the calling thread.
    ///
    /// # Panics
    /// If `/proc` is not there.
    pub fn current() -> Self {
        let thread = fs::read_link("/proc/thread-self").expect("Linux has /proc");
        Self(Path::new("/proc").join(thread).join("stat"))
    }

    /// Waits until the thread is blocked, for example by a lock, or has ended. A thread that was
    /// preempted is not blocked.
    ///
    /// # Panics
    /// See [`until`].
    #[track_caller]
    pub fn until_blocked(&self) {
        until("a thread to be blocked", || {
            // The state follows the name, which is in parentheses and may have any characters.
            let stat = fs::read_to_string(&self.0);
            stat.is_ok_and(|stat| {
                stat.rsplit(") ")
                    .next()
                    .is_some_and(|it| it.starts_with('S'))
            }) || !self.0.exists()
        });
    }
}

/// Makes `call`, and repeats it while it fails with `Interrupted`. A read of a socket with a
/// time-out fails in this way when the process was stopped and goes on, even without a signal
/// handler (signal(7)). `read_exact` and `write_all` of the standard library repeat interrupted
/// calls by themselves.
///
/// # Errors
/// Any error of `call` except `Interrupted`.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};

    #[test]
    fn a_thread_that_waits_for_a_lock_is_blocked_and_so_is_one_that_has_ended() {
        let lock = Mutex::new(());
        let held = lock.lock().unwrap();
        let (send, observed) = mpsc::channel();
        let thread = thread::scope(|scope| {
            scope.spawn(|| {
                send.send(Observed::current()).unwrap();
                drop(lock.lock());
            });
            let thread = observed.recv().unwrap();
            thread.until_blocked();
            drop(held);
            thread
        });
        thread.until_blocked();
    }

    #[test]
    fn until_some_returns_the_first_value() {
        let mut looks = 0;
        let value = until_some("the third look", || {
            looks += 1;
            (looks == 3).then_some("there")
        });
        assert_eq!((value, looks), ("there", 3));
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_another_error_is_returned() {
        let mut kinds = [io::ErrorKind::TimedOut, io::ErrorKind::Interrupted].to_vec();
        let result: io::Result<()> = uninterrupted(|| Err(kinds.pop().unwrap().into()));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(kinds.is_empty());
    }
}
