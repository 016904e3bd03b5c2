//! The fields of a row, in one buffer.

use std::ops::Range;

use super::csv::CsvFields;

/// Some fields of one row, each there or missing. Kept from row to row, it takes no
/// memory anew.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
    /// Missing fields that the row has, as JSON's null.
    nulls: Vec<usize>,
    /// For those that take fields out of CSV records.
    pub(super) csv: CsvFields,
}

impl Fields {
    /// Makes it `count` fields, all missing.
    pub fn reset(&mut self, count: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, None);
        self.nulls.clear();
    }

    /// The field `at`, from 0, is `field`.
    ///
    /// # Panics
    /// When there are fewer fields.
    pub fn set(&mut self, at: usize, field: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(field);
        self.places[at] = Some(from..self.bytes.len());
    }

    /// The field `at` is missing.
    pub(super) fn unset(&mut self, at: usize) {
        self.places[at] = None;
    }

    /// The row has the field `at`, and it is null: it counts as missing.
    pub(super) fn set_null(&mut self, at: usize) {
        self.places[at] = None;
        self.nulls.push(at);
    }

    /// Whether the row has the field `at`, be it null.
    pub fn has(&self, at: usize) -> bool {
        self.get(at).is_some() || self.nulls.contains(&at)
    }

    /// Sets the field `at` to the field `from` of the last CSV record.
    pub(super) fn set_from_csv(&mut self, at: usize, from: usize) {
        if let Some(field) = self.csv.get(from) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(field);
            self.places[at] = Some(start..self.bytes.len());
        }
    }

    /// The field `at`, from 0; `None` when the row has none there.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let place = self.places.get(at)?.clone()?;
        Some(&self.bytes[place])
    }

    /// How many fields there are, missing ones included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All fields, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|at| self.get(at))
    }
}
