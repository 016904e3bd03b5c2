//! A job's rows into a table: all of them once it succeeded, or none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};
use ebb_storage::{Db, ErrorKind, Keyspace, Table, TableOptions, WriteBatch, WriteOptions};

use super::staging::{StagedRows, StagingWriter};

/// The most that a job can write into a table, in bytes of keys and values plus
/// 16 per row: what fits into one batch of the store, 1 GiB.
pub const TABLE_OUTPUT_BYTES_MAX: u64 = 1 << 30;

/// What a row costs in a batch beside its key and value, at most: kind, table
/// and two lengths.
const ROW_BYTES: u64 = 16;

/// A table that has the job's rows when the job has succeeded.
///
/// Finished partitions wait in temporary files; the commit writes all of them
/// in one batch, so that the rows appear at once and survive a crash whole or
/// not at all. The table is created by the commit when it is absent. One that
/// has rows is refused: the result of two jobs would be mixed.
///
/// Of several rows with the same key the last one counts: by partition, then in
/// the order written.
#[derive(Debug)]
pub struct TableOutput {
    db: Db,
    keyspace: Keyspace,
    table: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    bytes_max: u64,
    staged: Mutex<BTreeMap<u32, Staged>>,
}

#[derive(Debug)]
struct Staged {
    rows: StagedRows,
    bytes: u64,
}

