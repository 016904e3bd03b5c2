//! The fields of a row, in one buffer.

use std::ops::Range;

use super::csv::CsvFields;

/// Some fields of one row, each present or missing. Reused for every row, so that no memory
/// is allocated.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
    /// The indexes of those missing fields that are null in the JSON of the row.
    nulls: Vec<usize>,
    /// The buffer for fields that come from CSV records.
    pub(super) csv: CsvFields,
}

impl Fields {
    /// Resets to `count` fields, all missing.
    pub fn reset(&mut self, count: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, None);
        self.nulls.clear();
    }

    /// Sets the field with the index `at` to `field`.
    ///
    /// # Panics
    /// When there is no field with this index.
    pub fn set(&mut self, at: usize, field: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(field);
        self.places[at] = Some(from..self.bytes.len());
    }

    /// Makes the field with the index `at` missing.
    pub(super) fn unset(&mut self, at: usize) {
        self.places[at] = None;
    }

    /// Sets the field with the index `at` to null: [`get`](Self::get) then returns `None`, and
    /// [`has`](Self::has) true.
    pub(super) fn set_null(&mut self, at: usize) {
        self.places[at] = None;
        self.nulls.push(at);
    }

    /// Returns whether the row has the field with the index `at`, even if it is null.
    pub fn has(&self, at: usize) -> bool {
        self.get(at).is_some() || self.nulls.contains(&at)
    }

    /// Sets the field with the index `at` to the field with the index `from` of the CSV record that
    /// was parsed last. Does nothing if the record has no such field.
    pub(super) fn set_from_csv(&mut self, at: usize, from: usize) {
        if let Some(field) = self.csv.get(from) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(field);
            self.places[at] = Some(start..self.bytes.len());
        }
    }

    /// Returns the field with the index `at`; `None` if it is missing or null.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let place = self.places.get(at)?.clone()?;
        Some(&self.bytes[place])
    }

    /// Returns the number of fields, including missing ones.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns all fields, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|at| self.get(at))
    }
}
