//! Rows that one job of a chain leaves for the next, in files without a name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ebb_scheduler::runtime::{Input, Output, OutputWriter, RecordSink, Split, TaskError};

use super::staging::{StagedRows, StagingWriter};

/// How much of the rows of a partition is sorted at a time.
const SORT_BYTES: usize = 1 << 20;

/// The output of one job, once that has succeeded, as the input of another: a
/// split per partition, each in the order of its keys where the first job wrote it
/// so. Clones share the rows; they go with the last one, or with the process.
#[derive(Debug, Clone)]
pub struct Relay {
    directory: PathBuf,
    rows: Arc<Mutex<Rows>>,
}

#[derive(Debug, Default)]
struct Rows {
    staged: BTreeMap<u32, StagedRows>,
    committed: Option<Vec<StagedRows>>,
}

impl Relay {
    /// Without rows. They are kept in `directory`, created when absent.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            rows: Arc::default(),
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Rows) -> T) -> T {
        f(&mut self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn partition(&self, index: u32) -> Result<StagedRows, TaskError> {
        let rows = self.with(|rows| rows.committed.as_ref()?.get(index as usize).cloned());
        rows.ok_or_else(|| TaskError::failed("the job before has not left its rows"))
    }
}

impl Output for Relay {
    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let staging = std::fs::create_dir_all(&self.directory)
            .and_then(|()| StagingWriter::create(&self.directory, SORT_BYTES));
        let staging = staging.map_err(TaskError::io(format!(
            "creating a temporary file in {}",
            self.directory.display()
        )))?;
        Ok(Box::new(RelayWriter {
            relay: self.clone(),
            partition,
            staging,
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.with(|rows| {
            let staged = std::mem::take(&mut rows.staged);
            rows.committed = Some(staged.into_values().collect());
        });
        Ok(())
    }

    fn abort(&self) {
        self.with(|rows| rows.staged.clear());
    }
}

impl Input for Relay {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let bytes = |rows: &Rows| {
            let committed = rows.committed.as_ref()?.iter();
            Some(committed.map(StagedRows::bytes).collect::<Vec<u64>>())
        };
        let bytes = self.with(|rows| bytes(rows));
        let bytes =
            bytes.ok_or_else(|| TaskError::failed("the job before has not left its rows"))?;
        let split = |(index, bytes)| Split {
            index,
            bytes,
            ..Split::default()
        };
        Ok((0..).zip(bytes).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.partition(split.index)?.for_each(record)
    }
}

struct RelayWriter {
    relay: Relay,
    partition: u32,
    staging: StagingWriter,
}

impl OutputWriter for RelayWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let written = self.staging.push(key, value);
        written.map_err(TaskError::io("writing a row to a temporary file"))
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let rows = self.staging.finish();
        let rows = rows.map_err(TaskError::io("writing rows to a temporary file"))?;
        self.relay
            .with(|shared| shared.staged.insert(self.partition, rows));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_job_reads_what_the_last_one_committed() {
        let dir = tempfile::tempdir().unwrap();
        let relay = Relay::new(dir.path());
        assert!(relay.splits().is_err());
        for (partition, keys) in [(1, ["c", "d"]), (0, ["a", "b"])] {
            let mut writer = relay.open(partition, 1).unwrap();
            for key in keys {
                writer.write(key.as_bytes(), b"v").unwrap();
            }
            writer.finish().unwrap();
        }
        assert!(relay.splits().is_err());
        relay.commit().unwrap();
        let splits = relay.splits().unwrap();
        assert_eq!(splits.len(), 2);
        let mut read = String::new();
        for split in &splits {
            assert!(split.bytes > 0);
            let mut record = |key: &[u8], value: &[u8]| {
                read += &format!("{}{}", key.escape_ascii(), value.escape_ascii());
                Ok(())
            };
            relay.read(split, &mut record).unwrap();
        }
        assert_eq!(read, "avbvcvdv");
        drop(relay);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
