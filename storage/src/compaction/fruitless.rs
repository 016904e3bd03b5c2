//! The runs whose rewriting gained nothing. Without this list a picker that never comes to an
//! end would have the same run rewritten for ever.
//!
//! A merge of several runs always leaves fewer of them. A run that is rewritten alone gets
//! smaller, or gets a better estimate of its garbage. Otherwise the output is discarded, and
//! the same rewriting is not tried again until its inputs change or, if values in the run expire,
//! until a delay has passed.

use crate::key::RunId;

/// A rewriting (a merge of one run alone), with the facts that decide whether it gains anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rewriting {
    pub(crate) run: RunId,
    /// The bytes of the run that no reader needs any more, approximately.
    pub(crate) garbage_bytes: u64,
    /// The runs of the table that are older than the run to be rewritten.
    pub(crate) older: Vec<RunId>,
    /// The time at which the merge decides which values have expired, in milliseconds since
    /// the Unix epoch.
    pub(crate) now_ms: u64,
    /// Whether content of the run may become garbage by the passage of time alone: because a value
    /// in it expires, or has timestamps of its own, so that the merge operator may purge it.
    pub(crate) expires: bool,
}

/// The rewritings of single runs of one table that gained nothing. They are remembered so that none
/// is repeated without a reason.
#[derive(Debug, Default)]
pub(crate) struct Fruitless {
    tried: Vec<Tried>,
}

#[derive(Debug)]
struct Tried {
    rewriting: Rewriting,
    /// The time after which the rewriting may be tried again though nothing else has changed,
    /// because values may have expired by then, in milliseconds since the Unix epoch. Ignored
    /// unless [`Rewriting::expires`].
    again_ms: u64,
    wait_ms: u64,
}

/// The delay in milliseconds after which a rewriting that gained nothing is tried again for the
/// first time, as something may have expired. The delay doubles with each attempt.
const WAIT_MS_MIN: u64 = 60_000;

impl Fruitless {
    /// Returns whether the rewriting of this run gained nothing before, and would gain nothing now:
    /// the run has as much garbage as then, and the older runs are the same. If values in the run
    /// can expire, returns false from the time of the next try on: see [`WAIT_MS_MIN`].
    pub(crate) fn has(&self, rewriting: &Rewriting) -> bool {
        let is_same = |tried: &Tried| {
            tried.rewriting.run == rewriting.run
                && tried.rewriting.garbage_bytes == rewriting.garbage_bytes
                && tried.rewriting.older == rewriting.older
                && !(rewriting.expires && tried.again_ms <= rewriting.now_ms)
        };
        self.tried.iter().any(is_same)
    }

    /// Remembers that `rewriting` gained nothing, and forgets runs that are gone: `is_there`
    /// returns whether the table has a run.
    pub(crate) fn note(&mut self, rewriting: Rewriting, is_there: impl Fn(RunId) -> bool) {
        let before = |tried: &Tried| tried.rewriting.run == rewriting.run;
        let before = self.tried.iter().find(|tried| before(tried));
        let wait_ms = before.map_or(WAIT_MS_MIN, |tried| tried.wait_ms.saturating_mul(2));
        self.tried
            .retain(|tried| tried.rewriting.run != rewriting.run && is_there(tried.rewriting.run));
        self.tried.push(Tried {
            again_ms: rewriting.now_ms.saturating_add(wait_ms),
            wait_ms,
            rewriting,
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn rewriting(run: u64, garbage_bytes: u64, older: &[u64], now_ms: u64) -> Rewriting {
        Rewriting {
            run: RunId(run),
            garbage_bytes,
            older: older.iter().map(|&id| RunId(id)).collect(),
            now_ms,
            expires: false,
        }
    }

    #[test]
    fn a_run_is_not_rewritten_again_until_something_is_different() {
        let mut fruitless = Fruitless::default();
        let tried = rewriting(7, 10, &[3, 2], 0);
        assert!(!fruitless.has(&tried));
        fruitless.note(tried.clone(), |_| true);
        for (other, is_known) in [
            (tried, true),
            (rewriting(7, 10, &[3, 2], u64::MAX), true),
            (rewriting(8, 10, &[3, 2], 0), false),
            (rewriting(7, 11, &[3, 2], 0), false),
            (rewriting(7, 10, &[4], 0), false),
        ] {
            assert_eq!(fruitless.has(&other), is_known, "{other:?}");
        }
        // Those that are gone are forgotten.
        fruitless.note(rewriting(8, 0, &[], 0), |run| run == RunId(8));
        assert_eq!(fruitless.tried.len(), 1);
    }

    #[test]
    fn rewriting_of_expiring_values_is_retried_ever_more_rarely() {
        let mut fruitless = Fruitless::default();
        let mut now_ms = 5;
        for wait_ms in [60_000, 120_000, 240_000] {
            let at = |now_ms| Rewriting {
                expires: true,
                ..rewriting(7, 0, &[], now_ms)
            };
            fruitless.note(at(now_ms), |_| true);
            assert!(fruitless.has(&at(now_ms + wait_ms - 1)));
            now_ms += wait_ms;
            assert!(!fruitless.has(&at(now_ms)));
        }
    }
}
