//! Where a job's records come from.

use crate::runtime::error::TaskError;
use serde::{Deserialize, Serialize};

/// A part of the input that one map task reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Its number, from 0, in the order of [`Input::splits`].
    pub index: u32,
    /// Its size in bytes of keys and values as far as known, or 0: how far a map
    /// has come is judged by it.
    pub bytes: u64,
    /// Names of the nodes where its data lies; empty: equally near everywhere.
    pub locations: Vec<String>,
    /// Whatever the input needs to find it again.
    pub payload: Vec<u8>,
}

/// Takes the records of a split, key and value; stops the reading by an error.
pub type RecordSink<'a> = &'a mut (dyn FnMut(&[u8], &[u8]) -> Result<(), TaskError> + 'a);

/// A source of key-value records.
pub trait Input: Send + Sync {
    /// Cuts the input into splits, one map task each. Asked once, at submission.
    ///
    /// # Errors
    /// When the input cannot be found or read.
    fn splits(&self) -> Result<Vec<Split>, TaskError>;

    /// Hands every record of `split`, key and value, to `record`. Asked again
    /// for another attempt, and then has to give the same records.
    ///
    /// # Errors
    /// When reading fails, and whatever `record` returns: that has to be passed
    /// on at once.
    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError>;

    /// Hands about `records` (at least 1) of the split's records to `record`,
    /// the same ones whenever it is asked. They should come from all over the
    /// split: where the ranges of a global sort are cut follows from them.
    ///
    /// Unless an input knows better, these are the first ones. They say little
    /// about the rest of a split that is in order.
    ///
    /// # Errors
    /// As [`Input::read`].
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let mut left = records;
        let read = self.read(split, &mut |key, value| {
            record(key, value)?;
            left = left.saturating_sub(1);
            match left {
                // Any error stops the reading; this one is taken back below.
                0 => Err(TaskError::Cancelled),
                _ => Ok(()),
            }
        });
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
    /// `records` in at most `splits` parts (at least one) of equal length.
    #[must_use]
    pub fn new(records: Vec<(Vec<u8>, Vec<u8>)>, splits: usize) -> Self {
        let part = records.len().div_ceil(splits.max(1)).max(1);
        Self {
            parts: records.chunks(part).map(<[_]>::to_vec).collect(),
        }
    }

    /// The lines of `text`: the key is the line's number, the value its bytes.
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
    ) -> Result<(), TaskError> {
        let part = &self.parts[split.index as usize];
        let step = (part.len() / records.max(1)).max(1);
        (part.iter().step_by(step)).try_for_each(|(key, value)| record(key, value))
    }
}
