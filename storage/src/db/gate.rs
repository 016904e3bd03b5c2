//! Where writers wait for the work that is behind, and pay with what of it is
//! done.

#[cfg(all(test, loom))]
mod loom_models;

use std::time::{Duration, Instant};

use super::pressure::Credit;
use crate::error::Result;
use crate::sync::{Condvar, Mutex};

/// How a writer gets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    Free,
    /// For so much credit.
    Costs(u64),
    Closed,
}

/// What is behind, as one writer sees it.
pub(super) trait Ahead {
    /// Called without the gate's lock: it may ask a picker, which may take long, and
    /// other writers are not to wait for that.
    ///
    /// # Errors
    /// When there is nothing to wait for.
    fn look(&self) -> Result<Passage>;

    /// Sees to it that somebody works on what makes `look` say so. Called before
    /// the first wait, and again whenever the gate was opened, with the gate's lock
    /// held.
    fn ask(&self);

    /// The longest that the writer waits for credit.
    fn credit_wait_max(&self) -> Duration;

    /// Told before the first wait for it what the writer waits for.
    fn waits(&self, passage: Passage);
}

/// How long a writer waited for what; `None` where it did not wait.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Waits {
    /// While the gate was closed.
    pub(super) closed: Option<Duration>,
    /// For credit.
    pub(super) credit: Option<Duration>,
}

impl Waits {
    /// Both together.
    pub(super) fn total(self) -> Option<Duration> {
        match (self.closed, self.credit) {
            (Some(closed), Some(credit)) => Some(closed + credit),
            (closed, credit) => closed.or(credit),
        }
    }
}

