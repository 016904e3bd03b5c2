//! Names and types of a result's columns or a statement's markers, as they travel.

use bytes::{BufMut, Bytes, BytesMut};
use ebb_catalog::types::CqlType;

use super::fault::{ProtocolError, Result};
use super::reader::Reader;
use super::writer;

/// All columns are of one table, which is named once.
pub(super) const GLOBAL_TABLE: i32 = 0x0001;
pub(super) const HAS_MORE_PAGES: i32 = 0x0002;
pub(super) const NO_METADATA: i32 = 0x0004;
/// How deep a type that was received may nest.
const TYPE_DEPTH_MAX: usize = 64;

/// Columns in the form of the wire. It is made once, when a statement is prepared, and
/// copied into each result; cloning shares it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns {
    count: u32,
    global_table: bool,
    // The table once where `global_table`; then for each column its table unless that,
    // its name, and its type as an [option].
    bytes: Bytes,
}

/// A column to be sent, or the marker of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec<'a> {
    /// Of its table.
    pub keyspace: &'a str,
    /// Its table.
    pub table: &'a str,
    /// Its name, its alias, or what computes it. What is past 65,535 bytes is not sent.
    pub name: &'a str,
    /// What its values are.
    pub ty: &'a CqlType,
}

/// A column as it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    /// Of its table.
    pub keyspace: &'a str,
    /// Its table.
    pub table: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its type, as an `[option]`.
    pub type_option: &'a [u8],
}

impl Columns {
    /// Columns in their order. The table is named once where it is the same for all.
    ///
    /// # Panics
    /// Where the name of a keyspace or table has more than 65,535 bytes; past 2^31 - 1
    /// columns.
    pub fn new(specs: &[ColumnSpec<'_>]) -> Self {
        let count = i32::try_from(specs.len()).expect("less than 2^31 columns");
        let global = specs.first().map(|spec| (spec.keyspace, spec.table));
        let one_table = |global: &(&str, &str)| {
            let mut all = specs.iter();
            all.all(|spec| (spec.keyspace, spec.table) == *global)
        };
        let global = global.filter(one_table);
        let (mut out, mut option) = (BytesMut::new(), Vec::new());
        if let Some((keyspace, table)) = global {
            writer::string(&mut out, keyspace);
            writer::string(&mut out, table);
        }
        for spec in specs {
            if global.is_none() {
                writer::string(&mut out, spec.keyspace);
                writer::string(&mut out, spec.table);
            }
            writer::string_cut(&mut out, spec.name);
            option.clear();
            spec.ty.write_option(&mut option);
            out.put_slice(&option);
        }
        Self {
            count: count.unsigned_abs(),
            global_table: global.is_some(),
            bytes: out.freeze(),
        }
    }

    /// How many columns.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// No column.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that they add to a result with metadata.
    pub fn metadata_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The columns, in order.
    pub fn iter(&self) -> impl Iterator<Item = Column<'_>> {
        let mut reader = Reader::new(&self.bytes);
        let global = self.global_table.then(|| table(&mut reader));
        let global = global.and_then(Result::ok);
        // All were read before: they cannot fail now.
        (0..self.count).map_while(move |_| column(&mut reader, global).ok())
    }

    pub(super) fn flags(&self) -> i32 {
        match self.global_table {
            true => GLOBAL_TABLE,
            false => 0,
        }
    }

    pub(super) fn write_specs(&self, out: &mut BytesMut) {
        out.put_slice(&self.bytes);
    }

    /// `count` columns from a reader that stands at them. `body` is what the reader
    /// reads from, whose memory they share.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        body: &Bytes,
        flags: i32,
        count: usize,
    ) -> Result<Self> {
        let from = reader.rest();
        let global_table = flags & GLOBAL_TABLE != 0;
        let global = global_table.then(|| table(reader)).transpose()?;
        for _ in 0..count {
            column(reader, global)?;
        }
        if count == 0 {
            return Ok(Self::default());
        }
        let bytes = body.slice_ref(&from[..from.len() - reader.rest().len()]);
        Ok(Self {
            count: count as u32,
            global_table,
            bytes,
        })
    }
}

fn table<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, &'a str)> {
    let what = "the table of columns";
    Ok((reader.string(what)?, reader.string(what)?))
}

fn column<'a>(reader: &mut Reader<'a>, global: Option<(&'a str, &'a str)>) -> Result<Column<'a>> {
    let (keyspace, table) = match global {
        Some(global) => global,
        None => table(reader)?,
    };
    let name = reader.string("the name of a column")?;
    let from = reader.rest();
    skip_type(reader, TYPE_DEPTH_MAX)?;
    let type_option = &from[..from.len() - reader.rest().len()];
    Ok(Column {
        keyspace,
        table,
        name,
        type_option,
    })
}

/// Steps over an `[option]` that is a type.
fn skip_type(reader: &mut Reader<'_>, depth_left: usize) -> Result<()> {
    let what = "the type of a column";
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err(ProtocolError::Forbidden("a type nests too deep"));
    };
    match reader.short(what)? {
        0x00 => reader.string(what).map(drop),
        0x01..=0x09 | 0x0B..=0x15 => Ok(()),
        0x20 | 0x22 => skip_type(reader, depth_left),
        0x21 => {
            skip_type(reader, depth_left)?;
            skip_type(reader, depth_left)
        }
        0x30 => {
            reader.string(what)?;
            reader.string(what)?;
            for _ in 0..reader.short(what)? {
                reader.string(what)?;
                skip_type(reader, depth_left)?;
            }
            Ok(())
        }
        0x31 => {
            for _ in 0..reader.short(what)? {
                skip_type(reader, depth_left)?;
            }
            Ok(())
        }
        code => Err(ProtocolError::UnknownCode {
            what: "type",
            code: code.into(),
        }),
    }
}
