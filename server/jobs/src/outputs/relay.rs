//! Rows that one job of a chain passes to the next one, in files that the next job's processes can
//! open.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_scheduler::runtime::{Input, Output, OutputWriter, RecordSink, Split, TaskError};

use super::partitions::Partitions;
use super::spill_place::SpillPlace;
use super::staging::{RowsDescription, StagedRows, StagingWriter};

/// The size in bytes of the rows that a task holds in memory, to sort them before they are written
/// to a file.
const SORT_BYTES: usize = 1 << 20;

/// The output of one job, which is the input of another job once the first one has succeeded. Each
/// partition is a split. Its rows are in the order of keys if the first job wrote them in that
/// order. Clones share the rows, which are deleted when the last clone is dropped. A split contains
/// the path of the file with its rows, so that any relay can read a split of any other relay that
/// still exists.
#[derive(Debug, Clone)]
pub struct Relay {
    partitions: Partitions,
    committed: Arc<Mutex<Option<Vec<StagedRows>>>>,
}

impl Relay {
    /// Creates a relay without rows. The files of the rows will be in `place`.
    pub fn new(place: impl Into<SpillPlace>) -> Self {
        Self {
            partitions: Partitions::new(place),
            committed: Arc::default(),
        }
    }

    fn committed(&self) -> MutexGuard<'_, Option<Vec<StagedRows>>> {
        let committed = self.committed.lock();
        committed.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output for Relay {
    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let create = |directory: &Path| StagingWriter::create(directory, SORT_BYTES);
        Ok(Box::new(self.partitions.open(partition, create)?))
    }

    fn commit(&self) -> Result<(), TaskError> {
        *self.committed() = Some(self.partitions.take());
        Ok(())
    }

    fn abort(&self) {
        drop(self.partitions.take());
    }
}

impl Input for Relay {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let rows = self.committed().clone();
        let rows = rows.ok_or_else(|| TaskError::failed("the job before has not left its rows"))?;
        let split = |(index, rows): (u32, StagedRows)| {
            let description = postcard::to_stdvec(&rows.description());
            Ok(Split {
                index,
                bytes: rows.bytes(),
                payload: description.map_err(TaskError::failed)?,
                ..Split::default()
            })
        };
        (0..).zip(rows).map(split).collect()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let description: RowsDescription = postcard::from_bytes(&split.payload)
            .map_err(|e| TaskError::failed(format!("a split of another input: {e}")))?;
        description.for_each(record)
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
        // A relay in another process has nothing but the splits.
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
