//! Unfinished merges: a part of the output is written and installed, and the rest is still to be
//! merged.
//!
//! ```text
//!   A'  ·····[b ────────    merged up to b: the inputs now begin there
//!   B'  ·····[b ────
//!   C'  ·····[b ────────
//!   P   ─────[b             the output so far ends there
//! ```
//!
//! An unfinished merge has no record of its own. It is recognized by neighbouring runs that begin
//! at the same key, with a run behind them that ends there. No I/O, no clock.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;

use crate::key::RunId;
use crate::runs::RunMeta;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfinished {
    /// The positions, in the table's list of runs, of the runs that are still to be merged.
    pub(crate) inputs: Range<usize>,
    /// Whether the merge has output so far: the run that follows the inputs in the table's list of
    /// runs (the next older one).
    pub(crate) has_output: bool,
    /// Whether the merge cannot go on for now, because one of the runs that are still to be merged
    /// is damaged, or is left out of merges for a while after it could not be read.
    pub(crate) is_stuck: bool,
}

impl Unfinished {
    /// Returns the position, in the table's list of runs, of the run that is the output of the
    /// merge so far; `None` if there is none.
    pub(crate) fn output(&self) -> Option<usize> {
        self.has_output.then_some(self.inputs.end)
    }

    /// Returns the positions, in the table's list of runs, of the inputs and of the output so far,
    /// which are neighbours.
    pub(crate) fn runs(&self) -> Range<usize> {
        self.inputs.start..self.inputs.end + usize::from(self.has_output)
    }
}

/// Returns the unfinished merges of a table, in the order of its `runs`, which come newest first. A
/// merge is unfinished if a part of its output is installed and the rest of its inputs is still to
/// be merged. It is stuck if one of these inputs is in quarantine, or in `left_out`, the runs that
/// no merge may read for now.
pub(crate) fn unfinished<'a>(
    runs: impl IntoIterator<Item = &'a RunMeta>,
    left_out: &HashSet<RunId>,
) -> Vec<Unfinished> {
    let is_out = |run: &RunMeta| run.is_quarantined() || left_out.contains(&run.id);
    let mut found: Vec<Unfinished> = Vec::new();
    // The key at which the inputs of the last unfinished merge begin.
    let mut begins: Option<&Bytes> = None;
    for (at, run) in runs.into_iter().enumerate() {
        let open = found
            .last_mut()
            .filter(|open| open.runs().end == at && !open.has_output);
        match (run.begins_at(), open) {
            (Some(key), Some(open)) if Some(key) == begins => {
                open.inputs.end = at + 1;
                open.is_stuck |= is_out(run);
            }
            (None, Some(open)) if run.ends_before().is_some() && run.ends_before() == begins => {
                // The output is not read, so damage to it does not matter.
                open.has_output = true;
            }
            (key, _) => {
                begins = key;
                found.extend(key.map(|_| Unfinished {
                    inputs: at..at + 1,
                    has_output: false,
                    is_stuck: is_out(run),
                }));
            }
        }
    }
    found
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::key::KeyBounds;
    use crate::runs::{FileMeta, Quarantine};

    const LEFT_OUT: RunId = RunId(2);

    /// Parses a run: "b..d" begins at the key b and ends before d, and `-` stands for no bound. A
    /// `!` behind it is for a damaged run, a `?` for one that merges leave out.
    fn run(text: &str) -> RunMeta {
        let (is_damaged, is_left_out) = (text.ends_with('!'), text.ends_with('?'));
        let bounds = text.trim_end_matches(['!', '?']);
        let (start, end) = bounds.split_once("..").unwrap();
        let key = |text: &str| (text != "-").then(|| Bytes::copy_from_slice(text.as_bytes()));
        let quarantine = is_damaged.then(|| Quarantine {
            offset: 0,
            detail: "bad".into(),
        });
        RunMeta {
            id: if is_left_out { LEFT_OUT } else { RunId(1) },
            files: vec![FileMeta {
                quarantine,
                ..FileMeta::of_nothing(1)
            }],
            keys: KeyBounds::between(key(start), key(end)),
            ..RunMeta::example(1, &[])
        }
    }

    #[test]
    fn neighbours_that_begin_where_the_run_behind_them_ends_go_on() {
        for (runs, expected) in [
            ("-..-  -..-", ""),
            ("b..-  b..-  -..b", "0..2+"),
            ("-..-  b..-  -..b  -..-", "1..2+"),
            ("b..-  c..-  -..c", "0..1  1..2+"),
            ("b..-  b..-  -..-", "0..2"),
            ("b..-  -..b  b..-  -..b", "0..1+  2..3+"),
            ("b..-  b..-!  -..b", "0..2+!"),
            ("b..-  b..-?  -..b", "0..2+!"),
            ("b..-?  b..-  -..b", "0..2+!"),
            ("b..-  -..b!", "0..1+"),
            ("b..-!  -..-  b..-", "0..1!  2..3"),
            // Its merge is over: it is a run like any other.
            ("-..b  -..-", ""),
            ("-..b  b..-", "1..2"),
        ] {
            let runs: Vec<_> = runs.split_whitespace().map(run).collect();
            let found = unfinished(&runs, &HashSet::from([LEFT_OUT]));
            let found = found.into_iter().map(|found| {
                let output = if found.has_output { "+" } else { "" };
                let stuck = if found.is_stuck { "!" } else { "" };
                format!("{:?}{output}{stuck}", found.inputs)
            });
            let found: Vec<_> = found.collect();
            assert_eq!(found.join("  "), expected, "{runs:?}");
        }
    }
}
