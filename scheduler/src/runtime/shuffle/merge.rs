//! K-way merge of sorted sources, in as many passes as the memory and the free file descriptors require.

use super::key_prefix::{PREFIX_BYTES, compare_behind, key_prefix};
use super::open_files::{open_patiently, open_some};
use super::run::{RunWriter, Segment, SegmentReader};
use super::sorted::{Sorted, for_each_group};
use crate::runtime::error::TaskError;
use crate::runtime::job::functions::{Emit, Reducer};
use crate::runtime::job::task_context::TaskContext;
use crate::runtime::pacing::attempt::Attempt;
use std::cell::{Cell, OnceCell};
use std::path::PathBuf;
use tempfile::TempDir;

/// The most sources that are read at once, even with more memory: each is an open file.
const FAN_IN_MAX: usize = 64;

/// Returns the most segments that a task with `memory_bytes` may merge at once, given the longest
/// block of `segments`. A block of each, compressed and raw, is in memory, and together these
/// blocks may take half of the memory. The result is at least two, because a merge of one segment
/// would not reduce their number, and at most [`FAN_IN_MAX`]. No block is much longer than a tenth
/// of the memory, so two blocks and the one being written fit.
fn fan_in(memory_bytes: usize, segments: &[Segment]) -> usize {
    let longest = segments.iter().map(|segment| segment.block_bytes_max).max();
    let block_bytes = longest.unwrap_or(0).max(1);
    (memory_bytes / (4 * block_bytes)).clamp(2, FAN_IN_MAX)
}

/// The union of sorted sources, in order of key, then of source.
///
/// A tree of losers: the sources are the leaves of a binary tree, each inner node has the source
/// that lost there, and the overall winner is at the top. When the winner advances, only the
/// matches on its way up are played again, one per level. Most matches are decided by the prefixes
/// of the keys, which are kept here.
pub(in crate::runtime) struct Merge<S> {
    sources: Vec<S>,
    /// Prefix of each source's present key; meaningless at the source's end.
    prefixes: Vec<u128>,
    /// A tournament tree of indices of sources, where the smaller key wins: the winner of all, then
    /// the losers at nodes 1, 2, ... The children of node n are 2n and 2n + 1, and source s is the
    /// leaf s + sources.
    tree: Vec<usize>,
}

impl<S: Sorted> Merge<S> {
    pub fn new(sources: Vec<S>) -> Self {
        let k = sources.len();
        let mut merge = Self {
            prefixes: sources.iter().map(prefix).collect(),
            sources,
            tree: vec![0; k],
        };
        // Winners at all nodes, leaves included.
        let mut winners: Vec<usize> = vec![0; k];
        winners.extend(0..k);
        for node in (1..k).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if merge.is_before(b, a) {
                (b, a)
            } else {
                (a, b)
            };
            winners[node] = winner;
            merge.tree[node] = loser;
        }
        if let Some(top) = merge.tree.first_mut() {
            // With a single source, node 1 is its leaf.
            *top = winners[1];
        }
        merge
    }

    /// Returns whether source `a` comes before source `b`. A source at its end comes before no
    /// other.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (source_a, source_b) = (self.sources[a].current(), self.sources[b].current());
        match (source_a, source_b) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((key_a, _)), Some((key_b, _))) => {
                let order = self.prefixes[a].cmp(&self.prefixes[b]);
                let order = order.then_with(|| compare_behind(key_a, key_b, PREFIX_BYTES));
                order.then(a.cmp(&b)).is_lt()
            }
        }
    }
}

fn prefix<S: Sorted>(source: &S) -> u128 {
    source.current().map_or(0, |(key, _)| key_prefix(key))
}

impl<S: Sorted> Sorted for Merge<S> {
    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.sources[*self.tree.first()?].current()
    }

    fn advance(&mut self) -> Result<(), TaskError> {
        let mut winner = self.tree[0];
        self.sources[winner].advance()?;
        self.prefixes[winner] = prefix(&self.sources[winner]);
        let mut node = (winner + self.sources.len()) / 2;
        while node > 0 {
            if self.is_before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
        Ok(())
    }
}

/// The directory of an attempt's intermediate runs. It is created for the first run, so most
/// attempts never create it, and removed on drop.
pub(in crate::runtime) struct SpillDir<'a> {
    job: &'a TaskContext,
    prefix: String,
    made: OnceCell<TempDir>,
    next: Cell<u32>,
}

impl<'a> SpillDir<'a> {
    pub fn new(job: &'a TaskContext, prefix: String) -> Self {
        Self {
            job,
            prefix,
            made: OnceCell::new(),
            next: Cell::new(0),
        }
    }

    /// Returns a path in the directory that was not returned before. The first call creates the
    /// directory.
    pub fn next_path(&self) -> Result<PathBuf, TaskError> {
        let directory = match self.made.get() {
            Some(made) => made,
            None => {
                let made = self.job.attempt_dir(&self.prefix)?;
                self.made.get_or_init(|| made)
            }
        };
        let number = self.next.get();
        self.next.set(number + 1);
        Ok(directory.path().join(format!("{number}.run")))
    }
}

