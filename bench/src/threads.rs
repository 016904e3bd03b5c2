//! Work in other threads, and pauses.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Returns the value of a thread that was joined. If the thread panicked, this function panics with
/// the same payload.
pub fn value_of<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs `work` while another thread runs `other`, which gets a flag and has to return soon after
/// this flag is set. Returns the results of both.
///
/// # Errors
/// Those of `work` and of `other`.
pub fn beside<T, U: Send>(
    work: impl FnOnce() -> Result<T>,
    other: impl FnOnce(&AtomicBool) -> Result<U> + Send,
) -> Result<(T, U)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| other(&is_over));
        let worked = work();
        is_over.store(true, Ordering::Relaxed);
        let other = value_of(other.join())?;
        Ok((worked?, other))
    })
}

/// Waits for the duration `time`. A single call of `park_timeout` would not do: when a scope of
/// threads ends, its last thread unparks the thread that created the scope, even if that thread did
/// not wait. The next `park_timeout` of the creator then returns at once.
pub fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: when a scope of threads had ended, the next pause of the thread that created it
    /// ended at once. So after each loading of records the benchmark did not wait until the server
    /// was quiet.
    #[test]
    fn a_pause_lasts_after_the_end_of_a_scope() {
        let time = Duration::from_millis(20);
        thread::scope(|scope| value_of(scope.spawn(|| ()).join()));
        let began = Instant::now(); // clock: a pause is a time
        pause(time);
        assert!(began.elapsed() >= time); // clock: a pause is a time
    }
}
