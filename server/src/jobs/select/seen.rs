//! Which columns any record had: a name that none of them has is misspelt.
//!
//! Of JSON no header lists the columns. So the job looks at the end, before its output is
//! committed. Tasks in processes of their own are not seen: there such a job selects
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use crate::jobs::records::{Fields, InvalidInput};

/// The columns of a job, and which of them its records had so far. Shared by its tasks.
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

    /// A record with these fields, in the order of the columns.
    pub(super) fn record(&self, fields: &Fields) {
        set(&self.any_record);
        for (at, (_, seen)) in self.columns.iter().enumerate() {
            if fields.has(at) {
                set(seen);
            }
        }
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

/// Stores only once: tasks of all cores share the flag.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

/// An output that is committed only if each of the columns was seen.
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
