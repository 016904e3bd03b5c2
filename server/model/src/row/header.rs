//! The operands of a partition's header: the deletions above its rows, and its static row.
//!
//! Each partition begins with one header key. It contains the partition's deletion, the deletions
//! of ranges of its rows, and the static row. These deletions carry client timestamps, so writes
//! with newer timestamps survive them; the engine's own range deletions go by commit order and
//! cannot express that.

use super::builder::RowBuilder;
use super::bytes::{Reader, begin_section, end_section, put_bytes, put_signed};
use super::cell::Deletion;
use super::decode::RowRef;
use super::error::RowError;
use super::garbage::Garbage;
use super::merge::Rules;
use super::ranges::{self, RangeDeletion};
use super::view::RowView;

/// The first byte of a partition's stored header: the kind of operand, 2, in the upper four bits,
/// and the version of its format, 1, in the lower.
const HEADER_FORMAT: u8 = 0x21;

/// The bits of the second byte of a partition's stored header: which deletions it has, and whether
/// it has a static row.
mod flags {
    pub(super) const DELETION: u8 = 1;
    pub(super) const RANGES: u8 = 2;
    pub(super) const STATIC_ROW: u8 = 4;
    pub(super) const ALL: u8 = 7;
}

/// A decoded header of a partition: its deletions and its static row. Its range deletions are
/// decoded into a list once, so that each row of the partition finds its deletion by a binary
/// search.
#[derive(Debug, Clone)]
pub struct Header<'a> {
    deletion: Option<Deletion>,
    /// The deletions of ranges, disjoint and ascending.
    ranges: Vec<RangeDeletion<'a>>,
    static_row: Option<RowRef<'a>>,
}

impl<'a> Header<'a> {
    /// The header of a partition that has no stored one: no deletions and no static row.
    pub const EMPTY: Header<'static> = Header {
        deletion: None,
        ranges: Vec::new(),
        static_row: None,
    };

    /// Decodes a stored header (the deletions and the static row of a partition); the columns of
    /// the static row are decoded on demand.
    ///
    /// # Errors
    /// If the bytes are not a header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RowError> {
        let mut reader = Reader::new(bytes);
        reader.format(HEADER_FORMAT)?;
        let bits = reader.byte()?;
        if bits & !flags::ALL != 0 {
            return Err(reader.damaged("unknown flags of a header"));
        }
        let deletion = if bits & flags::DELETION != 0 {
            Some(read_deletion(&mut reader)?)
        } else {
            None
        };
        let mut ranges = Vec::new();
        if bits & flags::RANGES != 0 {
            let mut section = reader.section()?;
            while !section.is_empty() {
                let range = read_range(&mut section)?;
                let overlaps = ranges.last().is_some_and(|last: &RangeDeletion<'_>| {
                    last.end.is_none_or(|end| end > range.start)
                });
                if overlaps || range.is_void() {
                    return Err(section.damaged("range deletions out of order"));
                }
                ranges.push(range);
            }
        }
        let static_row = if bits & flags::STATIC_ROW != 0 {
            Some(RowRef::parse_at(reader)?)
        } else if reader.is_empty() {
            None
        } else {
            return Err(reader.damaged("bytes after the end"));
        };
        Ok(Self {
            deletion,
            ranges,
            static_row,
        })
    }

    /// Returns the deletion of the whole partition; `None` if there is none.
    pub fn deletion(&self) -> Option<Deletion> {
        self.deletion
    }

    /// Returns the deletions of ranges, disjoint and ascending.
    pub fn ranges(&self) -> &[RangeDeletion<'a>] {
        &self.ranges
    }

    /// Returns the static row; `None` if the header has none.
    pub fn static_row(&self) -> Option<RowRef<'a>> {
        self.static_row
    }

    /// Returns the newest deletion, by its timestamp, that covers the row with this encoded
    /// clustering: that of the partition or of a range of its rows. `None` if no deletion covers
    /// the row.
    #[inline]
    pub fn deletion_at(&self, clustering: &[u8]) -> Option<Deletion> {
        if self.ranges.is_empty() {
            return self.deletion;
        }
        self.deletion
            .max(ranges::deletion_at(&self.ranges, clustering))
    }

    /// Returns whether `other` has the same deletions, so that both headers hide the same content of
    /// every row.
    pub fn has_same_deletions(&self, other: &Header<'_>) -> bool {
        self.deletion == other.deletion && self.ranges == other.ranges
    }

    /// Returns the static row's view at a read time in seconds since the Unix epoch.
    pub fn static_view(&self, read_time_s: i64) -> RowView<'a> {
        RowView::new(
            self.static_row.unwrap_or(RowRef::EMPTY),
            self.deletion,
            read_time_s,
        )
    }

    /// Appends this header, with its static row merged with `other_row`. Leaves out `garbage`, and
    /// content that the header's own deletions shadow.
    fn write(
        &self,
        other_row: RowRef<'_>,
        garbage: Option<Garbage>,
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        let keeps =
            |deletion: Deletion| !garbage.is_some_and(|garbage| garbage.has_deletion(deletion));
        let mut header = HeaderBuilder::new(out);
        if let Some(deletion) = self.deletion.filter(|&deletion| keeps(deletion)) {
            header.deletion(deletion);
        }
        let mut pieces = Vec::with_capacity(self.ranges.len());
        for range in &self.ranges {
            if Some(range.deletion) > self.deletion && keeps(range.deletion) {
                ranges::push(&mut pieces, *range);
            }
        }
        header.write_ranges(&pieces)?;
        let row = self.static_row.unwrap_or(RowRef::EMPTY);
        let rules = Rules {
            above: self.deletion,
            garbage,
        };
        header.write_static_row(row, other_row, rules)
    }

    /// Encodes the header in its canonical form (equal content has equal bytes), without `garbage`:
    /// tombstones and expired values that no reader needs any more.
    pub(super) fn without(&self, garbage: Garbage) -> Result<Vec<u8>, RowError> {
        let mut out = Vec::new();
        self.write(RowRef::EMPTY, Some(garbage), &mut out)?;
        Ok(out)
    }

    /// Returns whether the header has neither deletions nor a static row with content.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_none()
            && self.ranges.is_empty()
            && self.static_row.is_none_or(|row| row.is_empty())
    }
}

