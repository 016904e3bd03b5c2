//! Pickers with arbitrary picks: the content must be right with any of them.

use ebb_storage::{CompactionPicker, Pick, RunId, RunShape, TableShape};
use rand::RngExt;

use crate::seed::{Rng, rng};

/// Picks arbitrary neighbouring runs that are not busy, also a single run, or nothing. The pick
/// depends only on the seed and the shape of the table.
#[derive(Debug, Clone, Copy)]
pub struct AnyValid {
    /// The seed from which the runs to be merged are drawn.
    pub seed: u64,
}

impl CompactionPicker for AnyValid {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let mut rng = rng(self.seed ^ fingerprint(table));
        if table.runs.is_empty() || rng.random_bool(0.2) {
            return None;
        }
        any_valid(&mut rng, table.runs)
    }
}

/// Picks valid runs, or nothing, or up to three runs at random. Such a random pick is often
/// invalid: it has no runs, or runs that do not exist, are busy, are no neighbours, or are named
/// twice. The pick depends only on the seed and the shape of the table.
#[derive(Debug, Clone, Copy)]
pub struct Anything {
    /// The seed of the picks.
    pub seed: u64,
}

impl CompactionPicker for Anything {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let mut rng = rng(self.seed ^ fingerprint(table));
        match rng.random_range(0..10) {
            0 => None,
            1..=5 if !table.runs.is_empty() => any_valid(&mut rng, table.runs),
            _ => Some(nonsense(&mut rng, table.runs)),
        }
    }
}

fn any_valid(rng: &mut Rng, runs: &[RunShape]) -> Option<Pick> {
    let newest = rng.random_range(0..runs.len());
    let oldest = rng.random_range(newest..runs.len().min(newest + 6));
    let neighbours = &runs[newest..=oldest];
    if neighbours.iter().any(|run| run.is_busy) {
        return None;
    }
    let mut pick = Pick::merge(neighbours);
    if rng.random_bool(0.5) {
        pick.runs.reverse();
    }
    Some(pick)
}

fn nonsense(rng: &mut Rng, runs: &[RunShape]) -> Pick {
    let any_run = |rng: &mut Rng| match runs.len() {
        0 => RunId(rng.random_range(0..100)),
        _ if rng.random_bool(0.1) => RunId(rng.random()),
        n => runs[rng.random_range(0..n)].id,
    };
    let names = rng.random_range(0..4);
    Pick {
        runs: (0..names).map(|_| any_run(rng)).collect(),
    }
}

fn fingerprint(table: &TableShape<'_>) -> u64 {
    let mix = |sum: u64, number: u64| {
        let sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        sum.rotate_left(29)
    };
    let runs = table.runs.iter();
    let numbers = runs.flat_map(|run| [run.id.0, run.bytes, u64::from(run.is_busy)]);
    numbers.fold(table.bookmarks.len() as u64, mix)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ebb_storage::{CompactionOptions, Db, Options, TableOptions};

    use super::*;
    use crate::disk::{DIR, MemDisk, manual};

    /// Valid picks are carried out, and invalid ones are refused. If no pick was ever carried out,
    /// tests with these pickers would show nothing.
    #[test]
    fn valid_picks_are_carried_out_and_nonsense_is_refused() {
        let (mut merges, mut refusals) = (0, 0);
        for seed in 0..30 {
            for valid in [true, false] {
                let picker: Arc<dyn CompactionPicker> = if valid {
                    Arc::new(AnyValid { seed })
                } else {
                    Arc::new(Anything { seed })
                };
                let compaction = CompactionOptions {
                    picker,
                    ..CompactionOptions::default()
                };
                let options = Options {
                    file_bytes: 500,
                    compaction,
                    ..manual(&MemDisk::new())
                };
                let db = Db::open(DIR, options).unwrap();
                let keyspace = db.keyspace("app").unwrap();
                let table = keyspace.table("users", TableOptions::default()).unwrap();
                let mut rng = rng(seed);
                for run in 0..20_u8 {
                    let from = rng.random_range(0..200_u8);
                    for key in from..from.saturating_add(20) {
                        table.put(&[key], &[run; 50]).unwrap();
                    }
                    if rng.random_bool(0.2) {
                        table.delete_range([from]..[from + 10]).unwrap();
                    }
                    db.flush().unwrap();
                    db.compact().unwrap();
                    let stats = db.stats();
                    let why = stats.tables[0].pick_refused.clone().unwrap_or_default();
                    let is_right = why.is_empty() || why.contains("gained nothing");
                    assert!(is_right || !valid, "seed {seed}: {why}");
                }
                let stats = db.stats();
                if valid {
                    merges += stats.compactions;
                } else {
                    refusals += stats.tables[0].picks_refused;
                }
            }
        }
        assert!(merges > 100 && refusals > 100, "{merges}, {refusals}");
    }
}
