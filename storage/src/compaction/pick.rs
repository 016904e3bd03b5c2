//! The picker interface, and the check of picks.

use std::fmt::Debug;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::refusal::Refusal;
use super::shape::{RunShape, TableShape};
use crate::key::RunId;

/// Decides what to merge. A picker has to return the same decision for the same shape.
///
/// The content of a table does not depend on the picks: the engine checks each pick, and does not
/// carry out an invalid one ([`TableStats::picks_refused`](crate::TableStats)). The picks decide
/// only how much reads, writes and space cost.
///
/// The engine calls the picker after each flush, each merge and each deletion of a snapshot, until
/// it returns `None`, from several threads, none of which holds a lock meanwhile. To estimate how
/// much there is to merge, the engine also calls it with the runs that earlier picks would leave.
/// If no data is written, a picker should return `None` after some merges. If it never does, the
/// engine at least does not repeat the rewriting of a single run that gained nothing.
pub trait CompactionPicker: Send + Sync + Debug {
    /// Returns the next merge of a table, if any is worth it.
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick>;
}

/// Calls a picker. Returns a panic of the picker as a refusal, like an invalid pick, because
/// pickers are users' code.
pub(crate) fn ask(
    picker: &dyn CompactionPicker,
    table: &TableShape<'_>,
) -> Result<Option<Pick>, Refusal> {
    catch_unwind(AssertUnwindSafe(|| picker.pick(table))).map_err(|_| Refusal::Panicked)
}

/// A merge of some runs of one table into one run, which takes the place of the oldest. A merge of
/// a single run drops the versions that no reader needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// The ids of the runs, at least one, in any order, each once. The runs must be neighbours in
    /// the table's list, and none may be busy (see [`RunShape::is_busy`]).
    pub runs: Vec<RunId>,
}

impl Pick {
    /// Returns a pick that merges these runs.
    pub fn merge<'a>(runs: impl IntoIterator<Item = &'a RunShape>) -> Self {
        Self {
            runs: runs.into_iter().map(|run| run.id).collect(),
        }
    }

    /// Returns the positions of the picked runs, which are neighbours, in `runs`, the table's list.
    ///
    /// # Errors
    /// The reason why the pick cannot be carried out.
    pub(crate) fn places(&self, runs: &[RunShape]) -> Result<Range<usize>, Refusal> {
        let mut places = Vec::with_capacity(self.runs.len());
        for &id in &self.runs {
            let place = runs.iter().position(|run| run.id == id);
            let place = place.ok_or(Refusal::Unknown(id))?;
            if places.contains(&place) {
                return Err(Refusal::Twice(id));
            }
            if runs[place].is_busy {
                return Err(Refusal::Busy(id));
            }
            places.push(place);
        }
        let (Some(&newest), Some(&oldest)) = (places.iter().min(), places.iter().max()) else {
            return Err(Refusal::NoRuns);
        };
        match (newest..=oldest).find(|place| !places.contains(place)) {
            Some(between) => Err(Refusal::Between(runs[between].id)),
            None => Ok(newest..oldest + 1),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::SeqNo;

    /// Parses a run: "9" is run 9, and "9*" is run 9 while it is busy.
    fn run(text: &str) -> RunShape {
        RunShape {
            id: RunId(text.trim_end_matches('*').parse().unwrap()),
            is_busy: text.ends_with('*'),
            bytes: 10,
            largest_file_bytes: 10,
            entries: 1,
            keys: 1,
            tombstones: 0,
            overwrites: None,
            garbage_bytes: 0,
            smallest_seq: SeqNo(1),
            largest_seq: SeqNo(1),
        }
    }

    fn places(table: &str, runs: &[u64]) -> Result<Range<usize>, Refusal> {
        let pick = Pick {
            runs: runs.iter().map(|&id| RunId(id)).collect(),
        };
        let runs: Vec<_> = table.split_whitespace().map(run).collect();
        pick.places(&runs)
    }

    #[test]
    fn neighbours_are_merged_in_whatever_order_they_are_named() {
        for (runs, expected) in [
            (&[9][..], 0..1),
            (&[4, 2], 2..4),
            (&[2, 9, 4, 7], 0..4),
            (&[7, 4], 1..3),
        ] {
            assert_eq!(places("9 7 4 2 1*", runs), Ok(expected), "{runs:?}");
        }
    }

    #[test]
    fn invalid_picks_are_refused() {
        use Refusal::*;
        for (runs, refusal) in [
            (&[][..], NoRuns),
            (&[9, 5], Unknown(RunId(5))),
            (&[9, 4, 9], Twice(RunId(9))),
            (&[4, 3], Busy(RunId(3))),
            (&[9, 4], Between(RunId(7))),
            (&[2, 4], Between(RunId(3))),
            (&[2, 9, 4], Between(RunId(7))),
        ] {
            assert_eq!(places("9 7 4 3* 2", runs), Err(refusal), "{runs:?}");
            assert!(!refusal.to_string().is_empty());
        }
    }
}
