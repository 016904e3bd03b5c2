//! Writes a row operand straight into the bytes that the engine is given.

use super::bytes::{begin_section, end_section, put_bytes, put_signed, put_varint};
use super::cell::{Cell, Deletion, Element, Expiry, Lifetime, Marker, Original};
use super::decode::{ROW_FORMAT, Recent, flags, tag};
use super::error::RowError;

/// Writes one row operand, front to back: deletion, marker, original clustering, then
/// columns by ascending id and their elements by ascending path.
///
/// Calls out of order are found by [`RowBuilder::finish`]. One write need not be free of
/// what it shadows itself: views see it right, merging drops it.
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
    /// Where the operand begins.
    start: usize,
    base: i64,
    /// The greatest timestamp written.
    greatest: i64,
    recent: Recent,
    /// The least column id that may come.
    next_id: u64,
    collection: Option<OpenCollection>,
    error: Option<&'static str>,
}

/// A collection that is being written.
#[derive(Debug)]
struct OpenCollection {
    /// Where its tag is, and the least column id before it: it vanishes if it stays empty.
    tag_at: usize,
    next_id: u64,
    /// Where its section begins.
    section: usize,
    recent: Recent,
    /// Where the path of its last element lies.
    last_path: Option<(usize, usize)>,
}

impl<'o> RowBuilder<'o> {
    /// Begins an operand at the end of `out`. No timestamp in it is greater than
    /// `greatest_timestamp`; those of one write are commonly all equal to it, and then
    /// cost nothing.
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

    /// The row's deletion.
    pub fn deletion(&mut self, deletion: Deletion) {
        self.begin_part(flags::DELETION);
        self.write_deletion(deletion);
        self.recent.local_time_s = Some(deletion.local_time_s);
    }

    /// The row's marker. INSERT writes one, UPDATE does not.
    pub fn marker(&mut self, marker: Marker) {
        self.begin_part(flags::MARKER);
        self.timestamp(marker.timestamp);
        if let Some(expiry) = marker.expiry {
            self.out[self.start + 1] |= flags::MARKER_EXPIRES;
            self.write_expiry(expiry);
            self.recent.expiry = Some(expiry);
        }
    }

    /// The clustering as it was written; needed only where the key does not say.
    pub fn original(&mut self, original: Original<'_>) {
        self.begin_part(flags::ORIGINAL);
        self.timestamp(original.timestamp);
        put_bytes(self.out, original.bytes);
    }

    /// The cell of a column of one value.
    #[inline]
    pub fn cell(&mut self, column: u32, cell: Cell<'_>) {
        let tag_at = self.begin_column(column);
        let mut recent = self.recent;
        self.write_cell(tag_at, cell, &mut recent);
        self.recent = recent;
    }

    /// Begins a collection that is not frozen, with the deletion of its older elements.
    /// Assigning a whole collection deletes at the write's timestamp less one.
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

    /// The next element of the collection that was begun.
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

    /// Ends the collection. Without deletion and elements it leaves no trace.
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

    /// Ends the operand.
    ///
    /// # Errors
    /// Calls out of order, a timestamp of [`i64::MIN`] or above the greatest that was
    /// announced, a time to live of 0. What was written is then taken back.
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

    /// As [`RowBuilder::finish`], and answers the greatest timestamp that was written,
    /// [`i64::MIN`] when there is none.
    pub(super) fn finish_with_greatest(self) -> Result<i64, RowError> {
        let greatest = self.greatest;
        self.finish().map(|()| greatest)
    }

    #[cold]
    fn fail(&mut self, what: &'static str) {
        self.error.get_or_insert(what);
    }

    /// Notes that what stands before the columns has this part.
    fn begin_part(&mut self, flag: u8) {
        let flags = &mut self.out[self.start + 1];
        // Each flag is greater than those of the parts before it.
        let in_order = *flags < flag && self.next_id == 0 && self.collection.is_none();
        *flags |= flag;
        if !in_order {
            self.fail("deletion, marker and original out of order");
        }
    }

    /// Writes the tag of a column with its id; answers where it is.
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

    /// Writes a timestamp as how far it lies below the base.
    fn timestamp(&mut self, timestamp: i64) {
        if timestamp == i64::MIN || timestamp > self.base {
            self.fail("a timestamp out of bounds");
        }
        self.greatest = self.greatest.max(timestamp);
        put_varint(self.out, self.base.wrapping_sub(timestamp) as u64);
    }
}
