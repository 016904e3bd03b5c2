//! Prefixes of keys, which filters have beside the keys: keys that are read together have the same
//! prefix.
//!
//! A scan whose bounds have one prefix skips the runs whose filters rule the prefix out. (The
//! prefix extractor of RocksDB.)

use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::MergeOperator;
use crate::key::KeyRange;

/// The kind of key prefixes that the bloom filters of a table contain, beside the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterPrefix {
    /// This many first bytes of a key, at least 1; a shorter key has no prefix.
    Bytes(u32),
    /// The prefix that the table's merge operator returns: [`MergeOperator::filter_prefix`].
    Operator,
}

/// The way in which the prefixes in the bloom filters of a file were cut from its keys, as the file
/// records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PrefixesOf {
    /// This many first bytes of each key: see [`FilterPrefix::Bytes`].
    Bytes(u32),
    /// See [`FilterPrefix::Operator`]; this is the name of the merge operator that returns the
    /// prefixes.
    Operator(String),
}

#[derive(Debug, Clone)]
pub(crate) struct KeyPrefixes {
    of: PrefixesOf,
    operator: Option<Arc<dyn MergeOperator>>,
}

impl KeyPrefixes {
    /// Returns the rule by which the prefixes in a table's filters are cut from keys; `None` if its filters
    /// have no prefixes, or those of an operator that this process does not have.
    pub(crate) fn new(
        of: Option<FilterPrefix>,
        operator: Option<&Arc<dyn MergeOperator>>,
    ) -> Option<Self> {
        match (of?, operator) {
            (FilterPrefix::Bytes(bytes), _) => Some(Self {
                of: PrefixesOf::Bytes(bytes),
                operator: None,
            }),
            (FilterPrefix::Operator, Some(operator)) => Some(Self {
                of: PrefixesOf::Operator(operator.name().to_string()),
                operator: Some(operator.clone()),
            }),
            (FilterPrefix::Operator, None) => None,
        }
    }

    /// Returns the way in which prefixes for bloom filters are cut from keys, as files record it.
    pub(crate) fn of(&self) -> &PrefixesOf {
        &self.of
    }

    /// Returns the prefix of a key; `None` if it has none. If two keys have the same prefix, all
    /// keys between them have it, too.
    pub(crate) fn of_key<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match (&self.of, &self.operator) {
            (PrefixesOf::Bytes(bytes), _) => key.get(..*bytes as usize),
            (PrefixesOf::Operator(_), Some(operator)) => operator.filter_prefix(key),
            (PrefixesOf::Operator(_), None) => None,
        }
    }

    /// Returns the prefix that all keys between these bounds have in common; `None` if some of the
    /// keys have another prefix, or none.
    pub(crate) fn of_range<'k>(
        &self,
        lower: &'k Bound<Vec<u8>>,
        upper: &Bound<Vec<u8>>,
    ) -> Option<&'k [u8]> {
        let (Bound::Included(start) | Bound::Excluded(start)) = lower else {
            return None;
        };
        let prefix = self.of_key(start)?;
        let has_all = match upper {
            Bound::Included(end) => end.starts_with(prefix),
            Bound::Excluded(end) => {
                end.starts_with(prefix) || KeyRange::prefix(prefix).end.as_deref() == Some(end)
            }
            Bound::Unbounded => false,
        };
        has_all.then_some(prefix)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_prefix_if_all_its_keys_have() {
        let prefixes = KeyPrefixes::new(Some(FilterPrefix::Bytes(2)), None).unwrap();
        let included = |key: &str| Bound::Included(key.as_bytes().to_vec());
        let excluded = |key: &str| Bound::Excluded(key.as_bytes().to_vec());
        for (lower, upper, prefix) in [
            (included("ab"), excluded("ac"), Some("ab")),
            (included("abx"), included("abz"), Some("ab")),
            (excluded("abx"), excluded("abz"), Some("ab")),
            (included("abx"), excluded("ab"), Some("ab")),
            (included("ab"), included("ac"), None),
            (included("ab"), excluded("ac\0"), None),
            (included("ab"), excluded("ad"), None),
            (included("a"), excluded("b"), None),
            (included("ab"), Bound::Unbounded, None),
            (Bound::Unbounded, excluded("ab"), None),
            (
                included("\u{7f}\u{7f}"),
                excluded("\u{7f}\u{7f}\u{7f}"),
                Some("\u{7f}\u{7f}"),
            ),
        ] {
            let found = prefixes.of_range(&lower, &upper);
            assert_eq!(found, prefix.map(str::as_bytes), "{lower:?} {upper:?}");
        }
    }

    #[test]
    fn an_operator_that_is_not_known_has_no_prefixes() {
        assert!(KeyPrefixes::new(Some(FilterPrefix::Operator), None).is_none());
        assert!(KeyPrefixes::new(None, None).is_none());
    }
}
