//! From what a picker answers to what the engine can do: checks a pick against the
//! table that the picker was shown, and widens it to whole neighbouring runs.
//!
//! ```text
//!   runs, newest first      pick: 9 and 4 within [f, m)     widened
//!   9   ─[a ─────── k)─      ─────[f ─ k)─                   whole run
//!   7   ───────────────[n─    (nothing in [f, m))            whole run, in between
//!   4   ─[a ──────────── z)─  ─────[f ─── m)─                whole run
//!   2   ─[a ──────────── z)─
//! ```
//!
//! A merge of whole neighbours is right whatever they are. What a picker may ask for
//! beyond that is refused here already, so that a picker which works now still works
//! when parts are carried out as parts. No I/O, no clock.

use std::ops::Range;

use super::pick::{Action, Pick};
use super::refusal::Refusal;
use super::shape::{RunShape, TableShape};

/// The work that the engine does for a pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Widened {
    /// Positions in the run list; at least one.
    pub(crate) runs: Range<usize>,
    /// The runs are dropped unread, once it is certain that no reader needs them. Otherwise they
    /// become one run.
    pub(crate) drops: bool,
    /// The output is added to the run behind them: this continues an unfinished merge.
    pub(crate) has_output: bool,
}

impl Widened {
    /// The positions of all runs that no other merge may take meanwhile.
    pub(crate) fn claimed(&self) -> Range<usize> {
        self.runs.start..self.runs.end + usize::from(self.has_output)
    }
}

/// Returns the work that the engine does for a pick of this table. `None` if it has to wait: a run
/// that the pick leaves out, and the engine cannot, is being merged.
pub(crate) fn widen(pick: &Pick, table: &TableShape<'_>) -> Result<Option<Widened>, Refusal> {
    let mut places = Vec::with_capacity(pick.runs.len());
    for &id in &pick.runs {
        let place = table.runs.iter().position(|run| run.id == id);
        let place = place.ok_or(Refusal::Unknown(id))?;
        if places.contains(&place) {
            return Err(Refusal::Twice(id));
        }
        if table.runs[place].is_busy {
            return Err(Refusal::Busy(id));
        }
        places.push(place);
    }
    places.sort_unstable();
    let (Some(&newest), Some(&oldest)) = (places.first(), places.last()) else {
        return Err(Refusal::NoRuns);
    };
    if pick.keys.is_empty() {
        return Err(Refusal::NoKeys);
    }
    let named: Vec<_> = places.iter().map(|&place| &table.runs[place]).collect();
    if !named.iter().any(|run| run.overlaps(&pick.keys)) {
        return Err(Refusal::NothingThere);
    }
    match pick.action {
        Action::Drop => return drop_of(pick, &named, oldest).map(Some),
        Action::Move => check_move(pick, &named)?,
        Action::Merge => {}
    }
    let all = &table.runs[newest..=oldest];
    let is_left_out = |run: &&RunShape| !pick.runs.contains(&run.id);
    let mut left_out = all.iter().filter(is_left_out);
    if let Some(run) = left_out.clone().find(|run| run.overlaps(&pick.keys)) {
        return Err(Refusal::Between(run.id));
    }
    let widened = Widened {
        runs: newest..oldest + 1,
        drops: false,
        has_output: false,
    };
    Ok((!left_out.any(|run| run.is_busy)).then_some(widened))
}

/// A drop is never made wider. Of several runs the oldest goes first: a newer one may be
/// what hides it.
fn drop_of(pick: &Pick, named: &[&RunShape], oldest: usize) -> Result<Widened, Refusal> {
    let is_whole = |run: &RunShape| {
        let bounds = run.bounds();
        bounds.is_none_or(|bounds| bounds.intersection(&pick.keys) == bounds)
    };
    match named.iter().find(|run| !is_whole(run)) {
        Some(run) => Err(Refusal::DropOfPart(run.id)),
        None => Ok(Widened {
            runs: oldest..oldest + 1,
            drops: true,
            has_output: false,
        }),
    }
}

fn check_move(pick: &Pick, named: &[&RunShape]) -> Result<(), Refusal> {
    if named.len() == 1 {
        return Err(Refusal::OneRunToMove);
    }
    for (at, older) in named.iter().enumerate() {
        for piece in older.pieces(&pick.keys) {
            let newer = named[..at].iter().find(|newer| newer.overlaps(&piece));
            if let Some(newer) = newer {
                return Err(Refusal::Overlap(newer.id, older.id));
            }
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests;
