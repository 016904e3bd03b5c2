//! The first rows of a job, and no more, into any output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use super::staging::{StagedRows, StagingWriter};

/// Passes on the first rows of a job: those of the first partition in the order written,
/// then those of the next one.
///
/// Which rows are the first is known once all partitions are written. Until then each
/// keeps as many as are wanted, in temporary files; the commit hands over those that
/// count as one partition.
pub struct LimitedOutput {
    inner: Arc<dyn Output>,
    rows_max: u64,
    directory: PathBuf,
    staged: Arc<Mutex<BTreeMap<u32, StagedRows>>>,
}

impl LimitedOutput {
    /// The first `rows_max` rows into `inner`; they wait in `directory`, created when
    /// absent.
    pub fn new(inner: Arc<dyn Output>, rows_max: u64, directory: impl Into<PathBuf>) -> Self {
        Self {
            inner,
            rows_max,
            directory: directory.into(),
            staged: Arc::default(),
        }
    }

    fn pass_on(&self, staged: BTreeMap<u32, StagedRows>) -> Result<(), TaskError> {
        let mut writer = self.inner.open(0, 1)?;
        let mut left = self.rows_max;
        for rows in staged.into_values() {
            let wanted = left;
            rows.for_each_up_to(wanted, &mut |key, value| {
                left -= 1;
                writer.write(key, value)
            })?;
        }
        writer.finish()
    }
}

fn with<T>(
    staged: &Mutex<BTreeMap<u32, StagedRows>>,
    f: impl FnOnce(&mut BTreeMap<u32, StagedRows>) -> T,
) -> T {
    f(&mut staged.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Output for LimitedOutput {
    fn check(&self) -> Result<(), TaskError> {
        self.inner.check()
    }

    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let staging = std::fs::create_dir_all(&self.directory)
            .and_then(|()| StagingWriter::create_unsorted(&self.directory));
        let staging = staging.map_err(TaskError::io(format!(
            "creating a temporary file in {}",
            self.directory.display()
        )))?;
        Ok(Box::new(LimitedWriter {
            staged: Arc::clone(&self.staged),
            partition,
            staging,
            left: self.rows_max,
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.pass_on(with(&self.staged, std::mem::take))?;
        self.inner.commit()
    }

    fn abort(&self) {
        with(&self.staged, BTreeMap::clear);
        self.inner.abort();
    }
}

struct LimitedWriter {
    staged: Arc<Mutex<BTreeMap<u32, StagedRows>>>,
    partition: u32,
    staging: StagingWriter,
    left: u64,
}

impl OutputWriter for LimitedWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let written = self.staging.push(key, value);
        written.map_err(TaskError::io("writing a row to a temporary file"))
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let rows = self.staging.finish();
        let rows = rows.map_err(TaskError::io("writing rows to a temporary file"))?;
        with(&self.staged, |all| all.insert(self.partition, rows));
        Ok(())
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
        assert!(with(&output.staged, |staged| staged.is_empty()));
        assert_eq!(inner.rows(), None);
    }
}
