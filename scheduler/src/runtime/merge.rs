//! K-way merge of sorted sources, in as many passes as memory asks for.

use super::attempt::Attempt;
use super::error::TaskError;
use super::functions::{Emit, Reducer};
use super::run::{BLOCK_BYTES, RunWriter, Segment, SegmentReader};
use super::sorted::{Sorted, for_each_group};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Sources a merge reads at once for a task with `memory_bytes`: each holds a
/// block compressed and raw, and together they may take half of the memory.
pub(super) fn fan_in(memory_bytes: usize) -> usize {
    (memory_bytes / (4 * BLOCK_BYTES)).clamp(4, 64)
}

/// The union of sorted sources, in order of key, then of source.
pub(super) struct Merge<S> {
    sources: Vec<S>,
    /// A binary heap of the sources that are not at their end; the root has the
    /// smallest record.
    heap: Vec<usize>,
}

impl<S: Sorted> Merge<S> {
    pub fn new(sources: Vec<S>) -> Self {
        let heap = (0..sources.len())
            .filter(|&source| sources[source].current().is_some())
            .collect();
        let mut merge = Self { sources, heap };
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        merge
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2];
            let smallest = (children
                .into_iter()
                .filter(|&child| child < self.heap.len()))
            .fold(at, |least, child| {
                if self.is_less(child, least) {
                    child
                } else {
                    least
                }
            });
            if smallest == at {
                return;
            }
            self.heap.swap(at, smallest);
            at = smallest;
        }
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        let order = |at: usize| {
            let source = self.heap[at];
            (self.sources[source].current().map(|(key, _)| key), source)
        };
        order(a) < order(b)
    }
}

impl<S: Sorted> Sorted for Merge<S> {
    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.sources[*self.heap.first()?].current()
    }

    fn advance(&mut self) -> Result<(), TaskError> {
        let source = self.heap[0];
        self.sources[source].advance()?;
        if self.sources[source].current().is_none() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }
}

/// A directory in which an attempt makes its intermediate runs.
pub(super) struct SpillDir<'a> {
    path: &'a Path,
    next: Cell<u32>,
}

impl<'a> SpillDir<'a> {
    pub fn new(path: &'a Path) -> Self {
        Self {
            path,
            next: Cell::new(0),
        }
    }

    /// A name that is not taken.
    pub fn next_path(&self) -> PathBuf {
        let number = self.next.get();
        self.next.set(number + 1);
        self.path.join(format!("{number}.run"))
    }
}

/// Merges groups of neighbours until at most `fan_in` segments are left, and
/// returns a cursor over all of them.
pub(super) fn merge_segments(
    mut segments: Vec<Segment>,
    fan_in: usize,
    directory: &SpillDir<'_>,
    combiner: Option<&dyn Reducer>,
    attempt: &Attempt<'_>,
) -> Result<Merge<SegmentReader>, TaskError> {
    // Small maps leave most partitions empty: no file to open for those.
    segments.retain(|segment| segment.length > 0);
    while segments.len() > fan_in {
        let mut merged = Vec::with_capacity(segments.len().div_ceil(fan_in));
        for group in segments.chunks(fan_in) {
            let mut writer = RunWriter::create(directory.next_path())?;
            write_sorted(&mut open(group)?, combiner, &mut writer, attempt)?;
            writer.end_segment()?;
            let run = writer.finish()?;
            attempt.count(|counters| {
                counters.spilled_records += run.records;
                counters.spilled_bytes += run.bytes;
            });
            merged.extend(run.segments);
        }
        segments = merged;
    }
    open(&segments)
}

/// Writes `source` to the present segment of `writer`, through the combiner if
/// there is one.
pub(super) fn write_sorted(
    source: &mut dyn Sorted,
    combiner: Option<&dyn Reducer>,
    writer: &mut RunWriter,
    attempt: &Attempt<'_>,
) -> Result<(), TaskError> {
    if let Some(combiner) = combiner {
        for_each_group(source, attempt, |key, values| {
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

fn open(segments: &[Segment]) -> Result<Merge<SegmentReader>, TaskError> {
    let readers: Result<_, _> = segments.iter().map(SegmentReader::open).collect();
    Ok(Merge::new(readers?))
}

struct CombineEmit<'a> {
    key: &'a [u8],
    writer: &'a mut RunWriter,
    attempt: &'a Attempt<'a>,
}

impl Emit for CombineEmit<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        // Another key would break the order of the run, or its partition.
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

    struct Slice(Vec<(&'static str, &'static str)>);

    impl Sorted for Slice {
        fn current(&self) -> Option<(&[u8], &[u8])> {
            self.0
                .first()
                .map(|(key, value)| (key.as_bytes(), value.as_bytes()))
        }

        fn advance(&mut self) -> Result<(), TaskError> {
            self.0.remove(0);
            Ok(())
        }
    }

    #[test]
    fn equal_keys_keep_the_order_of_their_sources() {
        let mut merge = Merge::new(vec![
            Slice(vec![("b", "1"), ("b", "2"), ("d", "3")]),
            Slice(vec![]),
            Slice(vec![("a", "4"), ("b", "5")]),
            Slice(vec![("b", "6"), ("c", "7"), ("e", "8")]),
        ]);
        let mut merged = String::new();
        while let Some((key, value)) = merge.current() {
            merged += &format!(
                "{}{} ",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(value)
            );
            merge.advance().unwrap();
        }
        assert_eq!(merged, "a4 b1 b2 b5 b6 c7 d3 e8 ");
    }

    #[test]
    fn the_fan_in_follows_the_memory() {
        assert_eq!(fan_in(16 << 10), 4);
        assert_eq!(fan_in(1 << 20), 16);
        assert_eq!(fan_in(1 << 30), 64);
    }
}
