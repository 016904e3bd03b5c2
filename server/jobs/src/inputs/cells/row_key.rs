//! The keys of the records of a publication: the table that a row goes to, the change of
//! the row, and its key in the store.
//!
//! ```text
//!   table, u32 BE | change, u8 | key of the row
//! ```
//!
//! The key of a row of a CQL table is the row's key in the store; for the static columns of a
//! partition, it is the key of the partition's header. Within a split, the keys of a table ascend.

/// The change of a row between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The row has not changed. A record with this change has no cells, and only reports progress
    /// to the runtime.
    None,
    /// The row did not exist at the older snapshot, or there is no older snapshot.
    Added,
    /// The row has other cells than at the older snapshot.
    Replaced,
    /// The row has not changed, but is written again because its data file is removed.
    Rewritten,
    /// The row no longer exists. The record has no cells.
    Removed,
}

const ALL: [Change; 5] = [
    Change::None,
    Change::Added,
    Change::Replaced,
    Change::Rewritten,
    Change::Removed,
];

/// The key of a record: the published table of a row, the change of the row, and the row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowKey<'k> {
    /// The number of the published table that the row belongs to.
    pub(crate) table: u32,
    pub(crate) change: Change,
    /// The key of the row in the store.
    pub(crate) key: &'k [u8],
}

impl Change {
    /// Returns the change of a row from the cells `older`, at the earlier snapshot, to the cells
    /// `newer`, at the later one; `None` if the row does not exist there. `is_rewritten` is true if
    /// the data file that contains the row is removed: then an unchanged row is
    /// [`Rewritten`](Self::Rewritten).
    pub(crate) fn between(older: Option<&[u8]>, newer: Option<&[u8]>, is_rewritten: bool) -> Self {
        match (older, newer) {
            (None, None) => Self::None,
            (None, Some(_)) => Self::Added,
            (Some(_), None) => Self::Removed,
            (Some(older), Some(newer)) if older != newer => Self::Replaced,
            (Some(_), Some(_)) if is_rewritten => Self::Rewritten,
            (Some(_), Some(_)) => Self::None,
        }
    }

    /// Returns whether the previous publication contains a version of the row, which this
    /// publication must remove.
    pub(crate) fn has_old(self) -> bool {
        matches!(self, Self::Replaced | Self::Rewritten | Self::Removed)
    }

    /// Returns whether the record of a row with this change contains the row's new cells.
    pub(crate) fn has_new(self) -> bool {
        matches!(self, Self::Added | Self::Replaced | Self::Rewritten)
    }

    fn of_byte(byte: u8) -> Option<Self> {
        let mut all = ALL.into_iter();
        all.find(|change| *change as u8 == byte)
    }
}

impl<'k> RowKey<'k> {
    /// Decodes the key of a record; `None` if `bytes` are not such a key.
    pub(crate) fn decode(bytes: &'k [u8]) -> Option<Self> {
        let (table, rest) = bytes.split_first_chunk()?;
        let (change, key) = rest.split_first()?;
        Some(Self {
            table: u32::from_be_bytes(*table),
            change: Change::of_byte(*change)?,
            key,
        })
    }

    /// Replaces `out` with the bytes of the key.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.table.to_be_bytes());
        out.push(self.change as u8);
        out.extend_from_slice(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_record_decodes_and_other_bytes_do_not() {
        let mut bytes = Vec::new();
        for change in ALL {
            let key = RowKey {
                table: 7,
                change,
                key: b"row",
            };
            key.encode(&mut bytes);
            assert_eq!(RowKey::decode(&bytes), Some(key));
        }
        assert_eq!(RowKey::decode(&[0, 0, 0, 7, 9, 1]), None);
        assert_eq!(RowKey::decode(&[0, 0, 0, 7]), None);
    }

    #[test]
    fn a_row_that_is_the_same_is_no_change_unless_its_file_goes() {
        let (a, b) = (Some(&b"a"[..]), Some(&b"b"[..]));
        for (older, newer, is_rewritten, change) in [
            (None, None, true, Change::None),
            (None, b, false, Change::Added),
            (a, None, true, Change::Removed),
            (a, a, false, Change::None),
            (a, a, true, Change::Rewritten),
            (a, b, true, Change::Replaced),
        ] {
            assert_eq!(Change::between(older, newer, is_rewritten), change);
            let is_change = change != Change::None;
            assert_eq!(change.has_old(), older.is_some() && is_change);
            assert_eq!(change.has_new(), newer.is_some() && is_change);
        }
    }
}
