use std::cmp::Reverse;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::error::Error;
use crate::key::{Kind, SeqNo};

type Version = (Vec<u8>, Reverse<u64>);

/// A cursor over versions in memory. A step from the version at `fails_at` fails.
struct Versions {
    all: Vec<Version>,
    at: Option<usize>,
    fails_at: Option<usize>,
}

impl Versions {
    fn step(&mut self, to: Option<usize>) -> Result<()> {
        let failed = self.at == self.fails_at;
        self.at = to.filter(|&at| at < self.all.len() && !failed);
        if failed {
            Err(Error::InvalidRequest("a step failed".into()))
        } else {
            Ok(())
        }
    }
}

impl Cursor for Versions {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek(&mut self, _: &[u8], _: SeqNo) -> Result<()> {
        unreachable!("a merge does not seek")
    }

    fn seek_before(&mut self, _: &[u8], _: SeqNo) -> Result<()> {
        unreachable!("a merge does not seek")
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.at = (!self.all.is_empty()).then_some(0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.at = self.all.len().checked_sub(1);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.step(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        self.step(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn key(&self) -> &[u8] {
        &self.all[self.at.unwrap()].0
    }

    fn seq(&self) -> SeqNo {
        SeqNo(self.all[self.at.unwrap()].1.0)
    }

    fn kind(&self) -> Kind {
        Kind::Put
    }

    fn value(&self) -> Bytes {
        Bytes::new()
    }
}

/// Returns all versions in order, and the same versions dealt out to some sources. Neighbours
/// sometimes stay in one source, and a source may get none.
fn dealt(rng: &mut ChaCha8Rng) -> (Vec<Version>, Vec<Versions>) {
    let mut all: Vec<Version> = (0..rng.random_range(0..200))
        .map(|seq| {
            let key = (0..rng.random_range(0..4)).map(|_| rng.random_range(0..3));
            (key.collect(), Reverse(seq))
        })
        .collect();
    all.sort();
    let count = rng.random_range(1..12);
    let mut sources: Vec<_> = (0..count).map(|_| Vec::new()).collect();
    let mut to = 0;
    for version in &all {
        if rng.random_bool(0.6) {
            to = rng.random_range(0..count);
        }
        sources[to].push(version.clone());
    }
    let versions = |all| Versions {
        all,
        at: None,
        fails_at: None,
    };
    (all, sources.into_iter().map(versions).collect())
}

/// Returns all versions that a merge yields, and whether it ended with an error.
fn drain<const BACKWARD: bool>(mut merge: Merge<Versions, BACKWARD>) -> (Vec<Version>, bool) {
    let mut seen = Vec::new();
    while let Some(source) = merge.peek().unwrap() {
        seen.push((source.key().to_vec(), Reverse(source.seq().0)));
        if merge.advance().is_err() {
            assert!(merge.front().is_none(), "it ends with an error");
            assert!(merge.advance().is_ok());
            return (seen, true);
        }
    }
    (seen, false)
}

#[test]
fn all_versions_come_in_order_both_ways() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..300 {
        let (mut all, mut sources) = dealt(&mut rng);
        sources
            .iter_mut()
            .try_for_each(Versions::seek_to_first)
            .unwrap();
        let forward = Merge::<_, false>::new(sources);
        assert_eq!(drain(forward), (all.clone(), false));

        let (again, mut sources) = dealt(&mut rng);
        all = again;
        all.reverse();
        sources
            .iter_mut()
            .try_for_each(Versions::seek_to_last)
            .unwrap();
        assert_eq!(drain(Merge::<_, true>::new(sources)), (all, false));
    }
}

#[test]
fn an_error_of_a_source_ends_the_merge() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut ended = 0;
    for _ in 0..100 {
        let (all, mut sources) = dealt(&mut rng);
        let failing = rng.random_range(0..sources.len());
        let source = &mut sources[failing];
        if source.all.is_empty() {
            continue;
        }
        let at = rng.random_range(0..source.all.len());
        source.fails_at = Some(at);
        let last = source.all[at].clone();
        sources
            .iter_mut()
            .try_for_each(Versions::seek_to_first)
            .unwrap();
        let (seen, failed) = drain(Merge::<_, false>::new(sources));
        assert!(failed && all.starts_with(&seen));
        assert_eq!(seen.last(), Some(&last));
        ended += 1;
    }
    assert!(ended > 50, "only {ended} of 100 had something to fail at");
}
