//! Names and types of a result's columns or a statement's markers, and their encoding.

use std::convert::Infallible;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use ebb_model::types::{Charge, CqlType, DurationOption};
use md5::{Digest, Md5};

use super::fault::{ProtocolError, Result};
use super::reader::Reader;
use super::version::Version;
use super::writer;

/// A flag: all columns belong to one table, which is named once.
pub(super) const GLOBAL_TABLE: i32 = 0x0001;
pub(super) const HAS_MORE_PAGES: i32 = 0x0002;
pub(super) const NO_METADATA: i32 = 0x0004;
pub(super) const METADATA_CHANGED: i32 = 0x0008;
/// The maximal nesting of a received type. It bounds the recursion of [`skip_type`], because a server
/// can send any bytes.
const TYPE_DEPTH_MAX: usize = 64;

/// The encoded columns of a result, or bind markers of a statement. They are encoded once, when a
/// statement is prepared, and copied into each result; clones share the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns {
    count: u32,
    global_table: bool,
    // As version 5 sends them. If `global_table` is set, the table once; then for each column its
    // table (unless `global_table` is set), its name, and its type as an [option].
    bytes: Bytes,
    // As version 4 sends them, which differs for durations only. Without durations it shares the
    // memory of `bytes`.
    bytes_v4: Bytes,
}

impl Version {
    /// Returns the encoding of the type `duration` in this version.
    fn durations(self) -> DurationOption {
        match self {
            Self::V4 => DurationOption::Class,
            Self::V5 => DurationOption::Id,
        }
    }
}

/// A column to encode: a column of a result, or the bind marker of a prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec<'a> {
    pub keyspace: &'a str,
    pub table: &'a str,
    /// The name, the alias, or the expression of the column. Like the other names, it is cut at the
    /// last character that fits into 65,535 bytes.
    pub name: &'a str,
    pub ty: &'a CqlType,
}

/// A column that was decoded from [`Columns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    pub keyspace: &'a str,
    pub table: &'a str,
    pub name: &'a str,
    /// The type, encoded as an `[option]` of the protocol.
    pub type_option: &'a [u8],
}

