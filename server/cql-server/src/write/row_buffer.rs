//! What one write says of one row, gathered column by column, then written as an operand.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use ebb_model::row::{
    Cell, Deletion, Element, Expiry, Lifetime, LiveElement, Marker, Original, RowBuilder, RowError,
};
use ebb_model::schema::Indexed;

use crate::{error, interrupt};

/// When a write happens, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The client's timestamp, or the server's; not `i64::MIN`.
    pub(super) timestamp_us: i64,
    /// The seconds since 1970 at which it happens.
    pub(super) now_s: i64,
    /// Seconds that values live; not 0.
    pub(super) ttl_s: Option<u32>,
}

impl Times {
    fn expiry(&self) -> Option<Expiry> {
        self.ttl_s.map(|ttl_s| Expiry {
            ttl_s,
            expiry_s: self.now_s.saturating_add(i64::from(ttl_s)),
        })
    }

    pub(super) fn deletion(&self) -> Deletion {
        Deletion {
            timestamp: self.timestamp_us,
            local_time_s: self.now_s,
        }
    }

    fn cell<'v>(&self, value: Option<&'v [u8]>) -> Cell<'v> {
        let lifetime = match (value, self.expiry()) {
            (None, _) => Lifetime::Tombstone {
                local_time_s: self.now_s,
            },
            (Some(_), None) => Lifetime::Permanent,
            (Some(_), Some(expiry)) => Lifetime::Expiring(expiry),
        };
        Cell {
            timestamp: self.timestamp_us,
            lifetime,
            value: value.unwrap_or_default(),
        }
    }
}

/// A value; `None` deletes.
type Value<'v> = Option<Cow<'v, [u8]>>;

/// The values that one write gives a column, without deletions.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'w> {
    /// A value.
    Cell(&'w [u8]),
    /// Elements of a collection.
    Collection {
        items: usize,
        /// The sum of the lengths of paths and values.
        bytes: usize,
        /// The length of the largest path or value.
        largest_bytes: usize,
    },
}

/// One row of one write.
#[derive(Debug)]
pub(super) struct RowBuffer<'v> {
    times: Times,
    columns: BTreeMap<u32, Column<'v>>,
}

#[derive(Debug)]
enum Column<'v> {
    Cell(Value<'v>),
    Collection {
        deletion: Option<Deletion>,
        /// By path.
        elements: BTreeMap<Vec<u8>, Entry<'v>>,
    },
}

#[derive(Debug)]
struct Entry<'v> {
    original: Option<Vec<u8>>,
    value: Value<'v>,
}

impl<'v> RowBuffer<'v> {
    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            columns: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The value of a column of one cell.
    pub(super) fn cell(&mut self, column: u32, value: Value<'v>) {
        self.columns.insert(column, Column::Cell(value));
    }

    /// What this write makes of a column of one cell, if it changes it.
    pub(super) fn value(&self, column: u32) -> Option<&[u8]> {
        match self.columns.get(&column) {
            Some(Column::Cell(Some(value))) => Some(value),
            _ => None,
        }
    }

    /// All elements go that are older than this write.
    pub(super) fn clear_older(&mut self, column: u32) {
        let mut deletion = self.times.deletion();
        deletion.timestamp -= 1;
        // Nothing is older than the oldest.
        if deletion.timestamp > i64::MIN {
            *self.collection(column).0 = Some(deletion);
        }
    }

    /// All elements go.
    pub(super) fn clear(&mut self, column: u32) {
        let deletion = self.times.deletion();
        *self.collection(column).0 = Some(deletion);
    }

    /// An element of a collection. Of several for one path the one counts that would
    /// count if they came with the same timestamp in other writes.
    pub(super) fn element(
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
        elements.insert(path, Entry { original, value });
    }

