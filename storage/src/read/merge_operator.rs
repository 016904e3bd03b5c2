//! Merge operators: how a table's values change without being read first.
//!
//! A table names its operator when it is created; the name is stored, and each program that opens the
//! database registers the code for the name ([`MergeOperators`]). A merge by a user writes an
//! *operand*. Readers, flushes and compactions fold operands together, and onto the value below them,
//! in any grouping: the operator is associative.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::{ExpiryBounds, Group, PurgeContext, Purged, TimestampBounds, ValueBounds};

/// An associative operation on values.
///
/// For all `a`, `b`, `c`: `merge(merge(a, b), c) == merge(a, merge(b, c))`. The order of
/// operands is kept, so it need not be commutative. An operand without an older value is the
/// value itself. The result must depend on the arguments alone, and stay the same for as long
/// as a table uses the name.
pub trait MergeOperator: Send + Sync + Debug {
    /// Returns the name that tables store for the operator.
    fn name(&self) -> &str;

    /// Applies `newer` to `older`, and returns the resulting value (or operand).
    ///
    /// # Errors
    /// A description of the fault in the arguments. Reads of the key then fail, unless a newer
    /// operand hides the fault; the operands stay as they are. The same happens if the operands
    /// make more than [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES).
    fn merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String>;

    /// Returns the bounds of all timestamps in a value or operand. `None`, the default, means that
    /// the timestamps are unknown. In a purge of another version of the key,
    /// [`PurgeContext::oldest_elsewhere`] is then [`i64::MIN`].
    fn timestamps(&self, key: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        let _ = (key, value);
        None
    }

    /// Returns the bounds of the times at which something in a value or operand expires; by
    /// default, nothing expires.
    ///
    /// An operator whose values expire by a time in them must return these bounds, or
    /// [`ExpiryBounds::Unknown`] for a value that it cannot read:
    /// [`SnapshotTable::changed_keys`](crate::SnapshotTable::changed_keys) relies on them. The
    /// values that [`MergeOperator::merge`] and [`MergeOperator::purge`] return must not expire at
    /// other times than the values that they were made from.
    fn expiries(&self, key: &[u8], value: &[u8]) -> ExpiryBounds {
        let _ = (key, value);
        ExpiryBounds::Never
    }

    /// Returns [`MergeOperator::timestamps`] and [`MergeOperator::expiries`] of a value or operand.
    /// Flushes and merges call this for each value and operand. An operator that finds both bounds
    /// in one pass overrides it.
    fn bounds(&self, key: &[u8], value: &[u8]) -> ValueBounds {
        ValueBounds {
            timestamps: self.timestamps(key, value),
            expiries: self.expiries(key, value),
        }
    }

    /// Returns the group that a key belongs to; by default none.
    ///
    /// No single key of a group may be put or deleted: all values of a group are operands, and a
    /// deleted range contains all keys of the group or none. Readers of a group must read its head
    /// first, or all of the group by one iterator. A head that is read last may have been purged since
    /// the other keys were read, together with the content that it deletes. The reader would then
    /// return deleted content.
    fn group<'k>(&self, key: &'k [u8]) -> Option<Group<'k>> {
        let _ = key;
        None
    }

    /// Returns the filter prefix of a key ([`FilterPrefix::Operator`](crate::FilterPrefix::Operator)),
    /// which is common to keys that are read together. By default it is the prefix of the key's group.
    ///
    /// Every key that begins with the prefix of another key must have the same prefix. The prefix of a
    /// key must not change while tables use the operator's name: readers look for it in the filters of
    /// older files.
    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(self.group(key)?.prefix)
    }

    /// Returns what a merge keeps of a value, to free the space of content that no reader can see
    /// any more; by default all of it. No reader may notice the difference, now or after later
    /// writes.
    ///
    /// The operator may leave out what the head of the key's group ([`MergeOperator::group`])
    /// deletes. If the context has the head, it must do so, because the same merge may purge the
    /// head's deletions. It may also leave out a deletion, or content that has expired, if its
    /// timestamp is below [`PurgeContext::oldest_elsewhere`], and if the deletion or the expiry was
    /// so long before [`PurgeContext::read_time_ms`] that no write that it could hide is expected
    /// any more. If such a write comes all the same, it is hidden until the merge is installed and
    /// visible to all readers afterwards.
    ///
    /// For an operator that purges, [`MergeOperator::merge`] must not depend on the order of
    /// commits: it must be commutative and idempotent.
    ///
    /// # Errors
    /// A description of the fault in the value, which then stays.
    fn purge(
        &self,
        key: &[u8],
        value: &[u8],
        context: &PurgeContext<'_>,
    ) -> Result<Purged, String> {
        let _ = (key, value, context);
        Ok(Purged::Kept)
    }

    /// Returns the keyspace and the name of a table that has this entry, if they follow from the
    /// entry; by default they never do.
    ///
    /// [`repair`](crate::repair()) calls this for the entries of a table whose name was only in a
    /// manifest that is lost. The table gets the name and this operator. So an operator returns a
    /// name only for entries that no other tables have.
    fn table_of(&self, key: &[u8], value: &[u8]) -> Option<(String, String)> {
        let _ = (key, value);
        None
    }
}

