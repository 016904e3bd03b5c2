//! The output of a job: all rows appear once it has succeeded, or none.

use crate::runtime::error::TaskError;
use crate::runtime::job::input::Checkpoint;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A sink whose rows are invisible until the commit.
///
/// ```text
///   check ─> open ─> write* ─> finish ┐ per partition     ┌─> commit
///              └──> dropped unfinished┘ (failed attempt) ─┴─> abort
/// ```
///
/// Two attempts at a partition may be open at once, a slow one and a speculative one, so each must
/// write to a place of its own until it finishes. Only one of them finishes. The runtime does not
/// wait for an attempt that hangs: its writer may still be open, or be dropped, after the commit.
pub trait Output: Send + Sync {
    /// Called at submission. Fails if it is already certain that `commit` would fail.
    ///
    /// # Errors
    /// If the output can certainly not be committed.
    fn check(&self) -> Result<(), TaskError> {
        Ok(())
    }

    /// Opens a writer for an attempt (from 1) at a partition, which is the number of a reduce task,
    /// or of a map task in a job without reduces. No two attempts at a partition have the same
    /// number.
    ///
    /// # Errors
    /// If it cannot be opened; the attempt fails.
    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError>;

    /// Makes all rows of finished writers appear at once. Called once, after one attempt at every
    /// partition has finished.
    ///
    /// # Errors
    /// An error must mean that no row appeared: the job fails, and `abort` is called next.
    fn commit(&self) -> Result<(), TaskError>;

    /// Removes everything that finished writers left. Called if the job failed, also in `commit`,
    /// or was cancelled.
    fn abort(&self);
}

/// A writer for the rows of one partition. If it is dropped without `finish`, it must leave nothing
/// behind.
pub trait OutputWriter: Send {
    /// Adds a row.
    ///
    /// # Errors
    /// If writing fails; the attempt fails.
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError>;

    /// Adds a row like [`write`](Self::write). Tasks call only this method. A writer that may work on a row
    /// for long overrides it, calls `checkpoint` during the work, and returns the error of `checkpoint`.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write), and that of `checkpoint`.
    fn write_with_checkpoints(
        &mut self,
        key: &[u8],
        value: &[u8],
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let _ = checkpoint;
        self.write(key, value)
    }

    /// Seals the partition for the commit.
    ///
    /// # Errors
    /// If writing fails; the attempt fails.
    fn finish(self: Box<Self>) -> Result<(), TaskError>;
}

/// A row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

#[derive(Debug, Default)]
struct Rows {
    staged: BTreeMap<u32, Vec<Row>>,
    committed: Option<Vec<Row>>,
}

/// An output in memory. Clones share the rows, so a clone kept by the caller gives access to the
/// result.
#[derive(Clone, Debug, Default)]
pub struct VecOutput {
    rows: Arc<Mutex<Rows>>,
}

impl VecOutput {
    /// Returns an empty output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the committed rows, by partition, and within a partition in the order of their
    /// writing; `None` before the commit.
    #[must_use]
    pub fn rows(&self) -> Option<Vec<Row>> {
        self.with(|rows| rows.committed.clone())
    }

    /// Returns whether partitions are waiting for a commit or an abort.
    #[cfg(test)]
    pub(in crate::runtime) fn has_staged(&self) -> bool {
        self.with(|rows| !rows.staged.is_empty())
    }

    fn with<T>(&self, f: impl FnOnce(&mut Rows) -> T) -> T {
        f(&mut self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Output for VecOutput {
    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(VecWriter {
            output: self.clone(),
            partition,
            rows: Vec::new(),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.with(|rows| {
            let staged = std::mem::take(&mut rows.staged);
            rows.committed = Some(staged.into_values().flatten().collect());
        });
        Ok(())
    }

    fn abort(&self) {
        self.with(|rows| rows.staged.clear());
    }
}

struct VecWriter {
    output: VecOutput,
    partition: u32,
    rows: Vec<Row>,
}

impl OutputWriter for VecWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.rows.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let Self {
            output,
            partition,
            rows,
        } = *self;
        output.with(|shared| shared.staged.insert(partition, rows));
        Ok(())
    }
}
