//! Agenda: assigns the operations of an open loop to threads.
//!
//! An operation has no thread until it is due. A thread that finds no operation due sleeps until
//! one of the next operations is due: the first if no other thread waits, the second if one does,
//! and so on. Then it takes the oldest operation that is due, which may be another one. So no two
//! threads wake up for one operation, and a thread that wakes up late delays an operation only if
//! no other thread is free.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::pace::{Arrival, Arrivals};

/// The operations of an open loop and their due times. The workers share this agenda behind a lock.
#[derive(Debug)]
pub(super) struct Agenda {
    arrivals: Arrivals,
    /// Batches that were drawn from `arrivals`, in order; each has operations left.
    ahead: VecDeque<Batch>,
    /// The number of threads that found no operation due and wait for the due time of a later one.
    waiting: u64,
}

/// Operations that are due at the same moment.
#[derive(Debug)]
struct Batch {
    due_s: f64,
    /// The number of operations that no thread has taken; at least 1.
    left: u32,
    /// The number of operations of the batch that have not ended. `None` for batches of one
    /// operation: they need no count.
    undone: Option<Arc<AtomicU32>>,
}

/// The next action of a thread of an open loop.
#[derive(Debug)]
pub(super) enum Turn {
    /// The thread runs this operation, which is due.
    Take(Due),
    /// No operation is due: the thread waits until this time, in seconds since the start of the
    /// run, calls [`Agenda::has_waited`], and then [`Agenda::next`] again.
    WaitUntil(f64),
}

/// An operation that a thread has taken.
#[derive(Debug)]
pub(super) struct Due {
    /// The time at which the operation was due, in seconds since the start of the run.
    pub(super) due_s: f64,
    undone: Option<Arc<AtomicU32>>,
}

impl Due {
    /// Returns whether this was the last operation of its batch to end. Must be called once, when
    /// the operation ends.
    pub(super) fn completes_batch(&self) -> bool {
        match &self.undone {
            Some(undone) => undone.fetch_sub(1, Ordering::AcqRel) == 1,
            None => true,
        }
    }
}

impl Agenda {
    pub(super) fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            ahead: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Returns the next action of a thread that is free at `now_s`. A thread never waits beyond
    /// `horizon_s`. Both are seconds since the start of the run.
    pub(super) fn next(&mut self, now_s: f64, horizon_s: f64) -> Turn {
        self.look_ahead(1, horizon_s);
        if let Some(batch) = self.ahead.front_mut().filter(|it| it.due_s <= now_s) {
            batch.left -= 1;
            let due = Due {
                due_s: batch.due_s,
                undone: batch.undone.clone(),
            };
            if batch.left == 0 {
                self.ahead.pop_front();
            }
            return Turn::Take(due);
        }
        self.waiting += 1;
        let own_s = self.look_ahead(self.waiting, horizon_s);
        Turn::WaitUntil(own_s.unwrap_or(horizon_s).min(horizon_s))
    }

    /// Counts one thread less as waiting. Must be called after each [`Turn::WaitUntil`].
    pub(super) fn has_waited(&mut self) {
        self.waiting -= 1;
    }

    /// Called when the run ends, `until_s` seconds after its start. Returns, for each batch that was
    /// due by then, its due time and the number of its operations that no thread took, if any. Drops
    /// later batches.
    pub(super) fn take_unserved(&mut self, until_s: f64) -> impl Iterator<Item = (f64, u64)> {
        let Self {
            ahead, arrivals, ..
        } = self;
        let size = u64::from(arrivals.burst());
        let come = ahead.drain(..).filter(move |it| it.due_s <= until_s);
        let come = come.map(|batch| (batch.due_s, u64::from(batch.left)));
        come.chain(std::iter::from_fn(move || match arrivals.next(until_s) {
            Arrival::At(due_s) => Some((due_s, size)),
            Arrival::NoneBefore(_) => None,
        }))
    }

    /// Returns the due time of the `place`-th operation, counted from 1, among those that no thread
    /// has taken; `None` if it is not due before `horizon_s`.
    fn look_ahead(&mut self, place: u64, horizon_s: f64) -> Option<f64> {
        let mut operations = 0;
        for batch in &self.ahead {
            operations += u64::from(batch.left);
            if operations >= place {
                return Some(batch.due_s);
            }
        }
        while let Arrival::At(due_s) = self.arrivals.next(horizon_s) {
            let size = self.arrivals.burst();
            self.ahead.push_back(Batch {
                due_s,
                left: size,
                undone: (size > 1).then(|| Arc::new(AtomicU32::new(size))),
            });
            operations += u64::from(size);
            if operations >= place {
                return Some(due_s);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agenda(ops_per_s: f64, burst: u32) -> Agenda {
        Agenda::new(Arrivals::new(Arc::new(move |_| ops_per_s), burst))
    }

    fn wait(agenda: &mut Agenda, now_s: f64) -> f64 {
        match agenda.next(now_s, now_s + 1.0) {
            Turn::WaitUntil(t_s) => t_s,
            Turn::Take(due) => panic!("{due:?} at {now_s} s"),
        }
    }

    fn take(agenda: &mut Agenda, now_s: f64) -> Due {
        match agenda.next(now_s, now_s + 1.0) {
            Turn::Take(due) => due,
            Turn::WaitUntil(t_s) => panic!("nothing until {t_s} s at {now_s} s"),
        }
    }

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn each_thread_waits_for_its_own_operation_and_takes_the_oldest() {
        let mut agenda = agenda(100.0, 1);
        // The first operation is due at once.
        assert!(near(take(&mut agenda, 0.0).due_s, 0.0));
        assert!(near(wait(&mut agenda, 0.001), 0.01));
        assert!(near(wait(&mut agenda, 0.002), 0.02));
        // A thread takes the operation due at 10 ms because the thread that waited for it is late.
        agenda.has_waited();
        assert!(near(take(&mut agenda, 0.02).due_s, 0.01));
        assert!(near(take(&mut agenda, 0.02).due_s, 0.02));
        agenda.has_waited();
        assert!(
            near(wait(&mut agenda, 0.021), 0.03),
            "no other thread waits"
        );
    }

    #[test]
    fn threads_wake_up_for_a_batch_and_its_last_operation_completes_it() {
        let mut agenda = agenda(300.0, 3);
        let first: Vec<Due> = (0..3).map(|_| take(&mut agenda, 0.0)).collect();
        assert!(near(wait(&mut agenda, 0.001), 0.01) && near(wait(&mut agenda, 0.001), 0.01));
        let completes: Vec<bool> = first.iter().map(Due::completes_batch).collect();
        assert_eq!(completes, [false, false, true]);
    }

    #[test]
    fn operations_that_no_thread_took_are_counted_once() {
        let mut agenda = agenda(100.0, 2);
        take(&mut agenda, 0.0);
        wait(&mut agenda, -1.0);
        let unserved: Vec<_> = agenda.take_unserved(0.11).collect();
        let operations: u64 = unserved.iter().map(|(_, operations)| operations).sum();
        let due_by_then = 2 * 5 + 2;
        assert_eq!(operations, due_by_then - 1, "{unserved:?}");
        assert!(near(unserved[0].0, 0.0) && near(unserved[5].0, 0.1));
        assert_eq!(agenda.take_unserved(0.11).count(), 0);
    }

    #[test]
    fn without_an_operation_before_the_horizon_a_thread_waits_until_it() {
        let mut agenda = agenda(0.0, 1);
        assert!(near(wait(&mut agenda, 3.0), 4.0));
    }
}
