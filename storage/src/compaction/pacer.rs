//! Holds merges to their rate.

use std::time::{Duration, Instant};

use super::token_bucket::TokenBucket;
use crate::sync::{Condvar, Mutex};

/// Where merges wait that are faster than they may be, all together.
#[derive(Debug)]
pub(crate) struct Pacer {
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// `None`: as fast as they can.
    bucket: Option<TokenBucket>,
    /// How often those who wait were told to go on.
    hurries: u64,
    stopped: bool,
}

impl Pacer {
    pub(crate) fn new(bytes_per_sec: Option<u64>) -> Self {
        Self {
            started: Instant::now(),
            state: Mutex::new(State {
                bucket: bytes_per_sec.map(TokenBucket::new),
                hurries: 0,
                stopped: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits as long as `bytes` more are too much; returns how long. While
    /// writers are pressed, which `is_pressed` tells, nothing is too much.
    pub(crate) fn pace(&self, bytes: u64, is_pressed: impl FnOnce() -> bool) -> Duration {
        let state = self.state.lock().unwrap();
        let hurries = state.hurries;
        if state.stopped || state.bucket.is_none() {
            return Duration::ZERO;
        }
        drop(state);
        // Whoever is pressed from here on hurries those who wait.
        if is_pressed() {
            return Duration::ZERO;
        }
        let mut state = self.state.lock().unwrap();
        let Some(bucket) = &mut state.bucket else {
            return Duration::ZERO;
        };
        let from = self.started.elapsed();
        let wait = bucket.take(bytes, from);
        if wait.is_zero() {
            return wait;
        }
        let is_held = |state: &mut State| !state.stopped && state.hurries == hurries;
        let waited = self.changed.wait_timeout_while(state, wait, is_held);
        drop(waited.unwrap());
        self.started.elapsed() - from
    }

    /// Lets those go on who wait: a writer waits for them.
    pub(crate) fn hurry(&self) {
        self.state.lock().unwrap().hurries += 1;
        self.changed.notify_all();
    }

    /// Nobody waits any more.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap().stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::thread;

    use ebb_test_support::wait::until;

    use super::*;

    /// Each of these would wait for years.
    const MUCH: u64 = 1 << 40;

    /// Stops the pacer when it is dropped, by a panic too, so that no merge waits on.
    struct StopOnDrop<'a>(&'a Pacer);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    #[test]
    fn without_a_rate_and_under_pressure_nobody_waits() {
        assert_eq!(Pacer::new(None).pace(MUCH, || false), Duration::ZERO);
        let pacer = Pacer::new(Some(1));
        assert_eq!(pacer.pace(MUCH, || true), Duration::ZERO);
        // Nor is it held against them later.
        assert_eq!(pacer.pace(0, || false), Duration::ZERO);
    }

    #[test]
    fn whoever_waits_goes_on_when_a_writer_waits_for_it() {
        let pacer = Pacer::new(Some(1));
        thread::scope(|scope| {
            let _end = StopOnDrop(&pacer);
            let merge = scope.spawn(|| pacer.pace(MUCH, || false));
            until("the merge to go on", || {
                pacer.hurry();
                merge.is_finished()
            });
        });
        // Pressed after it looked, and before it waits.
        let pacer = Pacer::new(Some(1));
        let hurry = || {
            pacer.hurry();
            false
        };
        pacer.pace(MUCH, hurry);
    }

    #[test]
    fn nobody_waits_once_the_database_closes() {
        let pacer = Pacer::new(Some(1));
        thread::scope(|scope| {
            let merge = scope.spawn(|| pacer.pace(MUCH, || false));
            pacer.stop();
            merge.join().unwrap();
        });
        assert_eq!(pacer.pace(MUCH, || false), Duration::ZERO);
    }
}
