//! A writer of row operands, directly in the engine's byte format.

use super::bytes::{begin_section, end_section, put_bytes, put_signed, put_varint};
use super::cell::{Cell, Deletion, Element, Expiry, Lifetime, Marker, Original};
use super::decode::{ROW_FORMAT, Recent, flags, tag};
use super::error::RowError;

/// A builder that writes one row operand (an encoded write of a row), front to back: deletion,
/// marker, original clustering, then columns by ascending id and their elements by ascending path.
///
/// [`RowBuilder::finish`] detects calls out of order. An operand may contain cells that its own
/// deletion shadows: views ignore them, and merging drops them.
///
/// ```
/// use ebb_model::row::{Cell, Lifetime, Marker, RowBuilder, RowRef, RowView};
///
/// // INSERT of one column, at timestamp 1000.
/// let mut operand = Vec::new();
/// let mut row = RowBuilder::new(&mut operand, 1000);
/// row.marker(Marker { timestamp: 1000, expiry: None });
/// row.cell(3, Cell { timestamp: 1000, lifetime: Lifetime::Permanent, value: b"x" });
/// row.finish()?;
///
/// let row = RowView::new(RowRef::parse(&operand)?, None, 7);
/// assert_eq!(row.cell(3)?.unwrap().value, b"x");
/// # Ok::<(), ebb_model::row::RowError>(())
/// ```
#[derive(Debug)]
pub struct RowBuilder<'o> {
    out: &'o mut Vec<u8>,
    /// The offset of the operand in `out`.
    start: usize,
    base: i64,
    /// The greatest timestamp written so far; [`i64::MIN`] before the first one.
    greatest: i64,
    recent: Recent,
    /// The least column id that may be written next, because ids ascend.
    next_id: u64,
    collection: Option<OpenCollection>,
    error: Option<&'static str>,
}

/// The state of a collection that is being written.
#[derive(Debug)]
struct OpenCollection {
    /// The offset of the collection's tag. If the collection stays empty, the operand is cut off
    /// here again.
    tag_at: usize,
    /// The builder's `next_id` (the least column id that may follow) from before the collection. It
    /// is restored if the collection stays empty and is removed.
    next_id: u64,
    /// The offset in `out` where the content of the collection's section begins: its deletion, then
    /// its elements.
    section: usize,
    recent: Recent,
    /// The range in `out` of the path (the sort key) of the last element; `None` before the first
    /// element.
    last_path: Option<(usize, usize)>,
}

impl<'o> RowBuilder<'o> {
    /// Begins an operand (an encoded write of a row) at the end of `out`. No timestamp in it may
    /// exceed `greatest_timestamp`. Timestamps are stored as distances below `greatest_timestamp`.
    /// A cell or element whose timestamp equals it, as is usual in one write, stores no timestamp
    /// at all.
    pub fn new(out: &'o mut Vec<u8>, greatest_timestamp: i64) -> Self {
        let start = out.len();
        out.extend([ROW_FORMAT, 0]);
        put_signed(out, greatest_timestamp);
        Self {
            out,
            start,
            base: greatest_timestamp,
            greatest: i64::MIN,
            recent: Recent::default(),
            next_id: 0,
            collection: None,
            error: None,
        }
    }

    /// Writes the row's deletion.
    pub fn deletion(&mut self, deletion: Deletion) {
        self.begin_part(flags::DELETION);
        self.write_deletion(deletion);
        self.recent.local_time_s = Some(deletion.local_time_s);
    }

    /// Writes the row's marker. INSERT writes one, UPDATE does not.
    pub fn marker(&mut self, marker: Marker) {
        self.begin_part(flags::MARKER);
        self.timestamp(marker.timestamp);
        if let Some(expiry) = marker.expiry {
            self.out[self.start + 1] |= flags::MARKER_EXPIRES;
            self.write_expiry(expiry);
            self.recent.expiry = Some(expiry);
        }
    }

    /// Writes the original clustering: the clustering values as the client wrote them. It is needed
    /// only if they cannot be decoded from the key.
    pub fn original(&mut self, original: Original<'_>) {
        self.begin_part(flags::ORIGINAL);
        self.timestamp(original.timestamp);
        put_bytes(self.out, original.bytes);
    }

    /// Writes the cell of a column with a single value.
    #[inline]
    pub fn cell(&mut self, column: u32, cell: Cell<'_>) {
        let tag_at = self.begin_column(column);
        let mut recent = self.recent;
        self.write_cell(tag_at, cell, &mut recent);
        self.recent = recent;
    }

    /// Begins a collection that is not frozen. `deletion` deletes its older elements: an assignment
    /// of a whole collection passes a deletion with the write's timestamp less one. `None` leaves
    /// the older elements in place.
    pub fn begin_collection(&mut self, column: u32, deletion: Option<Deletion>) {
        let next_id = self.next_id;
        let tag_at = self.begin_column(column);
        self.out[tag_at] |= tag::COLLECTION;
        let section = begin_section(self.out);
        let mut recent = self.recent;
        if let Some(deletion) = deletion {
            self.out[tag_at] |= tag::TIMESTAMP;
            self.write_deletion(deletion);
            recent.local_time_s = Some(deletion.local_time_s);
        }
        self.collection = Some(OpenCollection {
            tag_at,
            next_id,
            section,
            recent,
            last_path: None,
        });
    }