/// Where writers wait while flushes or compactions are behind.
#[derive(Debug)]
pub(crate) struct Gate {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside {
    credit: Credit,
    /// How often the gate was opened.
    openings: u64,
    /// How often what writers see may have changed.
    changes: u64,
}

impl Gate {
    pub(super) fn new(credit_max_bytes: usize) -> Self {
        Self {
            inside: Mutex::new(Inside {
                credit: Credit::new(credit_max_bytes),
                openings: 0,
                changes: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Lets everybody who waits look again, and ask again if it has to wait on:
    /// a piece of work has ended, well or not.
    pub(super) fn open(&self) {
        // Under the lock: a writer that looked before the change and is about to
        // wait would miss it otherwise.
        let mut inside = self.inside.lock().unwrap();
        inside.openings += 1;
        inside.changes += 1;
        self.changed.notify_all();
    }

    /// Lets everybody who waits look again: nothing more was found to do.
    pub(super) fn look_again(&self) {
        let mut inside = self.inside.lock().unwrap();
        inside.changes += 1;
        self.changed.notify_all();
    }

    /// Gives writers credit for bytes that were flushed or merged.
    pub(super) fn earn(&self, bytes: u64) {
        let mut inside = self.inside.lock().unwrap();
        inside.credit.earn(bytes);
        self.changed.notify_all();
    }

    /// Waits until what is `ahead` lets the writer pass. Whoever waited for credit as
    /// long as it may passes without: what is behind may earn nothing for a while
    /// (an fsync of a large file), and below its hard limit there is room.
    pub(super) fn pass(&self, ahead: &impl Ahead) -> Result<Waits> {
        let mut waits = Waits::default();
        if ahead.look()? == Passage::Free {
            return Ok(waits);
        }
        let mut inside = self.inside.lock().unwrap();
        let mut asked = None;
        loop {
            let seen = inside.changes;
            drop(inside);
            let passage = ahead.look()?;
            inside = self.inside.lock().unwrap();
            if inside.changes != seen {
                continue;
            }
            let waited = match passage {
                Passage::Free => return Ok(waits),
                Passage::Costs(bytes) if inside.credit.spend(bytes) => return Ok(waits),
                Passage::Costs(_) => &mut waits.credit,
                Passage::Closed => &mut waits.closed,
            };
            let so_far = waited.unwrap_or_default();
            let left = ahead.credit_wait_max().saturating_sub(so_far);
            if passage != Passage::Closed && left.is_zero() {
                return Ok(waits);
            }
            if waited.is_none() {
                ahead.waits(passage);
            }
            if asked != Some(inside.openings) {
                asked = Some(inside.openings);
                ahead.ask();
            }
            let from = Instant::now();
            inside = match passage {
                Passage::Closed => self.changed.wait(inside).unwrap(),
                _ => self.changed.wait_timeout(inside, left).unwrap().0,
            };
            *waited.get_or_insert_default() += from.elapsed();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    const CLOSED: u64 = u64::MAX;

    /// A passage that costs so much, for everybody; 0 is free.
    struct Shared {
        cost: AtomicU64,
        looks: AtomicU64,
        asked: AtomicU64,
        credit_wait_max: Duration,
    }

    impl Shared {
        fn new(cost: u64) -> Self {
            Self {
                cost: AtomicU64::new(cost),
                looks: AtomicU64::new(0),
                asked: AtomicU64::new(0),
                credit_wait_max: Duration::MAX,
            }
        }

        fn is_over(&self) -> bool {
            self.cost.load(Ordering::SeqCst) == 0
        }
    }

    impl Ahead for Shared {
        fn look(&self) -> Result<Passage> {
            self.looks.fetch_add(1, Ordering::SeqCst);
            Ok(match self.cost.load(Ordering::SeqCst) {
                0 => Passage::Free,
                CLOSED => Passage::Closed,
                cost => Passage::Costs(cost),
            })
        }

        fn ask(&self) {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }

        fn credit_wait_max(&self) -> Duration {
            self.credit_wait_max
        }

        fn waits(&self, _: Passage) {}
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    #[test]
    fn writers_under_pressure_are_admitted_in_proportion_to_the_work() {
        let (gate, ahead) = (Gate::new(1000), Shared::new(250));
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !ahead.is_over() {
                        gate.pass(&ahead).unwrap();
                        if !ahead.is_over() {
                            admitted.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            for round in 0..1000 {
                // All that is paid for come through, and the last may owe a part.
                let paid = (1000_u64 + round * 100).div_ceil(250);
                until(|| admitted.load(Ordering::SeqCst) >= paid);
                assert_eq!(admitted.load(Ordering::SeqCst), paid, "round {round}");
                gate.earn(100);
            }
            ahead.cost.store(0, Ordering::SeqCst);
            gate.open();
        });
    }

    #[test]
    fn waiting_for_a_closed_gate_and_for_credit_are_told_apart() {
        let (gate, ahead) = (Gate::new(1), Shared::new(1));
        let waits = gate.pass(&ahead).unwrap();
        assert!(
            waits.closed.is_none() && waits.credit.is_none(),
            "{waits:?}"
        );
        ahead.cost.store(CLOSED, Ordering::SeqCst);
        thread::scope(|scope| {
            let writer = scope.spawn(|| gate.pass(&ahead).unwrap());
            until(|| ahead.asked.load(Ordering::SeqCst) == 1);
            ahead.cost.store(1, Ordering::SeqCst);
            let looks = ahead.looks.load(Ordering::SeqCst);
            gate.look_again();
            until(|| ahead.looks.load(Ordering::SeqCst) > looks);
            gate.earn(1);
            let waits = writer.join().unwrap();
            assert!(
                waits.closed.is_some() && waits.credit.is_some(),
                "{waits:?}"
            );
        });
        assert_eq!(ahead.asked.load(Ordering::SeqCst), 1, "nothing was opened");
    }

    #[test]
    fn whoever_waits_on_asks_again_when_work_has_ended() {
        let (gate, ahead) = (Gate::new(1), Shared::new(CLOSED));
        thread::scope(|scope| {
            let writer = scope.spawn(|| gate.pass(&ahead).unwrap());
            for asked in 1..10 {
                until(|| ahead.asked.load(Ordering::SeqCst) == asked);
                gate.open();
            }
            ahead.cost.store(0, Ordering::SeqCst);
            gate.open();
            assert!(writer.join().unwrap().closed.is_some());
        });
    }

    #[test]
    fn an_error_ends_the_wait() {
        struct Fails<'a>(&'a Shared);
        impl Ahead for Fails<'_> {
            fn look(&self) -> Result<Passage> {
                match self.0.is_over() {
                    true => Err(crate::Error::ReadOnly { cause: "x".into() }),
                    false => self.0.look(),
                }
            }

            fn ask(&self) {
                self.0.ask();
            }

            fn credit_wait_max(&self) -> Duration {
                self.0.credit_wait_max
            }

            fn waits(&self, _: Passage) {}
        }
        let (gate, ahead) = (Gate::new(1), Shared::new(CLOSED));
        thread::scope(|scope| {
            let writer = scope.spawn(|| gate.pass(&Fails(&ahead)).map(drop));
            until(|| ahead.asked.load(Ordering::SeqCst) == 1);
            ahead.cost.store(0, Ordering::SeqCst);
            gate.open();
            writer.join().unwrap().unwrap_err();
        });
    }

    /// While a flush synced its file it earned nothing, and a write of a kilobyte
    /// waited for all of that, with room for thousands more.
    #[test]
    fn a_wait_for_credit_ends_though_none_comes() {
        let gate = Gate::new(1);
        let ahead = Shared {
            credit_wait_max: Duration::from_millis(1),
            ..Shared::new(1)
        };
        gate.pass(&ahead).unwrap();
        for _ in 0..3 {
            let waited = gate.pass(&ahead).unwrap().credit;
            assert!(waited.unwrap() >= ahead.credit_wait_max);
        }
        gate.earn(1);
        assert!(
            gate.pass(&ahead).unwrap().credit.is_none(),
            "nothing is owed"
        );
    }
}