/// The merge operators that a program passes to the opening of a database, by name.
///
/// The default has these:
///
/// | name | values | result of a merge |
/// | --- | --- | --- |
/// | `add` | `i64` or `u64`, 8 bytes little endian | wrapping addition |
/// | `append` | any bytes | concatenation |
/// | `max` | any bytes | the bytewise larger one |
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
/// use ebb_storage::TableOptions;
///
/// let options = TableOptions { merge_operator: Some("add".into()), ..Default::default() };
/// let visits = db.keyspace("app")?.table("visits", options)?;
/// visits.merge(b"home", &2_u64.to_le_bytes())?;
/// visits.merge(b"home", &3_u64.to_le_bytes())?;
/// assert_eq!(visits.get(b"home")?.unwrap(), 5_u64.to_le_bytes()[..]);
/// # Ok::<(), ebb_storage::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MergeOperators {
    by_name: BTreeMap<String, Arc<dyn MergeOperator>>,
}

impl MergeOperators {
    /// Creates an empty set of operators.
    pub fn none() -> Self {
        Self {
            by_name: BTreeMap::new(),
        }
    }

    /// Returns these operators and one more, which replaces an operator of the same name.
    pub fn with(mut self, operator: impl MergeOperator + 'static) -> Self {
        self.by_name
            .insert(operator.name().to_string(), Arc::new(operator));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn MergeOperator>> {
        self.by_name.get(name)
    }

    /// Returns the first operator that recognizes the table of an entry, and the keyspace and the name
    /// of the table.
    pub(crate) fn table_of(&self, key: &[u8], value: &[u8]) -> Option<(&str, (String, String))> {
        let mut operators = self.by_name.values();
        operators.find_map(|operator| Some((operator.name(), operator.table_of(key, value)?)))
    }

    /// Returns the names of the known merge operators, ascending.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }
}

impl Default for MergeOperators {
    fn default() -> Self {
        Self::none().with(Add).with(Append).with(Max)
    }
}

#[derive(Debug)]
struct Add;

impl MergeOperator for Add {
    fn name(&self) -> &str {
        "add"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        // Wrapping addition is the same for both signs.
        let number = |bytes: &[u8]| {
            let bytes = bytes
                .try_into()
                .map_err(|_| format!("{} bytes where a number has 8", bytes.len()))?;
            Ok::<_, String>(u64::from_le_bytes(bytes))
        };
        let sum = number(older)?.wrapping_add(number(newer)?);
        Ok(sum.to_le_bytes().to_vec())
    }
}

#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        Ok([older, newer].concat())
    }
}

#[derive(Debug)]
struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "max"
    }

    fn merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        Ok(older.max(newer).to_vec())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn built_in_operators_by_table() {
        let number = |n: i64| n.to_le_bytes().to_vec();
        let operators = MergeOperators::default();
        for (name, older, newer, expected) in [
            ("add", number(3), number(-5), Some(number(-2))),
            ("add", number(i64::MAX), number(1), Some(number(i64::MIN))),
            ("add", number(1), vec![1], None),
            (
                "append",
                b"ab".to_vec(),
                b"c".to_vec(),
                Some(b"abc".to_vec()),
            ),
            ("max", b"b".to_vec(), b"ab".to_vec(), Some(b"b".to_vec())),
        ] {
            let merged = operators.get(name).unwrap().merge(b"k", &older, &newer);
            assert_eq!(merged.ok(), expected, "{name} of {older:?} and {newer:?}");
        }
    }
}