impl Shared {
    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<u32, Staged>) -> T) -> T {
        f(&mut self.staged.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TableOutput {
    /// Writes to the table called `table` in `keyspace`, which is of `db`; rows
    /// wait in `directory`, created when absent.
    pub fn new(
        db: Db,
        keyspace: Keyspace,
        table: impl Into<String>,
        directory: impl Into<PathBuf>,
    ) -> Self {
        Self {
            db,
            keyspace,
            table: table.into(),
            shared: Arc::new(Shared {
                directory: directory.into(),
                bytes_max: TABLE_OUTPUT_BYTES_MAX,
                staged: Mutex::default(),
            }),
        }
    }

    fn existing(&self) -> Result<Option<Table>, TaskError> {
        match self.keyspace.existing_table(&self.table) {
            Ok(table) => Ok(Some(table)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TaskError::failed(error)),
        }
    }
}

impl Output for TableOutput {
    fn check(&self) -> Result<(), TaskError> {
        let Some(table) = self.existing()? else {
            return Ok(());
        };
        match table.range::<&[u8], _>(..).next() {
            None => Ok(()),
            Some(Ok(_)) => Err(TaskError::failed(format!(
                "table {}.{} has rows already; choose another name",
                self.keyspace.name(),
                self.table
            ))),
            Some(Err(error)) => Err(TaskError::failed(error)),
        }
    }

    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let directory = &self.shared.directory;
        let staging = std::fs::create_dir_all(directory)
            .and_then(|()| StagingWriter::create(directory))
            .map_err(TaskError::io(format!(
                "creating a temporary file in {}",
                directory.display()
            )))?;
        Ok(Box::new(TableWriter {
            shared: self.shared.clone(),
            partition,
            staged_bytes: self
                .shared
                .with(|staged| staged.values().map(|staged| staged.bytes).sum()),
            staging,
            bytes: 0,
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        let table = match self.existing()? {
            Some(table) => table,
            None => self
                .keyspace
                .table(&self.table, TableOptions::default())
                .map_err(TaskError::failed)?,
        };
        let staged = self.shared.with(std::mem::take);
        let mut batch = WriteBatch::new();
        for partition in staged.into_values() {
            partition
                .rows
                .for_each(|key, value| batch.put(&table, key, value))
                .map_err(TaskError::io("reading the rows that wait for the commit"))?;
        }
        self.db
            .write_with(batch, WriteOptions { sync: true })
            .map_err(TaskError::failed)
    }

    fn abort(&self) {
        // Dropping a file without a name frees it.
        self.shared.with(BTreeMap::clear);
    }
}

struct TableWriter {
    shared: Arc<Shared>,
    partition: u32,
    /// Of the partitions that had finished when this one began.
    staged_bytes: u64,
    staging: StagingWriter,
    bytes: u64,
}

impl OutputWriter for TableWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.bytes += (key.len() + value.len()) as u64 + ROW_BYTES;
        if self.staged_bytes + self.bytes > self.shared.bytes_max {
            return Err(TaskError::failed(format!(
                "the rows come to more than {} bytes, the most that a table takes at once; write them to a file",
                self.shared.bytes_max
            )));
        }
        self.staging
            .push(key, value)
            .map_err(TaskError::io("writing a row to a temporary file"))
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let rows = self.staging.finish();
        let staged = Staged {
            rows: rows.map_err(TaskError::io("writing rows to a temporary file"))?,
            bytes: self.bytes,
        };
        self.shared.with(|all| all.insert(self.partition, staged));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_storage::Options;

    struct Fixture {
        dir: tempfile::TempDir,
        output: TableOutput,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let output = TableOutput::new(db, keyspace, "out", dir.path().join("staging"));
        Fixture { dir, output }
    }

    impl Fixture {
        fn write(&self, partition: u32, rows: &[(&str, &str)]) {
            let mut writer = self.output.open(partition, 1).unwrap();
            for (key, value) in rows {
                writer.write(key.as_bytes(), value.as_bytes()).unwrap();
            }
            writer.finish().unwrap();
        }

        fn rows(&self) -> Option<Vec<(String, String)>> {
            let table = self.output.existing().unwrap()?;
            let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            let row = |row: ebb_storage::Result<ebb_storage::Entry>| {
                row.map(|(key, value)| (text(key), text(value))).unwrap()
            };
            Some(table.range::<&[u8], _>(..).map(row).collect())
        }

        fn staging_files(&self) -> usize {
            std::fs::read_dir(self.dir.path().join("staging")).map_or(0, Iterator::count)
        }
    }

    fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        rows.iter().map(pair).collect()
    }

    #[test]
    fn rows_of_all_partitions_appear_with_the_commit_and_not_before() {
        let fixture = fixture();
        fixture.output.check().unwrap();
        fixture.write(1, &[("b", "late"), ("c", "")]);
        fixture.write(0, &[("a", "1"), ("b", "early")]);
        assert_eq!(fixture.rows(), None);
        fixture.output.commit().unwrap();
        let expected = pairs(&[("a", "1"), ("b", "late"), ("c", "")]);
        assert_eq!(fixture.rows(), Some(expected));
        assert_eq!(fixture.staging_files(), 0);
    }

    #[test]
    fn an_abort_leaves_nothing() {
        let fixture = fixture();
        fixture.write(0, &[("a", "1")]);
        drop(fixture.output.open(1, 1).unwrap());
        fixture.output.abort();
        assert_eq!(fixture.rows(), None);
        assert_eq!(fixture.staging_files(), 0);
        assert!(fixture.output.shared.with(|staged| staged.is_empty()));
    }

    #[test]
    fn only_the_attempt_that_finished_counts() {
        let fixture = fixture();
        let mut failed = fixture.output.open(0, 1).unwrap();
        failed.write(b"half", b"a partition").unwrap();
        drop(failed);
        fixture.write(0, &[("whole", "one")]);
        fixture.output.commit().unwrap();
        assert_eq!(fixture.rows(), Some(pairs(&[("whole", "one")])));
    }

    #[test]
    fn a_table_with_rows_is_refused_at_submission() {
        let fixture = fixture();
        fixture.write(0, &[("a", "1")]);
        fixture.output.commit().unwrap();
        let error = fixture.output.check().unwrap_err().to_string();
        assert!(error.contains("k.out has rows"), "{error}");
    }

    #[test]
    fn more_than_a_batch_holds_is_refused_while_it_is_written() {
        let mut fixture = fixture();
        Arc::get_mut(&mut fixture.output.shared).unwrap().bytes_max = 100;
        fixture.write(0, &[("a", "0123456789")]);
        let mut writer = fixture.output.open(1, 1).unwrap();
        let error = (0..10).find_map(|_| writer.write(b"b", b"0123456789").err());
        let error = error.expect("10 rows of 27 bytes").to_string();
        assert!(error.contains("more than 100 bytes"), "{error}");
    }
}
