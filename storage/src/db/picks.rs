//! The merges that a table's picker proposed without success.

use crate::compaction::{Fruitless, Refusal, Rewriting};
use crate::key::RunId;
use crate::mutation::{self, Mutation};
use crate::sync::Mutex;

/// The failures of one table's picker since the database was opened: the number of proposals that
/// were refused, the last refusal, and the rewritings that gained nothing.
#[derive(Debug, Default)]
pub(crate) struct Picks(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    refused: u64,
    last_refusal: Option<Refusal>,
    fruitless: Fruitless,
}

impl Picks {
    /// Counts a proposal of the picker that is not carried out.
    pub(super) fn note_refused(&self, refusal: Refusal) {
        let mut inside = self.0.lock().unwrap();
        inside.refused += 1;
        inside.last_refusal = Some(refusal);
    }

    /// Returns the number of proposals that were refused, and the reason for the last refusal;
    /// `None` if no proposal was refused.
    pub(super) fn refused(&self) -> (u64, Option<Refusal>) {
        let inside = self.0.lock().unwrap();
        (inside.refused, inside.last_refusal)
    }

    /// Remembers a rewriting of a run that gained nothing, and forgets those of runs for which
    /// `is_there` returns false: the table no longer has them.
    pub(super) fn note_fruitless(&self, rewriting: Rewriting, is_there: impl Fn(RunId) -> bool) {
        self.0.lock().unwrap().fruitless.note(rewriting, is_there);
    }

    /// Returns whether a rewriting of a run is known to gain nothing.
    pub(super) fn is_fruitless(&self, rewriting: &Rewriting) -> bool {
        let forgets = mutation::is(Mutation::RepeatFruitlessMerges);
        !forgets && self.0.lock().unwrap().fruitless.has(rewriting)
    }
}
