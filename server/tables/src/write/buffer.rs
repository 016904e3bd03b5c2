//! The operations of one write on the columns of a row, combined before they are written.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use ebb_model::row::{Deletion, Element, LiveElement, RowError};
use ebb_model::schema::Indexed;

use super::row::OperandWriter;
use super::times::WriteTimes;

/// The new value of a cell or an element; `None` deletes it.
type Value<'v> = Option<Cow<'v, [u8]>>;

/// The columns that one write changes in a row, or the static columns that it changes in a partition.
#[derive(Debug)]
pub struct RowBuffer<'v> {
    times: WriteTimes,
    columns: BTreeMap<u32, Column<'v>>,
}

#[derive(Debug)]
enum Column<'v> {
    Cell(Value<'v>),
    Collection {
        deletion: Option<Deletion>,
        /// The elements that the write sets or deletes, by path (their stored sort key).
        elements: BTreeMap<Vec<u8>, Entry<'v>>,
    },
}

#[derive(Debug)]
struct Entry<'v> {
    original: Option<Vec<u8>>,
    value: Value<'v>,
}

impl Column<'_> {
    /// Returns the values that the write sets in this column: that of its cell, or those of the
    /// elements of a collection. Deletions are left out.
    fn values(&self) -> impl Iterator<Item = Indexed<'_>> {
        let (cell, elements) = match self {
            Self::Cell(value) => (value.as_deref(), None),
            Self::Collection { elements, .. } => (None, Some(elements)),
        };
        let elements = elements.into_iter().flatten();
        let elements = elements
            .filter_map(|(path, entry)| Some(Indexed::Element(path, entry.value.as_deref()?)));
        cell.map(Indexed::Cell).into_iter().chain(elements)
    }
}

impl<'v> RowBuffer<'v> {
    /// Creates the buffer of a write that changes no column yet.
    pub fn new(times: WriteTimes) -> Self {
        Self {
            times,
            columns: BTreeMap::new(),
        }
    }

    /// Returns whether the write changes no column.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Sets or deletes the value of a column that is stored as one cell.
    pub fn cell(&mut self, column: u32, value: Value<'v>) {
        self.columns.insert(column, Column::Cell(value));
    }

    /// Returns the value that the write sets in a column that is stored as one cell; `None` if the
    /// write deletes the cell or leaves it unchanged.
    pub fn value(&self, column: u32) -> Option<&[u8]> {
        match self.columns.get(&column) {
            Some(Column::Cell(value)) => value.as_deref(),
            _ => None,
        }
    }

    /// Deletes those elements of a collection that are older than the write, as an assignment does
    /// before it sets the new elements. The elements of the write itself stay.
    pub fn clear_older(&mut self, column: u32) {
        if let Some(deletion) = self.times.older_deletion() {
            *self.collection(column).0 = Some(deletion);
        }
    }

    /// Deletes all elements of a collection that are not newer than the write.
    pub fn clear(&mut self, column: u32) {
        let deletion = self.times.deletion();
        *self.collection(column).0 = Some(deletion);
    }

    /// Sets or deletes an element of a collection. Of several changes of one path, the winner is
    /// the one that would win between separate writes of the same timestamp. `original` is the map
    /// key or set member as the client wrote it, if it cannot be decoded from the path. A deletion
    /// ignores `original`.
    pub fn element(
        &mut self,
        column: u32,
        path: Vec<u8>,
        original: Option<Vec<u8>>,
        value: Value<'v>,
    ) {
        let times = self.times;
        let (_, elements) = self.collection(column);
        if let Some(earlier) = elements.get(&path) {
            let earlier = times.cell(earlier.value.as_deref());
            if earlier.reconcile(&times.cell(value.as_deref())) == Ordering::Greater {
                return;
            }
        }
        let original = original.filter(|_| value.is_some());
        elements.insert(path, Entry { original, value });
    }