/// Merges groups of neighbouring segments into runs in `directory`, through the combiner if there
/// is one, until the remaining segments can be read at once with `memory_bytes` and with the file
/// descriptors that are free. Returns a cursor over the records of all of them.
pub(in crate::runtime) fn merge_segments(
    mut segments: Vec<Segment>,
    memory_bytes: usize,
    directory: &SpillDir<'_>,
    combiner: Option<&dyn Reducer>,
    attempt: &Attempt<'_>,
) -> Result<Merge<SegmentReader>, TaskError> {
    // Small maps leave most partitions empty: open no file for those.
    segments.retain(|segment| segment.length > 0);
    loop {
        let fan_in = fan_in(memory_bytes, &segments);
        let mut merged = Vec::with_capacity(segments.len().div_ceil(fan_in));
        let mut left = segments.as_slice();
        loop {
            let readers = open(&left[..fan_in.min(left.len())], attempt)?;
            if readers.len() == segments.len() {
                return Ok(Merge::new(readers));
            }
            left = &left[readers.len()..];
            let space = &directory.job.spill_space;
            let mut writer = RunWriter::new(directory.next_path()?, memory_bytes, space);
            write_sorted(&mut Merge::new(readers), combiner, &mut writer, attempt)?;
            writer.end_segment()?;
            let run = writer.finish();
            attempt.count(|counters| {
                counters.spilled_records += run.records;
                counters.spilled_bytes += run.bytes;
            });
            merged.extend(run.segments);
            if left.is_empty() {
                break;
            }
        }
        segments = merged;
    }
}

/// Writes `source` to the present segment of `writer`, through the combiner if there is one.
pub(in crate::runtime) fn write_sorted(
    source: &mut dyn Sorted,
    combiner: Option<&dyn Reducer>,
    writer: &mut RunWriter,
    attempt: &Attempt<'_>,
) -> Result<(), TaskError> {
    if let Some(combiner) = combiner {
        for_each_group(source, attempt, 0, |key, values| {
            let mut emit = CombineEmit {
                key,
                writer,
                attempt,
            };
            combiner.reduce(key, values, &mut emit)
        })?;
        return Ok(());
    }
    while let Some((key, value)) = source.current() {
        writer.push(key, value)?;
        attempt.tick(key.len() + value.len())?;
        source.advance()?;
    }
    Ok(())
}

/// Opens readers of `segments`, in their order: of all, or only of the first ones if the process has few
/// file descriptors left. See [`open_some`].
fn open(segments: &[Segment], attempt: &Attempt<'_>) -> Result<Vec<SegmentReader>, TaskError> {
    let files = open_patiently(|| {
        attempt.look()?;
        open_some(segments, Segment::open_file)
    })?;
    let opened = &segments[..files.len()];
    // One block of each segment, compressed and raw.
    let blocks_bytes = |segment: &Segment| 2 * segment.block_bytes_max;
    attempt.set_memory_bytes(opened.iter().map(blocks_bytes).sum());
    let readers = opened.iter().zip(files);
    readers
        .map(|(segment, file)| SegmentReader::new(segment, file))
        .collect()
}

struct CombineEmit<'a> {
    key: &'a [u8],
    writer: &'a mut RunWriter,
    attempt: &'a Attempt<'a>,
}

impl Emit for CombineEmit<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        // Another key would break the order of the run, or be in the wrong partition.
        if key != self.key {
            return Err(TaskError::failed(
                "a combiner must emit under the key it was given",
            ));
        }
        self.attempt.tick(key.len() + value.len())?;
        self.writer.push(key, value)
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        self.attempt.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::VecDeque;
    use std::path::Path;
    use std::sync::Arc;

    struct List(VecDeque<(Vec<u8>, usize)>);

    impl Sorted for List {
        fn current(&self) -> Option<(&[u8], &[u8])> {
            self.0.front().map(|(key, _)| (key.as_slice(), &[][..]))
        }

        fn advance(&mut self) -> Result<(), TaskError> {
            self.0.pop_front();
            Ok(())
        }
    }

    /// Returns the position, among all records, of the record under the merge's cursor.
    fn number(merge: &Merge<List>) -> Option<usize> {
        let winner = merge.tree.first()?;
        merge.sources[*winner].0.front().map(|(_, number)| *number)
    }

    #[test]
    fn a_merge_is_the_stable_sort_of_its_sources_in_turn() {
        let test = "a_merge_is_the_stable_sort_of_its_sources_in_turn";
        for_seeds(test, 200, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut all: Vec<(Vec<u8>, usize)> = Vec::new();
            let sources = (0..rng.random_range(0..20)).map(|_| {
                let key = |rng: &mut ChaCha8Rng| vec![0; rng.random_range(0..40)];
                let records = 0..rng.random_range(0..6);
                let mut keys: Vec<Vec<u8>> = records.map(|_| key(&mut rng)).collect();
                keys.sort();
                let numbered: VecDeque<_> = (keys.into_iter().zip(all.len()..)).collect();
                all.extend(numbered.iter().cloned());
                List(numbered)
            });
            let mut merge = Merge::new(sources.collect());
            all.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (key, expected) in &all {
                assert_eq!(merge.current().map(|(key, _)| key), Some(key.as_slice()));
                assert_eq!(number(&merge), Some(*expected));
                merge.advance().unwrap();
            }
            assert_eq!(merge.current(), None);
        });
    }

    #[test]
    fn the_fan_in_depends_on_the_memory_and_the_longest_block() {
        let segment = |block_bytes_max| Segment {
            path: Arc::new(Path::new("run").to_path_buf()),
            offset: 0,
            length: 1,
            records: 1,
            block_bytes_max,
        };
        let plain = [segment(16 << 10)];
        assert_eq!(fan_in(16 << 10, &plain), 2);
        assert_eq!(fan_in(1 << 20, &plain), 16);
        assert_eq!(fan_in(1 << 30, &plain), 64);
        let mixed = [segment(16 << 10), segment(100 << 10)];
        assert_eq!(fan_in(1 << 20, &mixed), 2);
        assert_eq!(fan_in(1 << 20, &[]), 64);
    }
}
