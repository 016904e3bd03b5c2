//! Write stalls: writers wait for background work that is behind, or are throttled to its pace.

#[cfg(all(test, loom))]
mod loom_models;

use std::time::{Duration, Instant};

use super::write_throttling::Tokens;
use crate::error::Result;
use crate::sync::{Condvar, Mutex};

/// Whether a write may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The write goes on at once.
    Free,
    /// The write costs this number of tokens, which it spends as soon as the balance of tokens is
    /// above 0. It goes on then, or without tokens after [`Backlog::throttle_wait_max`]. Flushes
    /// and merges add a token to the balance for each byte.
    Throttled(u64),
    /// The write waits until background work is done.
    Stalled,
}

/// The unfinished background work that holds up one writer.
pub(super) trait Backlog {
    /// Decides whether the write goes on. Called without the lock of the stall, because this may
    /// call a picker, which may take long, and other writers must not wait meanwhile.
    ///
    /// # Errors
    /// When waiting is no use: the background work finds no space, or writes have been stopped.
    fn look(&self) -> Result<Admission>;

    /// Requests the background work that holds up the writer. Called before the first wait, and
    /// before a further wait if [`WriteStall::work_ended`] was called meanwhile; each time with the
    /// lock of the stall held.
    fn ask(&self);

    /// Returns the time after which the writer goes on without tokens.
    fn throttle_wait_max(&self) -> Duration;

    /// Counts, for the statistics, a write that is throttled or stalled, once for each of the two.
    /// Called before the wait, with the lock of the stall held.
    fn waits(&self, admission: Admission);
}

/// The times that a writer waited; `None` where it did not wait.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Waits {
    /// The time that the writer waited for background work to be done.
    pub(super) stalled: Option<Duration>,
    /// The time that the writer waited for tokens.
    pub(super) throttled: Option<Duration>,
}

impl Waits {
    /// Returns the whole time that the writer waited; `None` if it did not wait.
    pub(super) fn total(self) -> Option<Duration> {
        match (self.stalled, self.throttled) {
            (Some(stalled), Some(throttled)) => Some(stalled + throttled),
            (stalled, throttled) => stalled.or(throttled),
        }
    }
}