impl Columns {
    /// Encodes columns in this order. The table is named once if all columns belong to the same one.
    ///
    /// # Panics
    /// If there are more than 2^31 - 1 columns.
    pub fn new(specs: &[ColumnSpec<'_>]) -> Self {
        let Ok(columns) = Self::try_new::<Infallible>(specs, &mut |_| Ok(()));
        columns
    }

    /// Encodes columns like [`new`](Self::new), and calls `charge` after each column with the
    /// length of its encoding in bytes. It is meant for statements of clients: each mention of a
    /// column in a statement repeats the column's type, and a type may have thousands of fields. If
    /// any type contains a `duration`, all columns are encoded and charged twice, for version 5 and
    /// for version 4.
    ///
    /// # Errors
    /// The error of `charge`.
    ///
    /// # Panics
    /// Panics in the same cases as [`new`](Self::new).
    pub fn try_new<E>(
        specs: &[ColumnSpec<'_>],
        charge: Charge<'_, E>,
    ) -> std::result::Result<Self, E> {
        let count = i32::try_from(specs.len()).expect("less than 2^31 columns");
        let global = specs.first().map(|spec| (spec.keyspace, spec.table));
        let one_table = |global: &(&str, &str)| {
            let mut all = specs.iter();
            all.all(|spec| (spec.keyspace, spec.table) == *global)
        };
        let global = global.filter(one_table);
        let mut written = |version: Version| -> std::result::Result<Bytes, E> {
            let (mut out, mut option) = (BytesMut::new(), Vec::new());
            if let Some((keyspace, table)) = global {
                writer::string(&mut out, keyspace);
                writer::string(&mut out, table);
            }
            for spec in specs {
                let before = out.len();
                if global.is_none() {
                    writer::string(&mut out, spec.keyspace);
                    writer::string(&mut out, spec.table);
                }
                writer::string(&mut out, spec.name);
                option.clear();
                spec.ty.write_option(version.durations(), &mut option);
                out.put_slice(&option);
                charge(out.len() - before)?;
            }
            Ok(out.freeze())
        };
        let bytes = written(Version::V5)?;
        let bytes_v4 = if specs.iter().any(|spec| spec.ty.contains_duration()) {
            written(Version::V4)?
        } else {
            bytes.clone()
        };
        Ok(Self {
            count: count.unsigned_abs(),
            global_table: global.is_some(),
            bytes_v4,
            bytes,
        })
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the id by which clients refer to these columns since version 5. It is a hash of the
    /// encoded columns, so equal ids mean equal columns.
    pub fn id(&self) -> [u8; 16] {
        Md5::digest(&self.bytes).into()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the memory that the encoded columns take, in bytes. They add at most as much to a
    /// result message.
    pub fn metadata_bytes(&self) -> usize {
        if self.has_durations() {
            self.bytes.len() + self.bytes_v4.len()
        } else {
            self.bytes.len()
        }
    }

    fn has_durations(&self) -> bool {
        self.bytes.len() != self.bytes_v4.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Column<'_>> {
        let mut reader = Reader::new(&self.bytes);
        let global = self.global_table.then(|| table(&mut reader));
        let global = global.and_then(Result::ok);
        // All columns were decoded before, so this cannot fail.
        (0..self.count).map_while(move |_| column(&mut reader, global, &mut Vec::new()).ok())
    }

    pub(super) fn flags(&self) -> i32 {
        if self.global_table { GLOBAL_TABLE } else { 0 }
    }

    pub(super) fn write_specs(&self, out: &mut BytesMut, version: Version) {
        out.put_slice(match version {
            Version::V4 => &self.bytes_v4,
            Version::V5 => &self.bytes,
        });
    }

    /// Reads `count` columns. `reader` must read from `body`, because the result shares the memory
    /// of `body`.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        body: &Bytes,
        flags: i32,
        count: usize,
    ) -> Result<Self> {
        let from = reader.rest();
        let global_table = flags & GLOBAL_TABLE != 0;
        let global = global_table.then(|| table(reader)).transpose()?;
        let mut durations = Vec::new();
        for _ in 0..count {
            column(reader, global, &mut durations)?;
        }
        if count == 0 {
            return Ok(Self::default());
        }
        let read = body.slice_ref(&from[..from.len() - reader.rest().len()]);
        let places: Vec<Range<usize>> = durations
            .iter()
            .map(|left| from.len() - left.start..from.len() - left.end)
            .collect();
        let written = |version: Version| {
            if places.is_empty() {
                read.clone()
            } else {
                with_durations(&read, &places, version.durations())
            }
        };
        Ok(Self {
            count: count as u32,
            global_table,
            bytes: written(Version::V5),
            bytes_v4: written(Version::V4),
        })
    }
}

/// Returns a copy of the encoded columns `read` in which each type `duration` has the form
/// `durations`. `places` are the byte ranges of these types in `read`, in ascending order.
fn with_durations(read: &[u8], places: &[Range<usize>], durations: DurationOption) -> Bytes {
    let mut out = Vec::with_capacity(read.len());
    let mut from = 0;
    for place in places {
        out.extend_from_slice(&read[from..place.start]);
        durations.write(&mut out);
        from = place.end;
    }
    out.extend_from_slice(&read[from..]);
    out.into()
}

fn table<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, &'a str)> {
    let what = "the table of columns";
    Ok((reader.string(what)?, reader.string(what)?))
}

/// Reads the next column. `global` is the keyspace and the table of all columns; `None` if each
/// column has its own. Appends a range to `durations` for each type `duration` within the column's
/// type. Its start is the number of bytes that are left to read before the `duration`, and its end
/// the number that is left after it.
fn column<'a>(
    reader: &mut Reader<'a>,
    global: Option<(&'a str, &'a str)>,
    durations: &mut Vec<Range<usize>>,
) -> Result<Column<'a>> {
    let (keyspace, table) = match global {
        Some(global) => global,
        None => table(reader)?,
    };
    let name = reader.string("the name of a column")?;
    let from = reader.rest();
    skip_type(reader, TYPE_DEPTH_MAX, durations)?;
    let type_option = &from[..from.len() - reader.rest().len()];
    Ok(Column {
        keyspace,
        table,
        name,
        type_option,
    })
}

/// Skips the `[option]` that encodes a type. Appends the position of each `duration` type in it to
/// `durations`, in the form that [`column`] describes. Fails if types nest deeper than `depth_left`
/// levels.
fn skip_type(
    reader: &mut Reader<'_>,
    depth_left: usize,
    durations: &mut Vec<Range<usize>>,
) -> Result<()> {
    let what = "the type of a column";
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err(ProtocolError::Forbidden("a type nests too deep"));
    };
    let before = reader.rest().len();
    match reader.short(what)? {
        0x00 => {
            if DurationOption::is_class(reader.string(what)?) {
                durations.push(before..reader.rest().len());
            }
            Ok(())
        }
        DurationOption::ID => {
            durations.push(before..reader.rest().len());
            Ok(())
        }
        0x01..=0x09 | 0x0B..=0x14 => Ok(()),
        0x20 | 0x22 => skip_type(reader, depth_left, durations),
        0x21 => {
            skip_type(reader, depth_left, durations)?;
            skip_type(reader, depth_left, durations)
        }
        0x30 => {
            reader.string(what)?;
            reader.string(what)?;
            for _ in 0..reader.short(what)? {
                reader.string(what)?;
                skip_type(reader, depth_left, durations)?;
            }
            Ok(())
        }
        0x31 => {
            for _ in 0..reader.short(what)? {
                skip_type(reader, depth_left, durations)?;
            }
            Ok(())
        }
        code => Err(ProtocolError::unknown_code("type", code)),
    }
}
