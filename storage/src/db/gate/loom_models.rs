//! Loom models of [`Gate`]: see `loom_models`.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::sync::{AtomicU64, Ordering};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

/// Closed while memtables wait; then for credit while runs do.
struct Behind {
    memtables: AtomicU64,
    runs: AtomicU64,
}

impl Behind {
    fn new(memtables: u64, runs: u64) -> Self {
        Self {
            memtables: AtomicU64::new(memtables),
            runs: AtomicU64::new(runs),
        }
    }
}

impl Ahead for Behind {
    fn look(&self) -> Result<Passage> {
        Ok(if self.memtables.load(Ordering::SeqCst) > 0 {
            Passage::Closed
        } else if self.runs.load(Ordering::SeqCst) > 0 {
            Passage::Costs(1)
        } else {
            Passage::Free
        })
    }

    fn ask(&self) {}

    fn credit_wait_max(&self) -> Duration {
        Duration::MAX
    }

    fn waits(&self, _: Passage) {}
}

/// A gate at which nobody has credit.
fn poor_gate() -> Gate {
    let gate = Gate::new(1);
    assert!(gate.inside.lock().unwrap().credit.spend(1));
    gate
}

/// Two writers meet a flush that ends.
fn flush_ends(open: fn(&Gate)) {
    explore(move || {
        let shared = Arc::new((poor_gate(), Behind::new(1, 0)));
        let writer = || {
            let shared = shared.clone();
            move || shared.0.pass(&shared.1).map(|_| ()).unwrap()
        };
        let other = thread::spawn(writer());
        let flusher = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.memtables.store(0, Ordering::SeqCst);
                open(&shared.0);
            })
        };
        writer()();
        other.join().unwrap();
        flusher.join().unwrap();
    });
}

/// Whoever waits, or is about to, gets through once the work is done.
#[test]
fn loom_writers_pass_once_the_work_is_done() {
    flush_ends(Gate::open);
}

/// Broken: those who wait are told without the lock, which a writer may hold who
/// looked before the change and waits after it.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_gate_opened_without_its_lock_is_caught() {
    flush_ends(|gate| gate.changed.notify_all());
}

/// Two merges earn what two writers need, who pay all of it.
fn merges_earn(earn: fn(&Gate)) {
    explore(move || {
        let shared = Arc::new((poor_gate(), Behind::new(0, 1)));
        shared.0.inside.lock().unwrap().credit = {
            let mut credit = Credit::new(2);
            assert!(credit.spend(2));
            credit
        };
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.pass(&shared.1).map(|_| ()).unwrap())
        };
        let merge = {
            let shared = shared.clone();
            thread::spawn(move || earn(&shared.0))
        };
        let (gate, behind) = &*shared;
        earn(gate);
        gate.pass(behind).unwrap();
        writer.join().unwrap();
        merge.join().unwrap();
        let has_more = gate.inside.lock().unwrap().credit.spend(1);
        assert!(!has_more, "two writers paid for themselves");
    });
}

/// What merges earn, writers can spend, all of it and once.
#[test]
fn loom_what_is_earned_is_spent_once() {
    merges_earn(|gate| gate.earn(1));
}

/// Broken: the credit is read, and written back after the lock was let go: what
/// is earned or spent in between is undone.
#[test]
#[should_panic(expected = "two writers paid")]
fn loom_credit_written_back_without_the_lock_is_caught() {
    merges_earn(|gate| {
        let is_rich = gate.inside.lock().unwrap().credit.spend(0);
        let mut credit = Credit::new(2);
        let _ = credit.spend(if is_rich { 1 } else { 2 });
        credit.earn(1);
        gate.inside.lock().unwrap().credit = credit;
        gate.changed.notify_all();
    });
}
