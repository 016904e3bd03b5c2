//! A zero-copy decoder of row operands.
//!
//! The layout is drawn in the book, Formats: CQL rows. A column that is not requested is skipped by
//! its lengths, a collection by the single length of its section.

use super::bytes::Reader;
use super::cell::{Cell, Deletion, Element, Expiry, Lifetime, Marker, Original};
use super::error::RowError;

/// The first byte of a row operand (an encoded write of a row): the kind of operand, 1, in the
/// upper four bits, and the version of its format, 1, in the lower.
pub(super) const ROW_FORMAT: u8 = 0x11;

/// The bits of the second byte of a row operand (an encoded write of a row): which of deletion,
/// marker and original clustering come before the columns, and whether the marker expires.
pub(super) mod flags {
    pub(in super::super) const DELETION: u8 = 1;
    pub(in super::super) const MARKER: u8 = 2;
    pub(in super::super) const MARKER_EXPIRES: u8 = 4;
    pub(in super::super) const ORIGINAL: u8 = 8;
    pub(super) const ALL: u8 = 15;
}

/// Bits of the tag byte before each column and each element.
pub(super) mod tag {
    pub(in super::super) const KIND: u8 = 3;
    pub(in super::super) const PERMANENT: u8 = 0;
    pub(in super::super) const EXPIRING: u8 = 1;
    pub(in super::super) const TOMBSTONE: u8 = 2;
    pub(in super::super) const COLLECTION: u8 = 3;
    /// For a cell: its timestamp follows, because it differs from
    /// [`RowRef::greatest_timestamp`](super::RowRef::greatest_timestamp). For a collection: the
    /// deletion of its older elements follows.
    pub(in super::super) const TIMESTAMP: u8 = 4;
    /// For an expiring cell: its time to live and expiry follow. For a tombstone: the server's time
    /// of the deletion follows. Without the bit, they equal those in [`Recent`](super::Recent).
    pub(in super::super) const TIMES: u8 = 8;
    /// For elements only: the map key or set member as the client wrote it follows, because it
    /// cannot be decoded from the path, the ordered form under which elements are stored.
    pub(in super::super) const ORIGINAL: u8 = 16;
    /// For columns only: the shift of the upper four bits of the tag, which contain the number of
    /// column ids that are skipped between the column before and this one. If the number is 15 or
    /// more, they contain [`ID_FOLLOWS`], which is 15, and the number less 15 follows as a varint.
    pub(in super::super) const ID_SHIFT: u32 = 4;
    pub(in super::super) const ID_FOLLOWS: u8 = 15;
}

/// The times that were read or written last: the expiry of a marker or cell, and the time of a
/// deletion or tombstone by the server's clock. Most cells of one write have the same times, and do
/// not store them again. Each collection has a copy of its own, which begins with the last times
/// before the collection. So the times of its elements do not affect later columns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recent {
    pub(super) expiry: Option<Expiry>,
    pub(super) local_time_s: Option<i64>,
}

/// A row operand (an encoded write of a row) whose deletion, marker and original clustering are
/// decoded. Its columns are decoded on iteration.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    base: i64,
    deletion: Option<Deletion>,
    marker: Option<Marker>,
    original: Option<Original<'a>>,
    columns: Columns<'a>,
}

