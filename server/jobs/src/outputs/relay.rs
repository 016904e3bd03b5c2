//! Rows that one job of a chain leaves for the next, in files that its processes can open.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ebb_scheduler::runtime::{Input, Output, OutputWriter, RecordSink, Split, TaskError};

use super::staging::{StagedRows, StagingWriter, ToldRows};

/// How much of the rows of a partition is sorted at a time.
const SORT_BYTES: usize = 1 << 20;

/// The output of one job, once that has succeeded, as the input of another: a
/// split per partition, each in the order of its keys where the first job wrote it
/// so. Clones share the rows, which go with the last one. A split tells where its rows are,
/// so that any relay reads those of any other that still has them.
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
}

impl Output for Relay {
    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let staging = std::fs::create_dir_all(&self.directory)
            .and_then(|()| StagingWriter::create_named(&self.directory, SORT_BYTES));
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
        let rows = self.with(|rows| rows.committed.clone());
        let rows = rows.ok_or_else(|| TaskError::failed("the job before has not left its rows"))?;
        let split = |(index, rows): (u32, StagedRows)| {
            let told = rows.told().expect("a file with a name was created");
            Ok(Split {
                index,
                bytes: rows.bytes(),
                payload: postcard::to_stdvec(&told).map_err(TaskError::failed)?,
                ..Split::default()
            })
        };
        (0..).zip(rows).map(split).collect()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let told: ToldRows = postcard::from_bytes(&split.payload)
            .map_err(|e| TaskError::failed(format!("a split of another input: {e}")))?;
        told.open()?.for_each(record)
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
        // As in another process, which has nothing but the splits.
        let other = Relay::new("");
        for reader in [&relay, &other] {
            let mut read = String::new();
            for split in &splits {
                assert!(split.bytes > 0);
                let mut record = |key: &[u8], value: &[u8]| {
                    read += &format!("{}{}", key.escape_ascii(), value.escape_ascii());
                    Ok(())
                };
                reader.read(split, &mut record).unwrap();
            }
            assert_eq!(read, "avbvcvdv");
        }
        drop(relay);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(other.read(&splits[0], &mut |_, _| Ok(())).is_err());
        assert!(other.read(&Split::default(), &mut |_, _| Ok(())).is_err());
    }
}
