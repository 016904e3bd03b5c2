//! An output of only the first rows of a job, into any other output.

use std::sync::Arc;

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use super::partitions::{PartitionWriter, Partitions};
use super::spill_place::SpillPlace;
use super::staging::StagingWriter;

/// An output that passes only the first rows of a job to another output: the rows of the first
/// partition in the order written, then those of the next one, until the limit is reached.
///
/// The first rows are known only when all partitions are written. Until then, each partition keeps
/// its first rows, up to the limit, in a temporary file. The commit passes the first of all these
/// rows to the other output, as one partition.
pub struct LimitedOutput {
    inner: Arc<dyn Output>,
    rows_max: u64,
    partitions: Partitions,
}

impl LimitedOutput {
    /// Creates an output that passes the first `rows_max` rows to `inner`. Until the commit, the
    /// rows are in files in `place`.
    pub fn new(inner: Arc<dyn Output>, rows_max: u64, place: impl Into<SpillPlace>) -> Self {
        Self {
            inner,
            rows_max,
            partitions: Partitions::new(place),
        }
    }

    fn pass_on(&self) -> Result<(), TaskError> {
        let mut writer = self.inner.open(0, 1)?;
        let mut left = self.rows_max;
        for rows in self.partitions.take() {
            let wanted = left;
            rows.for_each_up_to(wanted, &mut |key, value| {
                left -= 1;
                writer.write(key, value)
            })?;
        }
        writer.finish()
    }
}

impl Output for LimitedOutput {
    fn check(&self) -> Result<(), TaskError> {
        self.inner.check()
    }

    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(LimitedWriter {
            rows: (self.partitions).open(partition, StagingWriter::create_unsorted)?,
            left: self.rows_max,
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.pass_on()?;
        self.inner.commit()
    }

    fn abort(&self) {
        drop(self.partitions.take());
        self.inner.abort();
    }
}

struct LimitedWriter {
    rows: PartitionWriter,
    left: u64,
}

impl OutputWriter for LimitedWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        self.rows.write(key, value)
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        Box::new(self.rows).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scheduler::runtime::VecOutput;

    #[test]
    fn the_first_rows_in_the_order_of_partitions_are_passed_on_as_they_were_written() {
        for (rows_max, expected) in [(0, ""), (2, "b a"), (4, "b a a d"), (9, "b a a d c")] {
            let dir = tempfile::tempdir().unwrap();
            let inner = VecOutput::new();
            let output = LimitedOutput::new(Arc::new(inner.clone()), rows_max, dir.path());
            for (partition, keys) in [(1, "a d c"), (0, "b a"), (2, "")] {
                let mut writer = output.open(partition, 1).unwrap();
                for key in keys.split_whitespace() {
                    writer.write(key.as_bytes(), b"v").unwrap();
                }
                writer.finish().unwrap();
            }
            assert_eq!(inner.rows(), None);
            output.commit().unwrap();
            let rows = inner.rows().unwrap().into_iter();
            let keys: Vec<_> = rows
                .map(|(key, _)| String::from_utf8(key).unwrap())
                .collect();
            assert_eq!(keys.join(" "), expected);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_abort_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inner = VecOutput::new();
        let output = LimitedOutput::new(Arc::new(inner.clone()), 5, dir.path());
        let mut writer = output.open(0, 1).unwrap();
        writer.write(b"k", b"v").unwrap();
        writer.finish().unwrap();
        output.abort();
        assert!(output.partitions.take().is_empty());
        assert_eq!(inner.rows(), None);
    }
}