impl<'a> RowRef<'a> {
    /// The operand of a row without content.
    pub const EMPTY: RowRef<'static> = RowRef {
        base: i64::MIN,
        deletion: None,
        marker: None,
        original: None,
        columns: Columns {
            reader: Reader::EMPTY,
            base: i64::MIN,
            recent: Recent {
                expiry: None,
                local_time_s: None,
            },
            next_id: 0,
        },
    };

    /// Decodes the deletion, the marker and the original clustering of a row operand (an encoded
    /// write of a row). Its columns, which follow, are decoded on iteration.
    ///
    /// # Errors
    /// If the first byte is not that of a row operand, or one of these parts is damaged.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RowError> {
        Self::parse_at(Reader::new(bytes))
    }

    /// Decodes a row operand like [`RowRef::parse`], from the rest of a larger operand: the static
    /// row of a partition's header.
    pub(super) fn parse_at(mut reader: Reader<'a>) -> Result<Self, RowError> {
        reader.format(ROW_FORMAT)?;
        let bits = reader.byte()?;
        let expires = bits & flags::MARKER_EXPIRES != 0;
        if bits & !flags::ALL != 0 || expires && bits & flags::MARKER == 0 {
            return Err(reader.damaged("unknown flags of a row"));
        }
        let base = reader.signed()?;
        let mut recent = Recent::default();
        let deletion = if bits & flags::DELETION != 0 {
            Some(read_deletion(&mut reader, base, &mut recent)?)
        } else {
            None
        };
        let marker = if bits & flags::MARKER != 0 {
            Some(Marker {
                timestamp: read_timestamp(&mut reader, base, true)?,
                expiry: if expires {
                    Some(read_expiry(&mut reader, &mut recent, true)?)
                } else {
                    None
                },
            })
        } else {
            None
        };
        let original = if bits & flags::ORIGINAL != 0 {
            Some(Original {
                timestamp: read_timestamp(&mut reader, base, true)?,
                bytes: reader.bytes()?,
            })
        } else {
            None
        };
        Ok(Self {
            base,
            deletion,
            marker,
            original,
            columns: Columns {
                reader,
                base,
                recent,
                next_id: 0,
            },
        })
    }

    /// Returns an upper bound of the timestamps in the operand. If a merge wrote the operand, the
    /// bound is the greatest timestamp itself, or [`i64::MIN`] if the operand is empty.
    pub fn greatest_timestamp(&self) -> i64 {
        self.base
    }

    /// Returns the row's deletion; `None` if it has none.
    pub fn deletion(&self) -> Option<Deletion> {
        self.deletion
    }

    /// Returns the row's marker, live or not; `None` if it has none.
    pub fn marker(&self) -> Option<Marker> {
        self.marker
    }

    /// Returns the original clustering (the clustering values as the client wrote them), if it
    /// cannot be decoded from the key.
    pub fn original(&self) -> Option<Original<'a>> {
        self.original
    }

    /// Returns the columns, by ascending id.
    pub fn columns(&self) -> Columns<'a> {
        self.columns
    }

    /// Returns whether the row has no content.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_none()
            && self.marker.is_none()
            && self.original.is_none()
            && self.columns.reader.is_empty()
    }
}

/// The content of one column in an encoded row.
#[derive(Debug, Clone, Copy)]
pub enum Column<'a> {
    /// The cell of a column with a single value (frozen collections too).
    Cell(Cell<'a>),
    /// A collection that is not frozen.
    Collection(CollectionRef<'a>),
}

/// A collection in an encoded row. Its elements are not decoded yet.
#[derive(Debug, Clone, Copy)]
pub struct CollectionRef<'a> {
    deletion: Option<Deletion>,
    elements: Elements<'a>,
}

impl<'a> CollectionRef<'a> {
    /// Returns the deletion of all older elements, which an assignment of a whole collection
    /// writes; `None` if the older elements stay.
    pub fn deletion(&self) -> Option<Deletion> {
        self.deletion
    }

    /// Returns the elements, by ascending path.
    pub fn elements(&self) -> Elements<'a> {
        self.elements
    }
}

/// Iterates over the columns of an encoded row by ascending id; ends at the first error.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    reader: Reader<'a>,
    base: i64,
    recent: Recent,
    /// The least column id that may come next, because ids ascend.
    next_id: u64,
}

impl<'a> Columns<'a> {
    #[inline]
    fn read(&mut self) -> Result<(u32, Column<'a>), RowError> {
        let reader = &mut self.reader;
        let bits = reader.byte()?;
        let above = bits >> tag::ID_SHIFT;
        let above = match above {
            tag::ID_FOLLOWS => reader.varint()?.saturating_add(u64::from(above)),
            above => u64::from(above),
        };
        let id = u32::try_from(self.next_id.saturating_add(above))
            .map_err(|_| reader.damaged("a column id of more than 32 bits"))?;
        self.next_id = u64::from(id) + 1;
        let column = if bits & tag::KIND == tag::COLLECTION {
            if bits & tag::TIMES != 0 {
                return Err(reader.damaged("unknown flags of a collection"));
            }
            let mut section = reader.section()?;
            let mut recent = self.recent;
            let deletion = if bits & tag::TIMESTAMP != 0 {
                Some(read_deletion(&mut section, self.base, &mut recent)?)
            } else {
                None
            };
            Column::Collection(CollectionRef {
                deletion,
                elements: Elements {
                    reader: section,
                    base: self.base,
                    recent,
                    last: None,
                },
            })
        } else {
            Column::Cell(read_cell(reader, bits, self.base, &mut self.recent)?)
        };
        Ok((id, column))
    }
}

