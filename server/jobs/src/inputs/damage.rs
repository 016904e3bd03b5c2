//! Damage of a stored file, with the keys among which a task met it.

use std::fmt;

use ebb_scheduler::runtime::TaskError;
use ebb_storage::{Error, ErrorKind};
use ebb_tables::read::TableError;

use crate::error::of_table;

/// Bytes of a key that a message shows; the rest of a longer key is left out.
const KEY_BYTES_MAX: usize = 64;

/// A damaged file of a table, and the keys among which a task met the damage: behind the last one
/// that it had read, up to the end of the split.
#[derive(Debug, thiserror::Error)]
#[error("damage among the keys from {} to {}: {damage}", Key(Some(from)), Key(to.as_deref()))]
pub(crate) struct DamagedKeys {
    from: Vec<u8>,
    /// `None` is the end of the table.
    to: Option<Vec<u8>>,
    damage: Error,
}

/// A bound, as messages show it.
struct Key<'k>(Option<&'k [u8]>);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(key) = self.0 else {
            return f.write_str("the last one");
        };
        let shown = &key[..key.len().min(KEY_BYTES_MAX)];
        let rest = if shown.len() < key.len() { "..." } else { "" };
        write!(f, "\"{}\"{rest}", shown.escape_ascii())
    }
}

/// Returns the error of a task that met `error` among the keys from `from` to before `to`.
#[cold]
pub(super) fn of_keys(error: impl Into<TableError>, from: &[u8], to: Option<&[u8]>) -> TaskError {
    match error.into() {
        TableError::Store(damage) if damage.kind() == ErrorKind::Corruption => {
            TaskError::fatal(DamagedKeys {
                from: from.to_vec(),
                to: to.map(<[u8]>::to_vec),
                damage,
            })
        }
        error => of_table(error),
    }
}
