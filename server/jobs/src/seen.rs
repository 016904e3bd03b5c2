//! The columns that occurred in any record. A column that no record has is reported as misspelt.
//!
//! JSON, and CSV without names, have no list of their columns. So the applications that read columns by
//! their names check them at the end, before the output is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_scheduler::runtime::{JobSpec, Output, OutputWriter, TaskError, TaskNotes};

use super::records::{Fields, InvalidInput};

/// The columns that a job reads, with two flags each: whether any record was searched for the column,
/// and whether one had it. The tasks of a process share the flags. As [`TaskNotes`] they are two bytes
/// for each column, one for each flag, 0 or 1.
#[derive(Debug)]
pub(super) struct SeenColumns {
    columns: Vec<SeenColumn>,
}

#[derive(Debug)]
struct SeenColumn {
    name: String,
    /// The name of the records that should have the column, for the error: "record", or "record on the
    /// left side".
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
    /// Creates the flags for the columns with these names, all unset: for each column, whether any
    /// record of the job's input was searched for it, and whether one had it.
    pub(super) fn new(names: &[String]) -> Arc<Self> {
        let column = |name: &String| SeenColumn::new(name, "record");
        Arc::new(Self {
            columns: names.iter().map(column).collect(),
        })
    }

    /// Creates the flags of [`new`](Self::new) (whether a column occurred in any record) for the
    /// two columns by which a job joins: that of the left side (index 0) and that of the right side
    /// (index 1).
    pub(super) fn of_sides(left: &str, right: &str) -> Arc<Self> {
        Arc::new(Self {
            columns: vec![
                SeenColumn::new(left, "record on the left side"),
                SeenColumn::new(right, "record on the right side"),
            ],
        })
    }

    /// Records that a record was searched for all columns, and which of them it had. `fields` are
    /// the record's fields for these columns, in the same order.
    pub(super) fn record(&self, fields: &Fields) {
        for at in 0..self.columns.len() {
            self.record_one(at, fields.has(at));
        }
    }

    /// Records that a record was searched for the column with the index `at`; `is_there` is true if
    /// the record had it.
    pub(super) fn record_one(&self, at: usize, is_there: bool) {
        let column = &self.columns[at];
        set(&column.was_looked_for);
        if is_there {
            set(&column.occurred);
        }
    }

    /// Returns whether each of the columns has occurred in a record that this process read. If so,
    /// further records need not be searched for them.
    pub(super) fn have_all_occurred(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.all(|column| column.occurred.load(Ordering::Relaxed))
    }

    /// Returns the job `spec`, changed so that it fails before the commit of its output if one of
    /// the columns was searched for and occurred in no record. The name of such a column is
    /// probably misspelt. A column for which the job searched no record may be missing.
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

    /// Checks that each column for which records were searched occurred in one of them.
    ///
    /// # Errors
    /// When records were searched for a column, and none had it.
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

/// Sets a flag. Does not write if the flag is set already, because the tasks on all cores share it.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

/// An output that is committed only if each of the columns that the job reads occurred in a record.
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
