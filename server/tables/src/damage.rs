//! Damage of stored records, as opposed to failures of the system: damage affects one object and is
//! stored with the object; a failure ends the operation.

use ebb_storage::{Error, Range};

use super::error::Result;

/// A value that was read, or the reason why it is damaged.
pub(super) type Readable<T> = Result<T, String>;

/// The reason why an object without a record cannot be read.
pub(super) const MISSING: &str = "its record is missing";

/// Separates damage from failures: damage is the inner error, a failure the outer one.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn readable<T>(read: ebb_storage::Result<T>) -> Result<Readable<T>> {
    match read {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (Error::Corruption { .. } | Error::Unreadable { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a range has no entry. A range with a damaged entry is not empty.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn is_empty(mut range: Range) -> Result<bool> {
    match range.next() {
        None => Ok(true),
        Some(first) => readable(first).map(|_| false),
    }
}
