//! The outcomes of the answers of a table's picker.

use crate::compaction::{Fruitless, Refusal, Rewriting};
use crate::key::RunId;
use crate::mutation::{self, Mutation};
use crate::sync::Mutex;

/// The outcomes of the picker's answers for one table, since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Picks(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    refused: u64,
    last_refusal: Option<Refusal>,
    fruitless: Fruitless,
}

impl Picks {
    /// Counts an answer of the picker that is not carried out.
    pub(super) fn note_refused(&self, refusal: Refusal) {
        let mut inside = self.0.lock().unwrap();
        inside.refused += 1;
        inside.last_refusal = Some(refusal);
    }

    /// Returns the number of answers that were not carried out, and the reason for the last one.
    pub(super) fn refused(&self) -> (u64, Option<Refusal>) {
        let inside = self.0.lock().unwrap();
        (inside.refused, inside.last_refusal)
    }

    /// Remembers a rewriting of a run that gained nothing.
    pub(super) fn note_fruitless(&self, rewriting: Rewriting, is_there: impl Fn(RunId) -> bool) {
        self.0.lock().unwrap().fruitless.note(rewriting, is_there);
    }

    /// Returns whether a rewriting of a run is known to gain nothing.
    pub(super) fn is_fruitless(&self, rewriting: &Rewriting) -> bool {
        let forgets = mutation::is(Mutation::RepeatFruitlessMerges);
        !forgets && self.0.lock().unwrap().fruitless.has(rewriting)
    }
}
