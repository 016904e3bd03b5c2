//! The output of a job into a table: all rows are there once the job has succeeded, or none.

use std::path::Path;

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};
use ebb_storage::{Db, Error, ErrorKind, Keyspace, SortedWriter, Table, TableOptions};

use super::partitions::Partitions;
use super::spill_place::SpillPlace;
use super::staging::{StagingWriter, merge};
use crate::history::CommitRecord;

/// The size in bytes of the rows that a task holds in memory, to sort them before they are written
/// to a temporary file.
const SORT_BYTES: usize = 4 << 20;

/// The output of a job into a table, which has the job's rows once the job has succeeded.
///
/// Finished partitions wait in temporary files. The commit merges them into files in the store's
/// format, which the table ingests. So the rows appear at once, and survive a crash completely or
/// not at all, however many there are; other writes do not wait for them. The commit creates the
/// table if it is absent. A table that has rows at the submission is an error, because the results
/// of two jobs would be mixed.
///
/// The rows go only into the table that had the name when this output was created, or into one that
/// the commit creates. The commit fails if another table has the name by then: it may belong to
/// another user.
///
/// If several rows have the same key, the table gets only the last of them: the one of the later
/// partition, or the one written later.
#[derive(Debug)]
pub struct TableOutput {
    db: Db,
    keyspace: Keyspace,
    table: String,
    partitions: Partitions,
    sort_bytes: usize,
    /// The record of the job. It has the number of the table, unless the commit is still to create
    /// the table.
    commits: CommitRecord,
}

impl TableOutput {
    /// Creates an output into the table `table` in `keyspace` of `db`. Until the commit, the rows
    /// are in files in `place`, where they stay if the process is killed. If `place` is in the file
    /// system of the store, the commit does not copy the sorted files.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(
        db: Db,
        keyspace: Keyspace,
        table: impl Into<String>,
        place: impl Into<SpillPlace>,
    ) -> Result<Self, TaskError> {
        let output = Self {
            db,
            keyspace,
            table: table.into(),
            partitions: Partitions::new(place),
            sort_bytes: SORT_BYTES,
            commits: CommitRecord::default(),
        };
        if let Some(table) = output.existing()? {
            output.commits.set_table(table.number());
        }
        Ok(output)
    }

    /// Sets the record of the job, and adds the number of the table to it. If the table is absent,
    /// the commit adds the number of the table that it creates.
    #[must_use]
    pub fn recorded_by(self, commits: CommitRecord) -> Self {
        if let Some(number) = self.number() {
            commits.set_table(number);
        }
        Self { commits, ..self }
    }

    /// Returns the number of the table; `None` if the commit is still to create the table.
    pub fn number(&self) -> Option<u32> {
        self.commits.table()
    }

    /// Returns whether the table exists and has rows.
    ///
    /// # Errors
    /// When another table has the name by now, or the store fails.
    pub fn has_rows(&self) -> Result<bool, TaskError> {
        let Some(table) = self.target()? else {
            return Ok(false);
        };
        match table.range::<&[u8], _>(..).next() {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => Err(TaskError::failed(error)),
        }
    }

    fn existing(&self) -> Result<Option<Table>, TaskError> {
        match self.keyspace.existing_table(&self.table) {
            Ok(table) => Ok(Some(table)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TaskError::failed(error)),
        }
    }

    /// Returns the table; `None` if the commit is still to create it.
    ///
    /// # Errors
    /// When the table was dropped or created by others since this output was created.
    pub(crate) fn target(&self) -> Result<Option<Table>, TaskError> {
        let found = self.existing()?;
        if found.as_ref().map(Table::number) == self.number() {
            Ok(found)
        } else {
            Err(self.replaced())
        }
    }

    /// Creates the table.
    fn create(&self) -> Result<Table, TaskError> {
        let created = (self.keyspace).create_table(&self.table, TableOptions::default());
        let table = created.map_err(|error| self.failed(error, ErrorKind::AlreadyExists))?;
        // Before the rows are there. If the process ends now, permissions on the name of the table
        // count for the unfinished job only if its record has this number.
        self.commits.set_table(table.number());
        self.commits.begin(None)?;
        Ok(table)
    }

    /// Returns the error of the job for an error of the store. An error of kind `replaced` means
    /// that the table was replaced.
    fn failed(&self, error: Error, replaced: ErrorKind) -> TaskError {
        if error.kind() == replaced {
            self.replaced()
        } else {
            TaskError::failed(error)
        }
    }

    /// Returns the error that the table with the name is not the one that the job started with.
    fn replaced(&self) -> TaskError {
        TaskError::failed(format!(
            "table {}.{} was replaced: it was dropped or created while the job ran",
            self.keyspace.name(),
            self.table
        ))
    }
}

