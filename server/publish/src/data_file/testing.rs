//! Columns of data files, for tests.

use ebb_model::types::CqlType;

use super::Column;
use crate::types::{FieldIds, TypeOptions, field};

/// Returns nullable columns of these names and types, with the default options. Their field ids count from 1.
pub(crate) fn columns<N: AsRef<str>>(types: impl IntoIterator<Item = (N, CqlType)>) -> Vec<Column> {
    let (options, mut ids) = (TypeOptions::default(), FieldIds::default());
    let column = |(name, ty): (N, CqlType)| Column {
        field: field(name.as_ref(), &ty, false, &options, None, &mut ids),
        ty,
    };
    types.into_iter().map(column).collect()
}
