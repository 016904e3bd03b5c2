//! Records in order of their keys: what the shuffle passes from stage to stage.

use crate::runtime::error::TaskError;
use crate::runtime::pacing::attempt::Attempt;

/// A cursor over records whose keys ascend; equal keys are neighbours.
pub(in crate::runtime) trait Sorted {
    /// The record under the cursor, key and value; `None` at the end.
    fn current(&self) -> Option<(&[u8], &[u8])>;

    /// Moves on. Must not be called at the end.
    fn advance(&mut self) -> Result<(), TaskError>;
}

/// The values of one key, one at a time.
pub struct Values<'a> {
    source: &'a mut (dyn Sorted + 'a),
    attempt: &'a Attempt<'a>,
    key: &'a [u8],
    /// What a value is of the attempt's input.
    units: u64,
    /// The cursor is on a value that was already handed out.
    taken: bool,
    seen: u64,
    seen_bytes: u64,
}

impl Values<'_> {
    /// The next value, valid until the next call; `None` after the last.
    ///
    /// # Errors
    /// When reading fails or the job is cancelled; pass it on.
    pub fn next_value(&mut self) -> Result<Option<&[u8]>, TaskError> {
        if self.taken {
            self.source.advance()?;
            self.taken = false;
            // Only now: of a value that takes for ever nothing is done.
            self.attempt.handled(self.units);
        }
        match self.source.current() {
            Some((key, value)) if key == self.key => {
                self.attempt.tick(key.len() + value.len())?;
                self.taken = true;
                self.seen += 1;
                self.seen_bytes += (key.len() + value.len()) as u64;
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }
}

/// Calls `group` for each key of `source` with its values. Values it leaves are
/// skipped. Returns the number of records and their bytes. Each of them is
/// `units` of what the attempt has to handle.
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
            taken: false,
            seen: 0,
            seen_bytes: 0,
        };
        group(&key, &mut values)?;
        while values.next_value()?.is_some() {}
        records += values.seen;
        bytes += values.seen_bytes;
    }
    Ok((records, bytes))
}