/// The place where writers wait while flushes or compactions are behind.
#[derive(Debug)]
pub(crate) struct WriteStall {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside {
    tokens: Tokens,
    /// The number of calls of [`WriteStall::work_ended`] so far.
    works_ended: u64,
    /// The number of changes so far after which [`Backlog::look`] may return another result.
    changes: u64,
}

impl WriteStall {
    pub(super) fn new(tokens_max_bytes: usize) -> Self {
        Self {
            inside: Mutex::new(Inside {
                tokens: Tokens::new(tokens_max_bytes),
                works_ended: 0,
                changes: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Wakes waiting writers, because a flush or a merge has ended, successfully or not, or because
    /// no work will come any more: writes have stopped, or a table was dropped. Writers that still
    /// have to wait request work again.
    pub(super) fn work_ended(&self) {
        // Under the lock: a writer that looked before the change and is about to
        // wait would miss it otherwise.
        let mut inside = self.inside.lock().unwrap();
        inside.works_ended += 1;
        inside.changes += 1;
        self.changed.notify_all();
    }

    /// Wakes waiting writers, so that each calls [`Backlog::look`] again. Unlike after
    /// [`Self::work_ended`], the writers do not request work again.
    pub(super) fn look_again(&self) {
        let mut inside = self.inside.lock().unwrap();
        inside.changes += 1;
        self.changed.notify_all();
    }

    /// Gives writers tokens for bytes that were flushed or merged.
    pub(super) fn refill(&self, bytes: u64) {
        let mut inside = self.inside.lock().unwrap();
        inside.tokens.refill(bytes);
        self.changed.notify_all();
    }

    /// Waits until the backlog admits the write, and returns how long the writer waited. A writer
    /// that has waited for tokens as long as it may goes on without them: the background work may
    /// bring none for a while (during the fsync of a large file), and below the hard limit there is
    /// room.
    ///
    /// # Errors
    /// The error of [`Backlog::look`].
    pub(super) fn admit(&self, backlog: &impl Backlog) -> Result<Waits> {
        let mut waits = Waits::default();
        if backlog.look()? == Admission::Free {
            return Ok(waits);
        }
        let mut inside = self.inside.lock().unwrap();
        let mut asked = None;
        loop {
            let seen = inside.changes;
            drop(inside);
            let admission = backlog.look()?;
            inside = self.inside.lock().unwrap();
            if inside.changes != seen {
                continue;
            }
            let waited = match admission {
                Admission::Free => return Ok(waits),
                Admission::Throttled(bytes) if inside.tokens.spend(bytes) => return Ok(waits),
                Admission::Throttled(_) => &mut waits.throttled,
                Admission::Stalled => &mut waits.stalled,
            };
            let so_far = waited.unwrap_or_default();
            let left = backlog.throttle_wait_max().saturating_sub(so_far);
            if admission != Admission::Stalled && left.is_zero() {
                return Ok(waits);
            }
            if waited.is_none() {
                backlog.waits(admission);
            }
            if asked != Some(inside.works_ended) {
                asked = Some(inside.works_ended);
                backlog.ask();
            }
            let from = Instant::now();
            inside = match admission {
                Admission::Stalled => self.changed.wait(inside).unwrap(),
                _ => self.changed.wait_timeout(inside, left).unwrap().0,
            };
            *waited.get_or_insert_default() += from.elapsed();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use ebb_test_support::wait::{HANG, until};

    use super::*;

    const STALLED: u64 = u64::MAX;

    /// A backlog for tests, which the writers share. A write costs `cost` tokens; with 0 it is
    /// free, with `STALLED` it waits.
    struct Shared {
        cost: AtomicU64,
        throttles: AtomicU64,
        asked: AtomicU64,
        throttle_wait_max: Duration,
    }

    impl Shared {
        fn new(cost: u64) -> Self {
            Self {
                cost: AtomicU64::new(cost),
                throttles: AtomicU64::new(0),
                asked: AtomicU64::new(0),
                throttle_wait_max: Duration::MAX,
            }
        }

        fn is_over(&self) -> bool {
            self.cost.load(Ordering::SeqCst) == 0
        }
    }

    impl Backlog for Shared {
        fn look(&self) -> Result<Admission> {
            Ok(match self.cost.load(Ordering::SeqCst) {
                0 => Admission::Free,
                STALLED => Admission::Stalled,
                cost => Admission::Throttled(cost),
            })
        }

        fn ask(&self) {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }

        fn throttle_wait_max(&self) -> Duration {
            self.throttle_wait_max
        }

        fn waits(&self, admission: Admission) {
            if admission != Admission::Stalled {
                self.throttles.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Admits every writer when it is dropped, also by a panic, so that no thread of the test waits
    /// for ever.
    struct AdmitOnDrop<'a>(&'a WriteStall, &'a Shared);

    impl Drop for AdmitOnDrop<'_> {
        fn drop(&mut self) {
            self.1.cost.store(0, Ordering::SeqCst);
            self.0.work_ended();
        }
    }

    #[test]
    fn writers_under_pressure_are_admitted_in_proportion_to_the_work() {
        let (stall, backlog) = (WriteStall::new(1000), Shared::new(250));
        let (admitted, admissions) = channel();
        thread::scope(|scope| {
            let _end = AdmitOnDrop(&stall, &backlog);
            for _ in 0..4 {
                let (admitted, stall, backlog) = (admitted.clone(), &stall, &backlog);
                scope.spawn(move || {
                    while !backlog.is_over() {
                        stall.admit(backlog).unwrap();
                        admitted.send(()).unwrap();
                    }
                });
            }
            let mut seen = 0;
            for round in 0..1000 {
                // All that are paid for come through, and the last may owe a part.
                let paid = (1000_u64 + round * 100).div_ceil(250);
                while seen < paid {
                    admissions.recv_timeout(HANG).unwrap();
                    seen += 1;
                }
                assert!(admissions.try_recv().is_err(), "round {round}");
                stall.refill(100);
            }
        });
    }

    #[test]
    fn stalls_and_throttling_are_measured_apart() {
        let (stall, backlog) = (WriteStall::new(1), Shared::new(1));
        let waits = stall.admit(&backlog).unwrap();
        assert!(
            waits.stalled.is_none() && waits.throttled.is_none(),
            "{waits:?}"
        );
        backlog.cost.store(STALLED, Ordering::SeqCst);
        thread::scope(|scope| {
            let _end = AdmitOnDrop(&stall, &backlog);
            let writer = scope.spawn(|| stall.admit(&backlog).unwrap());
            until("the writer to ask", || {
                backlog.asked.load(Ordering::SeqCst) == 1
            });
            backlog.cost.store(1, Ordering::SeqCst);
            stall.look_again();
            until("the writer to be throttled", || {
                backlog.throttles.load(Ordering::SeqCst) == 1
            });
            stall.refill(1);
            let waits = writer.join().unwrap();
            assert!(
                waits.stalled.is_some() && waits.throttled.is_some(),
                "{waits:?}"
            );
        });
        assert_eq!(backlog.asked.load(Ordering::SeqCst), 1, "no work has ended");
    }

    #[test]
    fn a_stalled_writer_requests_work_again_when_work_has_ended() {
        let (stall, backlog) = (WriteStall::new(1), Shared::new(STALLED));
        thread::scope(|scope| {
            let _end = AdmitOnDrop(&stall, &backlog);
            let writer = scope.spawn(|| stall.admit(&backlog).unwrap());
            for asked in 1..10 {
                until("the writer to ask again", || {
                    backlog.asked.load(Ordering::SeqCst) == asked
                });
                stall.work_ended();
            }
            backlog.cost.store(0, Ordering::SeqCst);
            stall.work_ended();
            assert!(writer.join().unwrap().stalled.is_some());
        });
    }

    #[test]
    fn an_error_ends_the_wait() {
        struct Fails<'a>(&'a Shared);
        impl Backlog for Fails<'_> {
            fn look(&self) -> Result<Admission> {
                if self.0.is_over() {
                    Err(crate::Error::ReadOnly { cause: "x".into() })
                } else {
                    self.0.look()
                }
            }

            fn ask(&self) {
                self.0.ask();
            }

            fn throttle_wait_max(&self) -> Duration {
                self.0.throttle_wait_max
            }

            fn waits(&self, _: Admission) {}
        }
        let (stall, backlog) = (WriteStall::new(1), Shared::new(STALLED));
        thread::scope(|scope| {
            let _end = AdmitOnDrop(&stall, &backlog);
            let writer = scope.spawn(|| stall.admit(&Fails(&backlog)).map(drop));
            until("the writer to ask", || {
                backlog.asked.load(Ordering::SeqCst) == 1
            });
            backlog.cost.store(0, Ordering::SeqCst);
            stall.work_ended();
            writer.join().unwrap().unwrap_err();
        });
    }

    /// Regression: a throttled write needs tokens, and flushes and merges bring them. A flush
    /// brought none while it synced its file, and a write of a kilobyte waited for the whole sync,
    /// although the memtable had room for thousands of such writes.
    #[test]
    fn throttling_ends_though_no_token_comes() {
        let stall = WriteStall::new(1);
        let backlog = Shared {
            throttle_wait_max: Duration::from_millis(1),
            ..Shared::new(1)
        };
        stall.admit(&backlog).unwrap();
        for _ in 0..3 {
            let waited = stall.admit(&backlog).unwrap().throttled;
            assert!(waited.unwrap() >= backlog.throttle_wait_max);
        }
        stall.refill(1);
        assert!(
            stall.admit(&backlog).unwrap().throttled.is_none(),
            "nothing is owed"
        );
    }
}