/// Merges two header operands: encoded writes to the deletions and the static row of one partition.
/// The result does not depend on their order of commit.
///
/// # Errors
/// If one of them is not a header operand; [`RowError::Mixed`] if the static row has a column as a
/// single cell in one of them and as a collection in the other, and no deletion hides the single
/// cell.
pub fn merge_headers(older: &[u8], newer: &[u8]) -> Result<Vec<u8>, RowError> {
    let (one, two) = (Header::parse(older)?, Header::parse(newer)?);
    let both = Header {
        deletion: one.deletion.max(two.deletion),
        ranges: ranges::union(&one.ranges, &two.ranges),
        static_row: one.static_row,
    };
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    both.write(two.static_row.unwrap_or(RowRef::EMPTY), None, &mut merged)?;
    Ok(merged)
}

/// A builder that writes one header operand of a partition, front to back: the partition's
/// deletion, the deletions of ranges, the static row.
///
/// ```
/// use ebb_model::row::{Deletion, Header, HeaderBuilder, RangeDeletion};
///
/// // DELETE of the rows from "b" on, at timestamp 1000.
/// let deletion = Deletion { timestamp: 1000, local_time_s: 7 };
/// let mut operand = Vec::new();
/// let mut header = HeaderBuilder::new(&mut operand);
/// header.ranges(&[RangeDeletion { start: b"b", end: None, deletion }])?;
///
/// let header = Header::parse(&operand)?;
/// assert_eq!(header.deletion_at(b"a"), None);
/// assert_eq!(header.deletion_at(b"c"), Some(deletion));
/// # Ok::<(), ebb_model::row::RowError>(())
/// ```
#[derive(Debug)]
pub struct HeaderBuilder<'o> {
    out: &'o mut Vec<u8>,
    /// The offset of the operand in `out`.
    start: usize,
}

impl<'o> HeaderBuilder<'o> {
    /// Begins the encoded header of a partition at the end of `out`. After every call of the
    /// builder that succeeds, the bytes there are a valid header.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend([HEADER_FORMAT, 0]);
        Self { out, start }
    }

    /// Writes the deletion of the whole partition; at most once, before all else.
    pub fn deletion(&mut self, deletion: Deletion) {
        debug_assert_eq!(self.out[self.start + 1], 0, "the deletion comes first");
        self.out[self.start + 1] |= flags::DELETION;
        put_deletion(self.out, deletion);
    }

    /// Writes deletions of ranges; at most once. The ranges may overlap and come in any order;
    /// empty ranges are left out.
    ///
    /// # Errors
    /// If the encoded ranges take 4 GiB or more.
    pub fn ranges(&mut self, ranges: &[RangeDeletion<'_>]) -> Result<(), RowError> {
        self.write_ranges(&ranges::union_all(ranges))
    }

    /// Begins the static row, the last part of the header. No timestamp in it may exceed
    /// `greatest_timestamp`: see [`RowBuilder::new`].
    pub fn static_row(self, greatest_timestamp: i64) -> RowBuilder<'o> {
        self.out[self.start + 1] |= flags::STATIC_ROW;
        RowBuilder::new(self.out, greatest_timestamp)
    }

    fn write_ranges(&mut self, pieces: &[RangeDeletion<'_>]) -> Result<(), RowError> {
        debug_assert!(
            self.out[self.start + 1] <= flags::DELETION,
            "ranges come once"
        );
        if pieces.is_empty() {
            return Ok(());
        }
        self.out[self.start + 1] |= flags::RANGES;
        let section = begin_section(self.out);
        for piece in pieces {
            put_bytes(self.out, piece.start);
            // No interval ends with the empty bytes, which sort first, so they can stand for "no
            // end".
            put_bytes(self.out, piece.end.unwrap_or_default());
            put_deletion(self.out, piece.deletion);
        }
        end_section(self.out, section)
    }

    /// Merges two operands of the static row, without the content that `rules` exclude, and writes
    /// the result if anything remains.
    fn write_static_row(
        self,
        one: RowRef<'_>,
        two: RowRef<'_>,
        rules: Rules,
    ) -> Result<(), RowError> {
        let at = self.out.len();
        if rules.write_exact(one, two, self.out)? {
            self.out[self.start + 1] |= flags::STATIC_ROW;
        } else {
            self.out.truncate(at);
        }
        Ok(())
    }
}

fn put_deletion(out: &mut Vec<u8>, deletion: Deletion) {
    put_signed(out, deletion.timestamp);
    put_signed(out, deletion.local_time_s);
}

fn read_deletion(reader: &mut Reader<'_>) -> Result<Deletion, RowError> {
    let timestamp = reader.signed()?;
    if timestamp == i64::MIN {
        return Err(reader.damaged("a deletion without a timestamp"));
    }
    Ok(Deletion {
        timestamp,
        local_time_s: reader.signed()?,
    })
}

fn read_range<'a>(reader: &mut Reader<'a>) -> Result<RangeDeletion<'a>, RowError> {
    let start = reader.bytes()?;
    let end = Some(reader.bytes()?).filter(|end| !end.is_empty());
    Ok(RangeDeletion {
        start,
        end,
        deletion: read_deletion(reader)?,
    })
}
