//! Combination of values in place, in a map's buffer (in-mapper combining): a combiner that needs
//! no sorting.

use super::functions::{Emit, Reducer};
use crate::runtime::error::TaskError;
use crate::runtime::shuffle::sorted::Values;
use std::sync::Arc;

/// Combines two values of a key into one, in place: a sum, a count, the smallest, the largest. The
/// result must not depend on the grouping or the order of the values.
///
/// For each record that it emits, a map looks up the key among the records in its buffer. If the
/// key is there, the map combines the two values. So only one record of a frequent key reaches the
/// sort. A map with few repeated keys stops these lookups.
///
/// Implemented by any `Fn(&mut [u8], &[u8]) -> bool`, as [`combine`](Self::combine).
pub trait InPlaceCombiner: Send + Sync {
    /// Combines `value` into `into`, a value of the same key and of the same length. Returns false
    /// if that is impossible; then `into` must be unchanged, and both values are kept.
    fn combine(&self, into: &mut [u8], value: &[u8]) -> bool;
}

impl<F> InPlaceCombiner for F
where
    F: Fn(&mut [u8], &[u8]) -> bool + Send + Sync,
{
    fn combine(&self, into: &mut [u8], value: &[u8]) -> bool {
        self(into, value)
    }
}

/// A reducer that combines the values of neighbouring records with the same key in place, for
/// spills and merges.
pub(in crate::runtime) struct SortedCombiner(pub Arc<dyn InPlaceCombiner>);

impl Reducer for SortedCombiner {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let mut combined: Option<Vec<u8>> = None;
        while let Some(value) = values.next_value()? {
            let Some(into) = &mut combined else {
                combined = Some(value.to_vec());
                continue;
            };
            if into.len() != value.len() || !self.0.combine(into, value) {
                emit.emit(key, into)?;
                into.clear();
                into.extend_from_slice(value);
            }
        }
        combined.map_or(Ok(()), |value| emit.emit(key, &value))
    }
}
