//! Pickers that say anything: content is right whatever they pick.

use ebb_storage::{Action, CompactionPicker, KeyRange, Pick, Reason, RunId, RunShape, TableShape};
use rand::RngExt;

use crate::seed::{Rng, rng};

/// Picks any runs, any keys and anything to do that can be right. The same shape gives
/// the same pick.
#[derive(Debug, Clone, Copy)]
pub struct AnyValid {
    /// By which it differs from others.
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

/// Picks what is valid and nonsense in turn: runs that are not there, or are busy, or
/// lie apart; ranges the wrong way round; drops of what is needed.
#[derive(Debug, Clone, Copy)]
pub struct Anything {
    /// By which it differs from others.
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
    let stretch = &runs[newest..=oldest];
    let keys = Some(any_keys(rng, stretch)).filter(|keys| !keys.is_empty());
    let keys = keys.unwrap_or(KeyRange::all());
    // What has something there has to be named; what has nothing may be.
    let mut is_named =
        |run: &&RunShape| run.overlaps(&keys) || !run.is_busy && rng.random_bool(0.5);
    let named: Vec<_> = stretch.iter().filter(&mut is_named).collect();
    if named.iter().any(|run| run.is_busy) || !named.iter().any(|run| run.overlaps(&keys)) {
        return None;
    }
    let moves = named.len() > 1 && !overlap(&named, &keys) && rng.random_bool(0.7);
    let mut pick = Pick::merge(named, Reason::Count).within(keys);
    if rng.random_bool(0.5) {
        pick.runs.reverse();
    }
    Some(match moves {
        true => pick.to(Action::Move),
        false => pick,
    })
}

/// Whether two of these runs have something in the same part of `keys`.
fn overlap(runs: &[&RunShape], keys: &KeyRange) -> bool {
    let pieces = |run: &RunShape| {
        let files = run.files.iter().map(|file| file.keys.clone());
        let pieces = files.chain(run.range_tombstones.clone());
        pieces
            .map(|piece| piece.intersection(keys))
            .collect::<Vec<_>>()
    };
    runs.iter().enumerate().any(|(at, run)| {
        let mut pieces = pieces(run).into_iter();
        pieces.any(|piece| runs[..at].iter().any(|newer| newer.overlaps(&piece)))
    })
}

/// All keys, those of a file, or those between some keys that files begin with.
fn any_keys(rng: &mut Rng, runs: &[RunShape]) -> KeyRange {
    let files: Vec<_> = runs.iter().flat_map(|run| run.files.iter()).collect();
    if files.is_empty() || rng.random_bool(0.2) {
        return KeyRange::all();
    }
    let file = |rng: &mut Rng| files[rng.random_range(0..files.len())].keys.clone();
    match rng.random_range(0..3) {
        0 => file(rng),
        1 => file(rng).hull(&file(rng)),
        _ => KeyRange {
            start: file(rng).start,
            end: Some(file(rng).start),
        },
    }
}

fn nonsense(rng: &mut Rng, runs: &[RunShape]) -> Pick {
    let any_run = |rng: &mut Rng| match runs.len() {
        0 => RunId(rng.random_range(0..100)),
        _ if rng.random_bool(0.1) => RunId(rng.random()),
        n => runs[rng.random_range(0..n)].id,
    };
    let names = rng.random_range(0..4);
    Pick {
        action: [Action::Merge, Action::Move, Action::Drop][rng.random_range(0..3)],
        runs: (0..names).map(|_| any_run(rng)).collect(),
        keys: any_keys(rng, runs),
        reason: Reason::Space,
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ebb_storage::{CompactionOptions, Db, Options, TableOptions};

    use super::*;
    use crate::disk::{DIR, MemDisk, manual};

    /// Passes a picker's answers on, and counts those of parts and those that move.
    #[derive(Debug)]
    struct Counted(AnyValid, Arc<[AtomicUsize; 2]>);

    impl CompactionPicker for Counted {
        fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
            let pick = self.0.pick(table)?;
            let [parts, moves] = &*self.1;
            let count = |is: bool| usize::from(is);
            parts.fetch_add(count(pick.keys != KeyRange::all()), Ordering::Relaxed);
            moves.fetch_add(count(pick.action == Action::Move), Ordering::Relaxed);
            Some(pick)
        }
    }

    /// A proof by pickers whose picks are all refused would show nothing.
    #[test]
    fn what_is_valid_is_carried_out_and_nonsense_is_not() {
        let counts: Arc<[AtomicUsize; 2]> = Arc::default();
        let (mut merges, mut refusals) = (0, 0);
        for seed in 0..30 {
            for valid in [true, false] {
                let picker: Arc<dyn CompactionPicker> = match valid {
                    true => Arc::new(Counted(AnyValid { seed }, counts.clone())),
                    false => Arc::new(Anything { seed }),
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
                match valid {
                    true => merges += stats.compactions,
                    false => refusals += stats.tables[0].picks_refused,
                }
            }
        }
        let [parts, moves] = &*counts;
        let counts = (parts.load(Ordering::Relaxed), moves.load(Ordering::Relaxed));
        assert!(merges > 100 && refusals > 100, "{merges}, {refusals}");
        assert!(counts.0 > 100 && counts.1 > 10, "{counts:?}");
    }
}
