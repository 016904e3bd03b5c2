//! Damage of stored records, as opposed to failures of the system: damage affects one object and is
//! stored with the object; a failure ends the operation. A record that the disk does not return, as from
//! a bad sector, counts as damaged: otherwise one table would keep the server from its start.

use ebb_storage::{Error, Range};

use super::error::Result;

/// A value that was read, or the reason why it is damaged.
pub(super) type Readable<T> = Result<T, String>;

/// The reason why an object without a record cannot be read.
pub(super) const MISSING: &str = "its record is missing";

/// The first remedy for a record that the disk does not return: the failure may pass, and DROP is final.
const READS_AGAIN: &str = "`ebb verify` and a new start read it again";

/// Separates damage from failures: damage is the inner error, a failure the outer one. A read that the
/// disk fails counts as damage.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn readable<T>(read: ebb_storage::Result<T>) -> Result<Readable<T>> {
    match read {
        Err(error @ Error::Io { .. }) if error.is_of_file() => {
            Ok(Err(format!("{error}, which may pass: {READS_AGAIN}")))
        }
        read => readable_unless_failed(read),
    }
}

/// Separates damage from failures as [`readable`] does, but a read that the disk fails is a failure. This is
/// for records that the node replaces if they are damaged: a later read may return them.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn readable_unless_failed<T>(read: ebb_storage::Result<T>) -> Result<Readable<T>> {
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    /// Regression: a bad sector below the record of one table kept the whole server from its start.
    #[test]
    fn a_failed_read_is_damage_unless_the_record_would_be_replaced() {
        let [eio, eacces, emfile] = [5, 13, 24];
        let failed = |code| {
            let source = io::Error::from_raw_os_error(code);
            ebb_storage::Result::<()>::Err(Error::Io {
                action: "read",
                path: "000012.sst".into(),
                source: Arc::new(source),
            })
        };
        let damage = readable(failed(eio)).unwrap().unwrap_err();
        assert!(damage.starts_with("cannot read 000012.sst"), "{damage}");
        assert!(damage.ends_with(READS_AGAIN), "{damage}");
        assert!(readable_unless_failed(failed(eio)).is_err());
        for code in [eacces, emfile] {
            assert!(readable(failed(code)).is_err(), "{code}");
        }
    }
}