impl<'a> Iterator for Columns<'a> {
    type Item = Result<(u32, Column<'a>), RowError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let column = self.read();
        if column.is_err() {
            self.reader = Reader::EMPTY;
        }
        Some(column)
    }
}

/// Iterates over the elements of a collection by ascending path; ends at the first error.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    reader: Reader<'a>,
    base: i64,
    recent: Recent,
    last: Option<&'a [u8]>,
}

impl<'a> Elements<'a> {
    #[inline]
    fn read(&mut self) -> Result<Element<'a>, RowError> {
        let reader = &mut self.reader;
        let bits = reader.byte()?;
        if bits & tag::KIND == tag::COLLECTION || bits >> tag::ID_SHIFT > 1 {
            return Err(reader.damaged("unknown flags of an element"));
        }
        let path = reader.bytes()?;
        if self.last.is_some_and(|last| last >= path) {
            return Err(reader.damaged("elements out of order"));
        }
        self.last = Some(path);
        let original = if bits & tag::ORIGINAL != 0 {
            Some(reader.bytes()?)
        } else {
            None
        };
        let cell = read_cell(reader, bits, self.base, &mut self.recent)?;
        Ok(Element {
            path,
            original,
            cell,
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, RowError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let element = self.read();
        if element.is_err() {
            self.reader = Reader::EMPTY;
        }
        Some(element)
    }
}

/// Decodes a cell, whose tag byte with the flags `bits` has been read. Its timestamp is stored as
/// the distance below `base`; times that are not stored are those in `recent`.
#[inline]
fn read_cell<'a>(
    reader: &mut Reader<'a>,
    bits: u8,
    base: i64,
    recent: &mut Recent,
) -> Result<Cell<'a>, RowError> {
    let timestamp = read_timestamp(reader, base, bits & tag::TIMESTAMP != 0)?;
    let own_times = bits & tag::TIMES != 0;
    let lifetime = match bits & tag::KIND {
        tag::PERMANENT if own_times => {
            return Err(reader.damaged("a time of a cell that has none"));
        }
        tag::PERMANENT => Lifetime::Permanent,
        tag::EXPIRING => Lifetime::Expiring(read_expiry(reader, recent, own_times)?),
        _ => {
            if own_times {
                recent.local_time_s = Some(reader.signed()?);
            }
            let local_time_s = recent
                .local_time_s
                .ok_or_else(|| reader.damaged("a tombstone without a time"))?;
            return Ok(Cell {
                timestamp,
                lifetime: Lifetime::Tombstone { local_time_s },
                value: &[],
            });
        }
    };
    Ok(Cell {
        timestamp,
        lifetime,
        value: reader.bytes()?,
    })
}

/// Decodes a timestamp, stored as its distance below `base`, the operand's greatest timestamp. If
/// `own` is false, none is stored, and the timestamp equals `base`.
#[inline]
fn read_timestamp(reader: &mut Reader<'_>, base: i64, own: bool) -> Result<i64, RowError> {
    let below = if own { reader.varint()? } else { 0 };
    base.checked_sub_unsigned(below)
        .filter(|&timestamp| timestamp != i64::MIN)
        .ok_or_else(|| reader.damaged("a timestamp of more than 64 bits"))
}

fn read_deletion(
    reader: &mut Reader<'_>,
    base: i64,
    recent: &mut Recent,
) -> Result<Deletion, RowError> {
    let timestamp = read_timestamp(reader, base, true)?;
    let local_time_s = reader.signed()?;
    recent.local_time_s = Some(local_time_s);
    Ok(Deletion {
        timestamp,
        local_time_s,
    })
}

#[inline]
fn read_expiry(
    reader: &mut Reader<'_>,
    recent: &mut Recent,
    own: bool,
) -> Result<Expiry, RowError> {
    if own {
        let ttl_s = reader.varint()?;
        let ttl_s = u32::try_from(ttl_s)
            .ok()
            .filter(|&ttl_s| ttl_s > 0)
            .ok_or_else(|| reader.damaged("a time to live of 0 or of more than 32 bits"))?;
        let expiry_s = reader.signed()?;
        recent.expiry = Some(Expiry { ttl_s, expiry_s });
    }
    recent
        .expiry
        .ok_or_else(|| reader.damaged("an expiring cell without an expiry"))
}
