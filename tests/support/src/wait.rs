//! Waiting for an event: by polling, or in a call that the system may interrupt.

use std::io;
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
