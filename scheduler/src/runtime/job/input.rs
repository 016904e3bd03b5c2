//! The source of a job's records.

use crate::runtime::error::TaskError;
use serde::{Deserialize, Serialize};

/// A part of the input that one map task reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The split's number, from 0, in the order of [`Input::splits`].
    pub index: u32,
    /// Size in bytes of keys and values, or 0 if it is unknown. The progress of a map is a fraction of
    /// this size.
    pub bytes: u64,
    /// Names of the nodes that hold the split's data; empty if it is equally near everywhere. The
    /// runtime, which has only one node, does not use them.
    pub locations: Vec<String>,
    /// The input's own description of the split, opaque to the runtime.
    pub payload: Vec<u8>,
}

/// A callback for the key and value of each record of a split. Its error stops the reading.
pub type RecordSink<'a> = &'a mut (dyn FnMut(&[u8], &[u8]) -> Result<(), TaskError> + 'a);

/// A callback for long work without a record. An input calls it now and then while it reads and
/// finds no record; an output writer calls it while it works on one row for long. In this call the
/// runtime paces the task, and notices that the task makes progress. An error of the callback stops
/// the reading or the writing.
pub type Checkpoint<'a> = &'a (dyn Fn() -> Result<(), TaskError> + 'a);

/// A source of key-value records.
pub trait Input: Send + Sync {
    /// Cuts the input into splits, one map task each. Called once: at submission, or, for a job
    /// that follows others, when they have succeeded.
    ///
    /// # Errors
    /// If the input cannot be found or read.
    fn splits(&self) -> Result<Vec<Split>, TaskError>;

    /// Passes the key and value of every record of `split` to `record`. Another attempt calls it
    /// again, and must get the same records.
    ///
    /// # Errors
    /// If reading fails, and any error of `record`, which must be returned at once.
    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError>;

    /// Reads a split as [`Input::read`] does, and calls `checkpoint` now and then while it finds no
    /// record for long, for example among many deleted rows. The runtime calls this function, and
    /// not [`Input::read`], so an input that wraps another one must forward the call.
    ///
    /// The default never calls `checkpoint`. It is for inputs that find a record at each step.
    ///
    /// # Errors
    /// As [`Input::read`], and any error of `checkpoint`.
    fn read_with_checkpoints(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let _ = checkpoint;
        self.read(split, record)
    }

    /// Passes about `records` (at least 1) of the split's records to `record`, in each call the
    /// same ones. They should come from all over the split, because the runtime derives the ranges
    /// of a global sort from them. Calls `checkpoint` as [`Input::read_with_checkpoints`] does.
    ///
    /// The default takes the first records, which represent an ordered split badly.
    ///
    /// # Errors
    /// As [`Input::read_with_checkpoints`].
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let mut left = records;
        let mut first = |key: &[u8], value: &[u8]| {
            record(key, value)?;
            left = left.saturating_sub(1);
            match left {
                // Any error stops the reading; this one is turned into success below.
                0 => Err(TaskError::Cancelled),
                _ => Ok(()),
            }
        };
        let read = self.read_with_checkpoints(split, &mut first, checkpoint);
        match read {
            Err(TaskError::Cancelled) if left == 0 => Ok(()),
            read => read,
        }
    }
}

/// Records held in memory, cut into a given number of splits.
#[derive(Clone, Debug)]
pub struct VecInput {
    parts: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl VecInput {
    /// Cuts `records` into at most `splits` splits of equal length; only the last may be shorter. 0
    /// `splits` count as 1. No records give no split.
    #[must_use]
    pub fn new(records: Vec<(Vec<u8>, Vec<u8>)>, splits: usize) -> Self {
        let part = records.len().div_ceil(splits.max(1)).max(1);
        Self {
            parts: records.chunks(part).map(<[_]>::to_vec).collect(),
        }
    }

    /// Makes one record of each line of `text`: the key is the line's number, the value its bytes.
    #[must_use]
    pub fn lines(text: &str, splits: usize) -> Self {
        let numbered = text.lines().enumerate();
        Self::new(
            numbered
                .map(|(n, line)| (n.to_string().into_bytes(), line.as_bytes().to_vec()))
                .collect(),
            splits,
        )
    }
}

impl Input for VecInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        Ok((0..)
            .zip(&self.parts)
            .map(|(index, part)| Split {
                index,
                bytes: part
                    .iter()
                    .map(|(key, value)| (key.len() + value.len()) as u64)
                    .sum(),
                ..Split::default()
            })
            .collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.parts[split.index as usize]
            .iter()
            .try_for_each(|(key, value)| record(key, value))
    }

    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
        _checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let part = &self.parts[split.index as usize];
        let step = (part.len() / records.max(1)).max(1);
        (part.iter().step_by(step)).try_for_each(|(key, value)| record(key, value))
    }
}
