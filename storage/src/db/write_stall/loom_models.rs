//! Loom models of [`WriteStall`]: see `loom_models`.

use std::sync::Arc;

use super::*;
use crate::loom_models::{explore, spawn};
use crate::sync::{AtomicU64, Ordering};

/// A backlog that stalls writers while it has memtables, and throttles them while it has only runs.
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

impl Backlog for Behind {
    fn look(&self) -> Result<Admission> {
        Ok(if self.memtables.load(Ordering::SeqCst) > 0 {
            Admission::Stalled
        } else if self.runs.load(Ordering::SeqCst) > 0 {
            Admission::Throttled(1)
        } else {
            Admission::Free
        })
    }

    fn ask(&self) {}

    fn throttle_wait_max(&self) -> Duration {
        Duration::MAX
    }

    fn waits(&self, _: Admission) {}
}

/// Returns a stall whose tokens are all spent.
fn empty_stall() -> WriteStall {
    let stall = WriteStall::new(1);
    assert!(stall.inside.lock().unwrap().tokens.spend(1));
    stall
}

fn write((stall, behind): &(WriteStall, Behind)) {
    stall.admit(behind).map(|_| ()).unwrap();
}

/// Runs two writers, which stall while a memtable is full, beside a flush, which frees it and then
/// calls `end`.
fn flush_ends(end: fn(&WriteStall)) {
    explore(move || {
        let shared = Arc::new((empty_stall(), Behind::new(1, 0)));
        let other = spawn(&shared, write);
        let flusher = spawn(&shared, move |(stall, behind)| {
            behind.memtables.store(0, Ordering::SeqCst);
            end(stall);
        });
        write(&shared);
        other.join().unwrap();
        flusher.join().unwrap();
    });
}

/// A writer that waits, or is about to, passes once the work is done.
#[test]
fn loom_writers_pass_once_the_work_is_done() {
    flush_ends(WriteStall::work_ended);
}

/// Deliberate fault: writers are notified without the lock. A writer that looked for unfinished
/// work before the change, and still holds the lock, begins to wait after the notification and
/// misses it.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_work_end_notified_without_the_lock_is_caught() {
    flush_ends(|stall| stall.changed.notify_all());
}

/// Runs two throttled writers that need a token each, beside two merges that call `refill` to add
/// one each. Both writers pass, and no token is left.
fn merges_refill(refill: fn(&WriteStall)) {
    explore(move || {
        let shared = Arc::new((empty_stall(), Behind::new(0, 1)));
        shared.0.inside.lock().unwrap().tokens = {
            let mut tokens = Tokens::new(2);
            assert!(tokens.spend(2));
            tokens
        };
        let writer = spawn(&shared, write);
        let merge = spawn(&shared, move |(stall, _)| refill(stall));
        let stall = &shared.0;
        refill(stall);
        write(&shared);
        writer.join().unwrap();
        merge.join().unwrap();
        let has_more = stall.inside.lock().unwrap().tokens.spend(1);
        assert!(!has_more, "two writers paid for themselves");
    });
}

/// Writers can spend all tokens that merges bring, and each token once.
#[test]
fn loom_tokens_are_spent_once() {
    merges_refill(|stall| stall.refill(1));
}

/// Deliberate fault: the tokens are read, and written back after the lock was released. Changes in
/// between are undone.
#[test]
#[should_panic(expected = "two writers paid")]
fn loom_tokens_written_back_without_the_lock_is_caught() {
    merges_refill(|stall| {
        let is_rich = stall.inside.lock().unwrap().tokens.spend(0);
        let mut tokens = Tokens::new(2);
        let _ = tokens.spend(if is_rich { 1 } else { 2 });
        tokens.refill(1);
        stall.inside.lock().unwrap().tokens = tokens;
        stall.changed.notify_all();
    });
}
