//! Records in order of their keys: the interface between the stages of the shuffle.

use crate::runtime::error::TaskError;
use crate::runtime::pacing::attempt::Attempt;

/// A cursor over records whose keys ascend; equal keys are neighbours.
pub(in crate::runtime) trait Sorted {
    /// Returns the record under the cursor, key and value; `None` at the end.
    fn current(&self) -> Option<(&[u8], &[u8])>;

    /// Moves to the next record. Must not be called at the end.
    fn advance(&mut self) -> Result<(), TaskError>;
}

/// The values of one key, one at a time.
pub struct Values<'a> {
    source: &'a mut (dyn Sorted + 'a),
    attempt: &'a Attempt<'a>,
    key: &'a [u8],
    /// The amount that each value read adds to the handled part of the attempt's input, in the unit
    /// of the input's size.
    units: u64,
    /// True if the cursor is on a value that was already returned.
    is_current_returned: bool,
    returned: u64,
    returned_bytes: u64,
}

impl Values<'_> {
    /// Returns the next value, valid until the next call; `None` after the last.
    ///
    /// # Errors
    /// If reading fails or the job is cancelled; return the error to the caller.
    pub fn next_value(&mut self) -> Result<Option<&[u8]>, TaskError> {
        if self.is_current_returned {
            self.source.advance()?;
            self.is_current_returned = false;
            // Counted only now: a value that takes forever makes no progress.
            self.attempt.add_handled(self.units);
        }
        match self.source.current() {
            Some((key, value)) if key == self.key => {
                self.attempt.tick(key.len() + value.len())?;
                self.is_current_returned = true;
                self.returned += 1;
                self.returned_bytes += (key.len() + value.len()) as u64;
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }
}

/// Calls `group` for each key of `source` with its values. Skips values that `group` does not read.
/// Returns the number of all records, and the bytes of their keys and values. Each record, read by
/// `group` or skipped, adds `units` to the handled part of the attempt's input, in the unit of the
/// input's size.
pub(in crate::runtime) fn for_each_group(
    source: &mut dyn Sorted,
    attempt: &Attempt<'_>,
    units: u64,
    mut group: impl FnMut(&[u8], &mut Values<'_>) -> Result<(), TaskError>,
) -> Result<(u64, u64), TaskError> {
    let (mut records, mut bytes) = (0, 0);
    let mut key = Vec::new();
    while let Some((current, _)) = source.current() {
        key.clear();
        key.extend_from_slice(current);
        let mut values = Values {
            source,
            attempt,
            key: &key,
            units,
            is_current_returned: false,
            returned: 0,
            returned_bytes: 0,
        };
        group(&key, &mut values)?;
        while values.next_value()?.is_some() {}
        records += values.returned;
        bytes += values.returned_bytes;
    }
    Ok((records, bytes))
}
