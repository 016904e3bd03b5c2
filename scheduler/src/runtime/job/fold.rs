//! Folding values where they lie: a combiner that needs no sorting.

use super::functions::{Emit, Reducer};
use crate::runtime::error::TaskError;
use crate::runtime::shuffle::sorted::Values;
use std::sync::Arc;

/// Makes two values of a key one, in place. Sums, counts, smallest and largest are
/// such. The result must not depend on how values are grouped or in which order
/// they come.
///
/// A map looks up the key of each record that it emits among those in its buffer,
/// and folds the value into the one that is there: of a frequent key one record
/// reaches the sort. A map whose keys hardly repeat stops looking.
///
/// Any `Fn(&mut [u8], &[u8]) -> bool` is one.
pub trait Fold: Send + Sync {
    /// Folds `value` into `into`, a value of the same key and of the same length.
    /// False when that cannot be; `into` is as it was then, and both stay.
    fn fold(&self, into: &mut [u8], value: &[u8]) -> bool;
}

impl<F> Fold for F
where
    F: Fn(&mut [u8], &[u8]) -> bool + Send + Sync,
{
    fn fold(&self, into: &mut [u8], value: &[u8]) -> bool {
        self(into, value)
    }
}

/// The same for values that come sorted, at spills and merges.
pub(in crate::runtime) struct FoldCombiner(pub Arc<dyn Fold>);

impl Reducer for FoldCombiner {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let mut folded: Option<Vec<u8>> = None;
        while let Some(value) = values.next_value()? {
            let Some(into) = &mut folded else {
                folded = Some(value.to_vec());
                continue;
            };
            if into.len() != value.len() || !self.0.fold(into, value) {
                emit.emit(key, into)?;
                into.clear();
                into.extend_from_slice(value);
            }
        }
        folded.map_or(Ok(()), |value| emit.emit(key, &value))
    }
}