    /// The elements of a collection that there will be after this write, of those that are
    /// there: their values by their paths.
    ///
    /// # Errors
    /// The time-out of the statement.
    pub(super) fn elements_after(
        &self,
        there: &[LiveElement<'_>],
        column: u32,
    ) -> error::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let mut after = BTreeMap::new();
        let written = match self.columns.get(&column) {
            Some(Column::Collection { deletion, elements }) => Some((deletion, elements)),
            _ => None,
        };
        let is_newer = |element: &LiveElement<'_>, than: Option<i64>| {
            than.is_none_or(|than| element.cell.writetime > than)
        };
        let cleared = written.and_then(|(deletion, _)| deletion.map(|d| d.timestamp));
        for element in there {
            interrupt::charge(1)?;
            if is_newer(element, cleared) {
                after.insert(element.path.to_vec(), element.cell.value.to_vec());
            }
        }
        let Some((_, elements)) = written else {
            return Ok(after);
        };
        for (path, entry) in elements {
            interrupt::charge(1)?;
            let earlier = there.binary_search_by(|element| element.path.cmp(path));
            let earlier = earlier.ok().map(|at| &there[at]);
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
            // A column is one or the other, by its type.
            *place = empty();
        }
        match place {
            Column::Collection { deletion, elements } => (deletion, elements),
            Column::Cell(_) => unreachable!("just made a collection"),
        }
    }

    /// Whether it has a value that is not deleted: then the row is there.
    pub(super) fn has_values(&self) -> bool {
        self.columns.values().any(|column| match column {
            Column::Cell(value) => value.is_some(),
            Column::Collection { elements, .. } => elements.values().any(|e| e.value.is_some()),
        })
    }

    /// Hands `each` what it gives each column.
    pub(super) fn for_each_written<E>(
        &self,
        mut each: impl FnMut(u32, Written<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (id, column) in &self.columns {
            match column {
                Column::Cell(None) => {}
                Column::Cell(Some(value)) => each(*id, Written::Cell(value))?,
                Column::Collection { elements, .. } => {
                    let (mut items, mut bytes, mut largest_bytes) = (0, 0, 0);
                    for (path, entry) in elements {
                        if let Some(value) = &entry.value {
                            items += 1;
                            bytes += path.len() + value.len();
                            largest_bytes = largest_bytes.max(path.len()).max(value.len());
                        }
                    }
                    let written = Written::Collection {
                        items,
                        bytes,
                        largest_bytes,
                    };
                    each(*id, written)?;
                }
            }
        }
        Ok(())
    }

    /// Hands `each` the values that it gives a column: those under which an index has the row.
    pub(super) fn for_each_value<E>(
        &self,
        column: u32,
        mut each: impl FnMut(Indexed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.columns.get(&column) {
            None | Some(Column::Cell(None)) => Ok(()),
            Some(Column::Cell(Some(value))) => each(Indexed::Cell(value)),
            Some(Column::Collection { elements, .. }) => {
                let mut values = (elements.iter())
                    .filter_map(|(path, entry)| Some((path, entry.value.as_ref()?)));
                values.try_for_each(|(path, value)| each(Indexed::Element(path, value)))
            }
        }
    }

    /// Writes the operand: marker, clustering as it was written, columns.
    pub(super) fn write(
        &self,
        mut row: RowBuilder<'_>,
        has_marker: bool,
        original: Option<&[u8]>,
    ) -> Result<(), RowError> {
        let times = &self.times;
        if has_marker {
            row.marker(Marker {
                timestamp: times.timestamp_us,
                expiry: times.expiry(),
            });
        }
        if let Some(bytes) = original {
            row.original(Original {
                timestamp: times.timestamp_us,
                bytes,
            });
        }
        for (id, column) in &self.columns {
            match column {
                Column::Cell(value) => row.cell(*id, times.cell(value.as_deref())),
                Column::Collection { deletion, elements } => {
                    row.begin_collection(*id, *deletion);
                    for (path, entry) in elements {
                        row.element(Element {
                            path,
                            original: entry.original.as_deref(),
                            cell: times.cell(entry.value.as_deref()),
                        });
                    }
                    row.end_collection();
                }
            }
        }
        row.finish()
    }
}
