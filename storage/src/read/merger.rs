//! The merge operator of a table, if this process has it.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::{FOLDED_BYTES_MAX, Kind, UNFOLDED_BYTES_MAX};
use crate::mutation::{self, Mutation};
use crate::read::{
    ExpiryBounds, FilterPrefix, KeyPrefixes, MergeOperator, MergeOperators, bounds_of,
};

/// The merge operator of a table, which folds operands; this process may not have the operator.
/// Also has the names of the operator and the table, for errors.
#[derive(Debug)]
pub(crate) struct Merger {
    /// The full name `KEYSPACE.TABLE`, for errors.
    table: String,
    /// The name of the table's merge operator, as the table stores it; `None` for a table without
    /// one.
    name: Option<String>,
    operator: Option<Arc<dyn MergeOperator>>,
    prefixes: Option<KeyPrefixes>,
}

impl Merger {
    pub(crate) fn new(table: String, name: Option<&str>, known: &MergeOperators) -> Self {
        Self {
            table,
            name: name.map(str::to_string),
            operator: name.and_then(|name| known.get(name)).cloned(),
            prefixes: None,
        }
    }

    /// Sets the kind of prefixes that the table's filters have.
    pub(crate) fn with_prefixes(self, of: Option<FilterPrefix>) -> Self {
        let prefixes = KeyPrefixes::new(of, self.operator.as_ref());
        Self { prefixes, ..self }
    }

    /// Returns the rule for the key prefixes in the table's filters; `None` if the filters have
    /// none, or if their prefixes are those of a merge operator that this process does not have.
    pub(crate) fn prefixes(&self) -> Option<&KeyPrefixes> {
        self.prefixes.as_ref()
    }

    /// Returns whether this process has the table's merge operator, so that operands can be folded.
    pub(crate) fn is_known(&self) -> bool {
        self.operator.is_some()
    }

    /// Returns the table, as `KEYSPACE.TABLE`.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Returns the table's merge operator, which folds operands, if this process has it.
    pub(crate) fn operator(&self) -> Option<&dyn MergeOperator> {
        self.operator.as_deref()
    }

    /// Returns the bounds of the times at which something in a version expires.
    pub(crate) fn expiries_of(&self, key: &[u8], kind: Kind, value: &[u8]) -> ExpiryBounds {
        let otherwise = self.expiries_in(ExpiryBounds::Unknown);
        bounds_of(self.operator(), otherwise, key, kind, value).expiries
    }

    /// Returns the bounds of the expiries in a file whose metadata has the bounds `recorded`. Without a merge
    /// operator, only puts with an expiry of their own expire, and `recorded` always includes them: in such a
    /// table, [`ExpiryBounds::Unknown`] becomes [`ExpiryBounds::Never`].
    pub(crate) fn expiries_in(&self, recorded: ExpiryBounds) -> ExpiryBounds {
        match recorded {
            ExpiryBounds::Unknown if self.name.is_none() => ExpiryBounds::Never,
            ExpiryBounds::Unknown if mutation::is(Mutation::TrustUnknownExpiries) => {
                ExpiryBounds::Never
            }
            recorded => recorded,
        }
    }

    /// Folds the operands, newest first and at least one, onto `base`, if there is one, and returns
    /// the result.
    ///
    /// The newest operands are folded first, in groups of bounded size. Only the result of each
    /// group must keep to the limit for the length of values. So a newer deletion shortens the
    /// result before the limit applies to what it deletes. Operands that cannot be merged with each
    /// other are no error if they can be merged after the newer ones: a deletion may hide the
    /// fault.
    ///
    /// # Errors
    /// `InvalidRequest` if this process does not have the operator; `Merge` if the operator fails,
    /// or the result of a group is too long.
    pub(crate) fn fold(
        &self,
        key: &[u8],
        operands: &[Bytes],
        base: Option<Bytes>,
    ) -> Result<Bytes> {
        let operator = self.operator.as_deref().ok_or_else(|| {
            let name = self.name.as_deref().unwrap_or_default();
            Error::InvalidRequest(format!(
                "table {} needs the merge operator {name:?}, which this process does not have; \
                 open the database with it in Options::merge_operators",
                self.table
            ))
        })?;
        let (mut newer, mut group): (Option<Bytes>, Vec<Bytes>) = (None, Vec::new());
        let mut bytes = 0;
        for part in operands.iter().cloned().chain(base) {
            let parts = group.len() + usize::from(newer.is_some());
            if parts > 1 && bytes + part.len() > UNFOLDED_BYTES_MAX {
                let folded = self.fold_group(operator, key, newer, group)?;
                bytes = folded.len();
                (newer, group) = (Some(folded), Vec::new());
            }
            bytes += part.len();
            group.push(part);
        }
        self.fold_group(operator, key, newer, group)
    }

    /// Folds the operands of `group` (newest first, at least one), and then applies `newer`, the
    /// result of newer operands, to their result. `newer` may be long; in this order it is usually
    /// copied only once.
    fn fold_group(
        &self,
        operator: &dyn MergeOperator,
        key: &[u8],
        newer: Option<Bytes>,
        mut group: Vec<Bytes>,
    ) -> Result<Bytes> {
        let failed = |detail: String| Error::Merge {
            table: self.table.clone(),
            key: key.to_vec(),
            operator: operator.name().to_string(),
            detail,
        };
        // Neighbours first, then pairs of pairs: what a long list of operands
        // appends is copied a few times, not once for each of them.
        loop {
            let before = group.len();
            let mut merged = Vec::with_capacity(before.div_ceil(2));
            for pair in group.chunks(2) {
                match pair {
                    [newer, older] => match operator.merge(key, older, newer) {
                        Ok(both) => merged.push(Bytes::from(both)),
                        // They stay apart until newer operands are merged with the newer one.
                        Err(_) => merged.extend_from_slice(pair),
                    },
                    one => merged.extend_from_slice(one),
                }
            }
            group = merged;
            if group.len() == before {
                break;
            }
        }
        // One operand is left, or several that no pair of neighbours reduces.
        let mut parts = newer.into_iter().chain(group);
        let mut folded = parts.next().expect("at least one operand");
        for older in parts {
            let merged = operator.merge(key, &older, &folded);
            folded = Bytes::from(merged.map_err(failed)?);
        }
        if folded.len() > FOLDED_BYTES_MAX {
            return Err(failed(format!(
                "it makes {} bytes; the longest value is {FOLDED_BYTES_MAX}",
                folded.len()
            )));
        }
        Ok(folded)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
