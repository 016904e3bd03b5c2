//! The search of a range reader: keys, and perhaps a prefix.

use std::ops::Bound;

use crate::key::KeyRange;
use crate::read::{KeyPrefixes, PrefixesOf};
use crate::sstable::key_hash;

/// A key range to be read, and the common prefix of its keys if filters have such prefixes.
#[derive(Debug)]
pub(crate) struct Sought<'a> {
    pub(super) keys: KeyRange,
    pub(super) prefix: Option<SoughtPrefix<'a>>,
}

#[derive(Debug)]
pub(super) struct SoughtPrefix<'a> {
    /// The way in which the prefix was cut from the sought keys. A filter with prefixes that were
    /// cut in another way cannot show that the prefix is absent.
    pub(super) of: &'a PrefixesOf,
    pub(super) hash: u64,
}

impl<'a> Sought<'a> {
    /// Returns a search of all keys.
    pub(crate) fn all() -> Self {
        Self {
            keys: KeyRange::all(),
            prefix: None,
        }
    }

    pub(crate) fn keys(&self) -> &KeyRange {
        &self.keys
    }

    /// Returns a search of the keys between two bounds, with their common prefix if they have one.
    pub(crate) fn between(
        lower: &Bound<Vec<u8>>,
        upper: &Bound<Vec<u8>>,
        prefixes: Option<&'a KeyPrefixes>,
    ) -> Self {
        let prefix = prefixes.and_then(|prefixes| {
            let prefix = prefixes.of_range(lower, upper)?;
            Some(SoughtPrefix {
                of: prefixes.of(),
                hash: key_hash(prefix),
            })
        });
        Self {
            keys: KeyRange::new::<Vec<u8>, _>((lower.as_ref(), upper.as_ref())),
            prefix,
        }
    }
}