impl Output for TableOutput {
    fn check(&self) -> Result<(), TaskError> {
        if self.has_rows()? {
            return Err(TaskError::failed(format!(
                "table {}.{} has rows already; choose another name",
                self.keyspace.name(),
                self.table
            )));
        }
        Ok(())
    }

    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let create = |directory: &Path| StagingWriter::create(directory, self.sort_bytes);
        Ok(Box::new(self.partitions.open(partition, create)?))
    }

    fn commit(&self) -> Result<(), TaskError> {
        let table = match self.target()? {
            Some(table) => table,
            None => self.create()?,
        };
        let staged = self.partitions.take();
        if staged.is_empty() {
            return Ok(());
        }
        let files = self.partitions.temporary_directory()?;
        let writer = SortedWriter::create(files.path(), "rows", self.db.sorted_writer_options());
        let mut writer = writer.map_err(TaskError::failed)?;
        let place = self.partitions.place();
        let mut grant = place.grant();
        merge(place, staged, |key, value| {
            grant.take(files.path(), (key.len() + value.len()) as u64)?;
            writer.put(key, value).map_err(TaskError::failed)
        })?;
        let sorted = writer.finish().map_err(TaskError::failed)?;
        if sorted.is_empty() {
            return Ok(());
        }
        // The table may have been dropped since the commit began.
        let ingested = table.ingest(&sorted);
        ingested.map_err(|error| self.failed(error, ErrorKind::NotFound))?;
        self.db.sync().map_err(TaskError::failed)
    }

    fn abort(&self) {
        drop(self.partitions.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::request::{ApplicationRequest, JobRequest, OutputPlace, WordcountRequest};
    use ebb_storage::Options;

    struct Fixture {
        dir: tempfile::TempDir,
        output: TableOutput,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let output = TableOutput::new(db, keyspace, "out", &dir.path().join("staging"));
        let output = output.unwrap();
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

        /// Returns a later output into the same table.
        fn output_again(&self) -> TableOutput {
            let TableOutput { db, keyspace, .. } = &self.output;
            let place = self.dir.path().join("staging");
            TableOutput::new(db.clone(), keyspace.clone(), "out", &place).unwrap()
        }

        fn create(&self) -> Table {
            let created = (self.output.keyspace).create_table("out", TableOptions::default());
            created.unwrap()
        }

        fn drop_table(&self) {
            self.output.keyspace.drop_table("out").unwrap();
        }

        /// Checks that a commit of a row fails because the table was replaced.
        fn refuses_commit(&self) {
            self.write(0, &[("a", "1")]);
            let error = self.output.commit().unwrap_err().to_string();
            assert!(error.starts_with("table k.out was replaced"), "{error}");
            let error = self.output.check().unwrap_err().to_string();
            assert!(error.starts_with("table k.out was replaced"), "{error}");
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
        assert!(fixture.output.partitions.take().is_empty());
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
    fn rows_in_any_order_appear_by_one_commit() {
        let mut fixture = fixture();
        fixture.output.sort_bytes = 100;
        let row = |i: u32| (format!("{:04}", i * 7919 % 1000), i.to_string());
        for (partition, rows) in (0..).zip([0..600, 300..1000]) {
            let rows: Vec<_> = rows.map(row).collect();
            let rows: Vec<_> = rows.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            fixture.write(partition, &rows);
        }
        let before = fixture.output.db.view().seq().0;
        fixture.output.commit().unwrap();
        assert_eq!(fixture.output.db.view().seq().0, before + 1);
        let mut expected: Vec<_> = (0..1000).map(row).collect();
        expected.sort();
        assert_eq!(fixture.rows(), Some(expected));
        assert_eq!(fixture.staging_files(), 0);
    }

    #[test]
    fn a_job_without_rows_makes_an_empty_table() {
        let fixture = fixture();
        fixture.write(0, &[]);
        fixture.output.commit().unwrap();
        assert_eq!(fixture.rows(), Some(Vec::new()));
        assert_eq!(fixture.staging_files(), 0);
    }

    /// Regression: the table was looked up by name at the commit, so the rows went into a table of
    /// another user.
    #[test]
    fn a_table_that_is_dropped_and_created_again_gets_no_rows() {
        let mut fixture = fixture();
        let first = fixture.create();
        fixture.output = fixture.output_again();
        assert_eq!(fixture.output.number(), Some(first.number()));
        fixture.output.check().unwrap();
        fixture.drop_table();
        fixture.create();
        fixture.refuses_commit();
        assert_eq!(fixture.rows(), Some(Vec::new()));
    }

    #[test]
    fn a_table_that_is_created_by_others_meanwhile_gets_no_rows() {
        let fixture = fixture();
        fixture.output.check().unwrap();
        fixture.create();
        fixture.refuses_commit();
        assert_eq!(fixture.rows(), Some(Vec::new()));
        // Nor does one that is created between the look-up of the commit and its creation.
        let error = fixture.output.create().unwrap_err().to_string();
        assert!(error.starts_with("table k.out was replaced"), "{error}");
    }

    #[test]
    fn a_table_that_is_dropped_meanwhile_is_not_created_again() {
        let mut fixture = fixture();
        fixture.create();
        fixture.output = fixture.output_again();
        fixture.drop_table();
        fixture.refuses_commit();
        assert_eq!(fixture.rows(), None);
    }

    #[test]
    fn a_commit_that_is_repeated_writes_the_table_that_it_created() {
        let fixture = fixture();
        fixture.output.create().unwrap();
        fixture.write(0, &[("a", "1")]);
        fixture.output.commit().unwrap();
        assert_eq!(fixture.rows(), Some(pairs(&[("a", "1")])));
    }

    #[test]
    fn a_commit_that_creates_the_table_records_its_number() {
        let mut fixture = fixture();
        let history = History::open(&fixture.output.db).unwrap();
        let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
        let to = OutputPlace::Table("k.out".parse().unwrap());
        let request = JobRequest::new(application, Vec::new(), to.into(), "/d");
        let job = history.begin(&request, Vec::new(), None).unwrap();
        let commits = CommitRecord::default();
        commits.set(&history, &job);
        fixture.output = fixture.output.recorded_by(commits);
        fixture.write(0, &[("a", "1")]);
        fixture.output.commit().unwrap();
        let table = fixture.output.existing().unwrap().unwrap();
        let record = history.job(&job.id).unwrap().unwrap();
        assert!(record.commits);
        assert_eq!(record.tables.output, Some(table.number()));
    }
}