    /// Returns the elements that a collection will have after the write: the value of each by its
    /// path. `before` contains the elements that the collection has now, by ascending path. `charge`
    /// is called before each element of `before` and of the write is processed.
    ///
    /// # Errors
    /// The error of `charge`.
    pub fn elements_after<E>(
        &self,
        before: &[LiveElement<'_>],
        column: u32,
        charge: impl Fn() -> Result<(), E>,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, E> {
        let mut after = BTreeMap::new();
        let written = match self.columns.get(&column) {
            Some(Column::Collection { deletion, elements }) => Some((deletion, elements)),
            _ => None,
        };
        let is_newer = |element: &LiveElement<'_>, than: Option<i64>| {
            than.is_none_or(|than| element.cell.writetime > than)
        };
        let cleared = written.and_then(|(deletion, _)| deletion.map(|d| d.timestamp));
        for element in before {
            charge()?;
            if is_newer(element, cleared) {
                after.insert(element.path.to_vec(), element.cell.value.to_vec());
            }
        }
        for (path, entry) in written.into_iter().flat_map(|(_, elements)| elements) {
            charge()?;
            let earlier = before.binary_search_by(|element| element.path.cmp(path));
            let earlier = earlier.ok().map(|at| &before[at]);
            if earlier.is_some_and(|earlier| is_newer(earlier, Some(self.times.timestamp_us))) {
                continue;
            }
            match &entry.value {
                Some(value) => after.insert(path.clone(), value.to_vec()),
                None => after.remove(path),
            };
        }
        Ok(after)
    }

    fn collection(
        &mut self,
        column: u32,
    ) -> (&mut Option<Deletion>, &mut BTreeMap<Vec<u8>, Entry<'v>>) {
        let empty = || Column::Collection {
            deletion: None,
            elements: BTreeMap::new(),
        };
        let place = self.columns.entry(column).or_insert_with(empty);
        if matches!(place, Column::Cell(_)) {
            // The type of a column determines which of the two it is.
            *place = empty();
        }
        match place {
            Column::Collection { deletion, elements } => (deletion, elements),
            Column::Cell(_) => unreachable!("just made a collection"),
        }
    }

    /// Returns whether the write sets a value in any column. If so, the row exists after the write,
    /// even without a row marker.
    pub fn has_values(&self) -> bool {
        let mut columns = self.columns.values();
        columns.any(|column| column.values().next().is_some())
    }

    /// Returns the ids of the columns that the write changes, in ascending order.
    pub fn column_ids(&self) -> impl Iterator<Item = u32> {
        self.columns.keys().copied()
    }

    /// Returns the values that the write sets in a column; deletions are left out.
    pub fn values(&self, column: u32) -> impl Iterator<Item = Indexed<'_>> {
        let column = self.columns.get(&column);
        column.into_iter().flat_map(|column| column.values())
    }

    /// Returns the `original` of an element that the write sets: see [`element`](Self::element).
    pub fn original(&self, column: u32, path: &[u8]) -> Option<&[u8]> {
        match self.columns.get(&column)? {
            Column::Collection { elements, .. } => elements.get(path)?.original.as_deref(),
            Column::Cell(_) => None,
        }
    }

    /// Appends the merge operand that writes the row, like [`OperandWriter::row`].
    ///
    /// # Errors
    /// If a collection takes 4 GiB or more.
    pub fn write_row(
        &self,
        has_marker: bool,
        original: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        self.write(OperandWriter::row(self.times, has_marker, original, out))
    }

    /// Appends the operand of the static columns, like [`OperandWriter::statics`].
    ///
    /// # Errors
    /// See [`RowBuffer::write_row`].
    pub fn write_statics(&self, out: &mut Vec<u8>) -> Result<(), RowError> {
        self.write(OperandWriter::statics(self.times, out))
    }

    fn write(&self, mut writer: OperandWriter<'_>) -> Result<(), RowError> {
        for (id, column) in &self.columns {
            match column {
                Column::Cell(value) => writer.cell(*id, value.as_deref()),
                Column::Collection { deletion, elements } => {
                    writer.row.begin_collection(*id, *deletion);
                    for (path, entry) in elements {
                        writer.row.element(Element {
                            path,
                            original: entry.original.as_deref(),
                            cell: self.times.cell(entry.value.as_deref()),
                        });
                    }
                    writer.row.end_collection();
                }
            }
        }
        writer.finish()
    }
}
