//! The columns that occurred in any record: a name that no record has is misspelt.
//!
//! JSON has no header with the names of its columns. So the job checks the names at the
//! end, before its output is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError, TaskNotes};

use crate::records::{Fields, InvalidInput};

/// The columns of a job, and whether each occurred in a record so far. Shared by the tasks
/// of a process. As [`TaskNotes`] there is one byte for each flag, 0 or 1, the flag for any
/// record first.
#[derive(Debug)]
pub(super) struct SeenColumns {
    columns: Vec<(String, AtomicBool)>,
    any_record: AtomicBool,
}

impl SeenColumns {
    pub(super) fn new(names: &[String]) -> Self {
        let column = |name: &String| (name.clone(), AtomicBool::new(false));
        Self {
            columns: names.iter().map(column).collect(),
            any_record: AtomicBool::new(false),
        }
    }

    /// Marks the columns of a record with these fields, in the order of the columns.
    pub(super) fn record(&self, fields: &Fields) {
        set(&self.any_record);
        for (at, (_, seen)) in self.columns.iter().enumerate() {
            if fields.has(at) {
                set(seen);
            }
        }
    }

    fn flags(&self) -> impl Iterator<Item = &AtomicBool> {
        let columns = self.columns.iter().map(|(_, seen)| seen);
        std::iter::once(&self.any_record).chain(columns)
    }

    /// # Errors
    /// When there were records, and none of them had one of the columns.
    fn check(&self) -> Result<(), InvalidInput> {
        let is_missing = |column: &&(String, AtomicBool)| !column.1.load(Ordering::Relaxed);
        match self.columns.iter().find(is_missing) {
            Some((name, _)) if self.any_record.load(Ordering::Relaxed) => Err(InvalidInput(
                format!("no record has a column {name:?}: check its spelling"),
            )),
            _ => Ok(()),
        }
    }
}

impl TaskNotes for SeenColumns {
    fn encode(&self) -> Vec<u8> {
        let flags = self.flags().map(|flag| flag.load(Ordering::Relaxed));
        flags.map(u8::from).collect()
    }

    fn add(&self, bytes: &[u8]) -> Result<(), TaskError> {
        if bytes.len() != 1 + self.columns.len() || bytes.iter().any(|&byte| byte > 1) {
            let text = "notes on columns that are not those of this job";
            return Err(TaskError::failed(text));
        }
        let noted = self.flags().zip(bytes).filter(|&(_, &byte)| byte == 1);
        noted.for_each(|(flag, _)| set(flag));
        Ok(())
    }
}

/// Stores only once, because tasks of all cores share the flag.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

/// An output that is committed only if each of the columns occurred.
pub(super) struct SeenOutput {
    pub(super) inner: Arc<dyn Output>,
    pub(super) seen: Arc<SeenColumns>,
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
        set(&one.any_record);
        set(&one.columns[0].1);
        set(&two.any_record);
        set(&two.columns[1].1);
        here.add(&one.encode()).unwrap();
        assert!(here.check().unwrap_err().to_string().contains("\"b\""));
        for bytes in [&[][..], &[1, 1], &[1, 1, 1, 1], &[1, 1, 2]] {
            assert!(here.add(bytes).is_err(), "{bytes:?}");
        }
        assert!(here.check().is_err(), "refused notes change nothing");
        here.add(&two.encode()).unwrap();
        here.add(&one.encode()).unwrap();
        assert!(here.check().is_ok());
    }
}
