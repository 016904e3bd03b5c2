//! The values of a row, from the text of a job's fields or from a file with typed columns.

use std::borrow::Cow;
use std::sync::Arc;

use ebb_model::schema::Column;
use ebb_model::types::CqlType;

use crate::records::{Fields, shown};

/// The index of a field in a row, and the column that the field is a value of.
#[derive(Debug, Clone)]
pub(super) struct Target {
    field: usize,
    name: Arc<str>,
    ty: CqlType,
}

/// The value of a column; `None` if it is null.
type Value<'v> = Option<Cow<'v, [u8]>>;

/// The values of one row, by the indexes of its fields.
pub(super) trait RowValues {
    /// Returns the value of a column.
    ///
    /// # Errors
    /// If the field is not a valid value of its column's type; the error is the reason.
    fn value(&self, target: &Target) -> Result<Value<'_>, String>;

    /// Returns the value of a column of the primary key; `None` if the row has none.
    ///
    /// # Errors
    /// If the field is not a valid value of its column's type; the error is the reason.
    fn key(&self, target: &Target) -> Result<Value<'_>, String>;

    /// Returns whether the row has no value for this clustering column.
    fn is_missing(&self, target: &Target) -> bool;
}

impl Target {
    pub(super) fn new(field: usize, column: &Column) -> Self {
        Self {
            field,
            name: Arc::clone(&column.name),
            ty: column.ty.clone(),
        }
    }

    /// Returns the value of a column of the primary key.
    ///
    /// # Errors
    /// The problem of the field, or that the row has no value for the column.
    pub(super) fn key<'v>(
        &self,
        values: &'v (impl RowValues + ?Sized),
    ) -> Result<Cow<'v, [u8]>, String> {
        let missing = || format!("column {} of the primary key has no value", self.name);
        values.key(self)?.ok_or_else(missing)
    }

    /// Returns whether an empty field is a valid value of this column of the primary key.
    fn has_empty_key(&self) -> bool {
        matches!(self.ty, CqlType::Text | CqlType::Ascii | CqlType::Blob)
    }
}

/// A row of text. A field that is missing or empty is null; in the primary key, such a field is an
/// empty value if the column is a text, an ascii or a blob.
impl RowValues for Fields {
    fn value(&self, target: &Target) -> Result<Value<'_>, String> {
        let Some(field) = self.get(target.field).filter(|field| !field.is_empty()) else {
            return Ok(None);
        };
        let wrong = |problem: &dyn std::fmt::Display| {
            let (name, ty, field) = (&target.name, &target.ty, shown(field));
            format!("column {name}, which is of type {ty}, gets {field}: {problem}")
        };
        let text = std::str::from_utf8(field).map_err(|error| wrong(&error))?;
        let value = match &target.ty {
            CqlType::Blob => target
                .ty
                .parse_value(text.strip_prefix("0x").unwrap_or(text)),
            native if native.is_native() => native.parse_value(text),
            other => other.parse_literal(text),
        };
        let value = value.map_err(|error| wrong(&error))?;
        Ok(Some(Cow::Owned(value)))
    }

    fn key(&self, target: &Target) -> Result<Value<'_>, String> {
        let empty = || target.has_empty_key().then_some(Cow::Borrowed(&b""[..]));
        Ok(self.value(target)?.or_else(empty))
    }

    fn is_missing(&self, target: &Target) -> bool {
        match self.get(target.field) {
            None => true,
            Some(field) => field.is_empty() && !target.has_empty_key(),
        }
    }
}

/// A row of values that are valid for the types of their columns, except that the elements of sets
/// and maps may be in any order and may occur several times.
impl RowValues for [Option<Vec<u8>>] {
    fn value(&self, target: &Target) -> Result<Value<'_>, String> {
        let value = self.get(target.field).and_then(Option::as_deref);
        Ok(value.map(|value| target.ty.normalize(value)))
    }

    fn key(&self, target: &Target) -> Result<Value<'_>, String> {
        self.value(target)
    }

    /// Returns false: if a row of a file has a null in a clustering column, this is an error, even
    /// if the row has static values.
    fn is_missing(&self, _target: &Target) -> bool {
        false
    }
}
