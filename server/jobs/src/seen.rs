//! The columns that occurred in any record: a name that no record has is misspelt.
//!
//! JSON, and CSV without names, have no list of their columns. So the applications that read columns by
//! their names check them at the end, before the output is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_scheduler::runtime::{JobSpec, Output, OutputWriter, TaskError, TaskNotes};

use super::records::{Fields, InvalidInput};

/// The columns of a job, and whether each occurred in a record so far. Shared by the tasks
/// of a process. As [`TaskNotes`] there are two bytes for each column, one for each flag, 0 or 1.
#[derive(Debug)]
pub(super) struct SeenColumns {
    columns: Vec<SeenColumn>,
}

#[derive(Debug)]
struct SeenColumn {
    name: String,
    /// The records in which the column is looked for, in words.
    records: &'static str,
    was_looked_for: AtomicBool,
    occurred: AtomicBool,
}

impl SeenColumn {
    fn new(name: &str, records: &'static str) -> Self {
        Self {
            name: name.to_string(),
            records,
            was_looked_for: AtomicBool::new(false),
            occurred: AtomicBool::new(false),
        }
    }

    fn is_missing(&self) -> bool {
        self.was_looked_for.load(Ordering::Relaxed) && !self.occurred.load(Ordering::Relaxed)
    }
}

impl SeenColumns {
    /// Creates the notes of one job on columns of its records.
    pub(super) fn new(names: &[String]) -> Arc<Self> {
        let column = |name: &String| SeenColumn::new(name, "record");
        Arc::new(Self {
            columns: names.iter().map(column).collect(),
        })
    }

    /// Creates the notes of a job that joins, on a column of each side: the left one is 0.
    pub(super) fn of_sides(left: &str, right: &str) -> Arc<Self> {
        Arc::new(Self {
            columns: vec![
                SeenColumn::new(left, "record on the left side"),
                SeenColumn::new(right, "record on the right side"),
            ],
        })
    }

    /// Marks the columns of a record with these fields, in the order of the columns.
    pub(super) fn record(&self, fields: &Fields) {
        for at in 0..self.columns.len() {
            self.record_one(at, fields.has(at));
        }
    }

    /// Marks the column `at` after a record in which it was looked for.
    pub(super) fn record_one(&self, at: usize, is_there: bool) {
        let column = &self.columns[at];
        set(&column.was_looked_for);
        if is_there {
            set(&column.occurred);
        }
    }

    /// Returns whether each column occurred in this process, so that no further record has to be read
    /// for these notes.
    pub(super) fn have_all_occurred(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.all(|column| column.occurred.load(Ordering::Relaxed))
    }

    /// Returns the job of these notes: its output is committed only if each of the columns
    /// occurred. A column that was looked for in no record is not required.
    pub(super) fn required(self: Arc<Self>, spec: JobSpec) -> JobSpec {
        let output = SeenOutput {
            inner: Arc::clone(&spec.output),
            seen: Arc::clone(&self),
        };
        JobSpec {
            output: Arc::new(output),
            notes: Some(self),
            ..spec
        }
    }

    fn flags(&self) -> impl Iterator<Item = &AtomicBool> {
        let columns = self.columns.iter();
        columns.flat_map(|column| [&column.was_looked_for, &column.occurred])
    }

    /// # Errors
    /// When there were records, and none of them had one of the columns.
    fn check(&self) -> Result<(), InvalidInput> {
        match self.columns.iter().find(|column| column.is_missing()) {
            Some(SeenColumn { name, records, .. }) => Err(InvalidInput(format!(
                "no {records} has a column {name:?}: check its spelling"
            ))),
            None => Ok(()),
        }
    }
}

impl TaskNotes for SeenColumns {
    fn encode(&self) -> Vec<u8> {
        let flags = self.flags().map(|flag| flag.load(Ordering::Relaxed));
        flags.map(u8::from).collect()
    }

    fn add(&self, bytes: &[u8]) -> Result<(), TaskError> {
        if bytes.len() != 2 * self.columns.len() || bytes.iter().any(|&byte| byte > 1) {
            let text = "notes on columns that are not those of this job";
            return Err(TaskError::failed(text));
        }
        let noted = self.flags().zip(bytes).filter(|&(_, &byte)| byte == 1);
        noted.for_each(|(flag, _)| set(flag));
        Ok(())
    }
}

/// Sets a flag. Stores only once, because tasks of all cores share the flag.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

/// An output that is committed only if each of the columns occurred.
struct SeenOutput {
    inner: Arc<dyn Output>,
    seen: Arc<SeenColumns>,
}

impl Output for SeenOutput {
    fn check(&self) -> Result<(), TaskError> {
        self.inner.check()
    }

    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        self.inner.open(partition, attempt)
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.seen.check()?;
        self.inner.commit()
    }

    fn abort(&self) {
        self.inner.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_several_processes_add_up_and_other_bytes_are_refused() {
        let seen = || SeenColumns::new(&["a".to_string(), "b".to_string()]);
        let (here, one, two) = (seen(), seen(), seen());
        assert!(here.check().is_ok(), "there was no record");
        for (process, has) in [(&one, [true, false]), (&two, [false, true])] {
            process.record_one(0, has[0]);
            process.record_one(1, has[1]);
        }
        here.add(&one.encode()).unwrap();
        assert!(here.check().unwrap_err().to_string().contains("\"b\""));
        for bytes in [&[][..], &[1, 1, 1], &[1, 1, 1, 1, 1], &[1, 1, 1, 2]] {
            assert!(here.add(bytes).is_err(), "{bytes:?}");
        }
        assert!(here.check().is_err(), "refused notes change nothing");
        here.add(&two.encode()).unwrap();
        here.add(&one.encode()).unwrap();
        assert!(here.check().is_ok());
    }

    #[test]
    fn a_column_of_one_side_may_be_missing_on_the_other_side_and_in_a_side_without_rows() {
        let seen = SeenColumns::of_sides("id", "id");
        seen.record_one(0, true);
        assert!(seen.check().is_ok(), "the right side has no rows");
        seen.record_one(1, false);
        let error = seen.check().unwrap_err().to_string();
        assert!(error.contains("on the right side"), "{error}");
        seen.record_one(1, true);
        assert!(seen.check().is_ok());
    }
}