    /// Writes the next element of the open collection.
    pub fn element(&mut self, element: Element<'_>) {
        let Some(mut open) = self.collection.take() else {
            return self.fail("an element outside of a collection");
        };
        if let Some((start, end)) = open.last_path
            && self.out[start..end] >= *element.path
        {
            self.fail("elements out of order");
        }
        let tag_at = self.out.len();
        self.out.push(0);
        put_bytes(self.out, element.path);
        open.last_path = Some((self.out.len() - element.path.len(), self.out.len()));
        if let Some(original) = element.original {
            self.out[tag_at] |= tag::ORIGINAL;
            put_bytes(self.out, original);
        }
        self.write_cell(tag_at, element.cell, &mut open.recent);
        self.collection = Some(open);
    }

    /// Ends the open collection. A collection without deletion and elements is removed from the
    /// operand.
    pub fn end_collection(&mut self) {
        let Some(open) = self.collection.take() else {
            return self.fail("the end of a collection that was not begun");
        };
        if self.out.len() == open.section {
            self.out.truncate(open.tag_at);
            self.next_id = open.next_id;
        } else if end_section(self.out, open.section).is_err() {
            self.fail("a collection of 4 GiB or more");
        }
    }

    /// Ends the operand (the encoded write of a row).
    ///
    /// # Errors
    /// For calls out of order, a timestamp of [`i64::MIN`] or above the greatest one that
    /// [`new`](Self::new) was given, a time to live of 0, a tombstone with a value, and a
    /// collection of 4 GiB or more. The bytes written are then removed from the output.
    pub fn finish(mut self) -> Result<(), RowError> {
        if self.collection.is_some() {
            self.fail("a collection without an end");
        }
        match self.error {
            None => Ok(()),
            Some(what) => {
                self.out.truncate(self.start);
                Err(RowError::Build(what))
            }
        }
    }

    /// Ends the operand like [`RowBuilder::finish`], and returns the greatest timestamp written,
    /// [`i64::MIN`] if there is none.
    pub(super) fn finish_with_greatest(self) -> Result<i64, RowError> {
        let greatest = self.greatest;
        self.finish().map(|()| greatest)
    }

    #[cold]
    fn fail(&mut self, what: &'static str) {
        self.error.get_or_insert(what);
    }

    /// Sets the flag of an optional part of the row (deletion, marker or original clustering),
    /// before the part is written.
    fn begin_part(&mut self, flag: u8) {
        let flags = &mut self.out[self.start + 1];
        // Each part has a greater flag than the parts before it.
        let in_order = *flags < flag && self.next_id == 0 && self.collection.is_none();
        *flags |= flag;
        if !in_order {
            self.fail("deletion, marker and original out of order");
        }
    }

    /// Writes the tag of a column with its id; returns the offset of the tag.
    #[inline]
    fn begin_column(&mut self, column: u32) -> usize {
        if self.collection.is_some() {
            self.fail("a column within a collection");
        }
        let above = u64::from(column).checked_sub(self.next_id);
        let above = above.unwrap_or_else(|| {
            self.fail("columns out of order");
            0
        });
        self.next_id = u64::from(column) + 1;
        let tag_at = self.out.len();
        match above.checked_sub(u64::from(tag::ID_FOLLOWS)) {
            None => self.out.push((above as u8) << tag::ID_SHIFT),
            Some(rest) => {
                self.out.push(tag::ID_FOLLOWS << tag::ID_SHIFT);
                put_varint(self.out, rest);
            }
        }
        tag_at
    }

    #[inline]
    fn write_cell(&mut self, tag_at: usize, cell: Cell<'_>, recent: &mut Recent) {
        let mut bits = 0;
        if cell.timestamp == self.base && cell.timestamp != i64::MIN {
            self.greatest = self.base;
        } else {
            bits |= tag::TIMESTAMP;
            self.timestamp(cell.timestamp);
        }
        match cell.lifetime {
            Lifetime::Permanent => bits |= tag::PERMANENT,
            Lifetime::Expiring(expiry) => {
                bits |= tag::EXPIRING;
                if recent.expiry.replace(expiry) != Some(expiry) {
                    bits |= tag::TIMES;
                    self.write_expiry(expiry);
                }
            }
            Lifetime::Tombstone { local_time_s } => {
                bits |= tag::TOMBSTONE;
                if recent.local_time_s.replace(local_time_s) != Some(local_time_s) {
                    bits |= tag::TIMES;
                    put_signed(self.out, local_time_s);
                }
            }
        }
        self.out[tag_at] |= bits;
        if !matches!(cell.lifetime, Lifetime::Tombstone { .. }) {
            put_bytes(self.out, cell.value);
        } else if !cell.value.is_empty() {
            self.fail("a tombstone with a value");
        }
    }

    fn write_deletion(&mut self, deletion: Deletion) {
        self.timestamp(deletion.timestamp);
        put_signed(self.out, deletion.local_time_s);
    }

    fn write_expiry(&mut self, expiry: Expiry) {
        if expiry.ttl_s == 0 {
            self.fail("a time to live of 0");
        }
        put_varint(self.out, u64::from(expiry.ttl_s));
        put_signed(self.out, expiry.expiry_s);
    }

    /// Writes a timestamp as its distance below the greatest one that [`new`](Self::new) was given.
    fn timestamp(&mut self, timestamp: i64) {
        if timestamp == i64::MIN || timestamp > self.base {
            self.fail("a timestamp out of bounds");
        }
        self.greatest = self.greatest.max(timestamp);
        put_varint(self.out, self.base.wrapping_sub(timestamp) as u64);
    }
}
