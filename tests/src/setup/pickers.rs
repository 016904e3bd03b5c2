//! The pickers that a configuration may name. They decide which runs are merged, and the content
//! must be right whatever they decide.
//!
//! A new picker needs a line in [`PICKERS`]. Drawn configurations then have it, and named ones can
//! get it by [`named`].

use std::sync::Arc;

use ebb_storage::{
    Bounding, CompactionOptions, CompactionPicker, Pick, RunShape, TableShape, TieredPicker,
};
use rand::RngExt;

use super::any_picker::{AnyValid, Anything};
use crate::seed::Rng;

/// A picker: its name, its weight in random draws, and its constructor, which draws the picker's
/// parameters.
type Entry = (&'static str, u32, fn(&mut Rng) -> Arc<dyn CompactionPicker>);

/// All pickers, which choose the runs to merge.
pub const PICKERS: &[Entry] = &[
    ("tiered", 3, |rng| Arc::new(tiered(rng))),
    ("any neighbours", 1, |rng| {
        Arc::new(AnyNeighbours { seed: rng.random() })
    }),
    ("any valid", 1, |rng| {
        Arc::new(AnyValid { seed: rng.random() })
    }),
    ("anything", 1, |rng| {
        Arc::new(Anything { seed: rng.random() })
    }),
];

/// Draws a picker; also returns its name.
pub fn drawn(rng: &mut Rng) -> (&'static str, CompactionOptions) {
    let mut at = rng.random_range(0..PICKERS.iter().map(|(_, weight, _)| weight).sum());
    let drawn = PICKERS.iter().find(|(_, weight, _)| {
        let is_here = at < *weight;
        if !is_here {
            at -= weight;
        }
        is_here
    });
    let (name, _, make) = drawn.expect("the number lies below the sum of the weights");
    (name, with(make(rng)))
}

/// Returns the picker of this name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str, rng: &mut Rng) -> CompactionOptions {
    let found = PICKERS.iter().find(|(n, ..)| *n == name);
    let (_, _, make) = found.unwrap_or_else(|| panic!("no picker is named {name:?}"));
    with(make(rng))
}

fn with(picker: Arc<dyn CompactionPicker>) -> CompactionOptions {
    CompactionOptions {
        picker,
        ..CompactionOptions::default()
    }
}

/// Draws all parameters of the engine's own picker.
fn tiered(rng: &mut Rng) -> TieredPicker {
    TieredPicker {
        size_ratio: [0.2, 1.0, 1.2, 3.0][rng.random_range(0..4)],
        bounding: [Bounding::Strict, Bounding::Preferred, Bounding::Off][rng.random_range(0..3)],
        runs_before_merge: [2, 4, 8][rng.random_range(0..3)],
        space_amplification_max: [1.2, 2.0, 4.0][rng.random_range(0..3)],
    }
}

/// Picks arbitrary neighbouring runs that are not busy, at least two of them: each merge leaves
/// fewer runs, so merging comes to an end.
#[derive(Debug)]
struct AnyNeighbours {
    seed: u64,
}

impl CompactionPicker for AnyNeighbours {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let runs = table.runs;
        let pairs = (1..runs.len()).filter(|&i| !runs[i - 1].is_busy && !runs[i].is_busy);
        let pairs: Vec<_> = pairs.collect();
        // The same shape gives the same decision.
        let mut rng = crate::seed::rng(self.seed ^ fingerprint(runs));
        let start = *pairs.get(rng.random_range(0..pairs.len().max(1)))? - 1;
        let idle = runs[start..].iter().take_while(|run| !run.is_busy).count();
        let end = start + rng.random_range(2..=idle);
        Some(Pick::merge(&runs[start..end]))
    }
}

fn fingerprint(runs: &[RunShape]) -> u64 {
    let mix = |sum: u64, run: &RunShape| {
        let sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ run.bytes ^ run.largest_seq.0;
        sum.rotate_left(29)
    };
    runs.iter().fold(0, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::rng;
    use ebb_storage::{RunId, SeqNo};

    #[test]
    fn pickers_have_unique_names_and_all_are_drawn() {
        let mut names: Vec<_> = PICKERS.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        let mut drawn: Vec<_> = (0..100)
            .map(|seed| super::drawn(&mut rng(seed)).0)
            .collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, names);
        for name in names {
            named(name, &mut rng(1));
        }
    }

    #[test]
    fn any_neighbours_are_two_at_least_and_none_is_busy() {
        let run = |i: u64, is_busy| RunShape {
            id: RunId(i),
            bytes: 100 + i,
            largest_file_bytes: 100 + i,
            entries: 1,
            keys: 1,
            tombstones: 0,
            overwrites: None,
            garbage_bytes: 0,
            smallest_seq: SeqNo(100 - i),
            largest_seq: SeqNo(100 - i),
            is_busy,
        };
        for seed in 0..200 {
            let picker = AnyNeighbours { seed };
            let shape = |runs: &[RunShape]| {
                let shape = TableShape {
                    keyspace: "app",
                    name: "users",
                    runs,
                    bookmarks: &[],
                    is_idle: false,
                };
                picker.pick(&shape)
            };
            let runs: Vec<_> = (0..6).map(|i| run(i, i == seed % 6)).collect();
            let pick = shape(&runs).unwrap();
            assert!(pick.runs.len() >= 2);
            let ids = pick.runs.iter().map(|id| id.0);
            assert!(
                ids.clone()
                    .zip(ids.clone().skip(1))
                    .all(|(a, b)| a + 1 == b)
            );
            assert!(ids.clone().all(|id| id != seed % 6));
            assert_eq!(shape(&runs[..1]), None);
            assert_eq!(shape(&[]), None);
        }
    }
}
