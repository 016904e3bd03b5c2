//! The depth of the schema of a Parquet file.
//!
//! The library reads a schema by recursion. A stack that overflows ends the process, and is no panic that could be
//! caught, so the depth is found before: in the footer, and without recursion into the schema. A footer is in Thrift's
//! compact protocol. It lists the schema's elements. A group has the number of its children, which follow it.
//! The library reserves memory for this number, so that is checked as well.
//!
//! The library reads a field that Parquet has by its id, whatever type the footer gives it. Where the two differ, it
//! finds another schema than this module, so a footer is refused unless its fields have Parquet's types.

use bytes::Bytes;
use parquet::errors::Result as ParquetResult;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;
use parquet::file::reader::ChunkReader;

/// The greatest number of groups around a column, including the root of the schema. A list of CQL takes two
/// groups. Deeper schemas could overflow the stack of the Parquet library.
const DEPTH_MAX: usize = 127;

/// The id of a footer's first field: the version of the format.
const VERSION: i16 = 1;
/// The id of a footer's second field: the schema.
const SCHEMA: i16 = 2;

/// The id of a schema element's name. The fields up to [`LOGICAL_TYPE`] that have no constant here are
/// integers.
const NAME: i16 = 4;
/// The id of the number of a schema element's children.
const CHILDREN: i16 = 5;
/// The id of a schema element's logical type.
const LOGICAL_TYPE: i16 = 10;

/// Ids of the logical types whose structs have fields that are not booleans. The id is the type's field in
/// the union `LogicalType`.
mod kind {
    pub(super) const DECIMAL: i16 = 5;
    pub(super) const TIME: i16 = 7;
    pub(super) const TIMESTAMP: i16 = 8;
    pub(super) const INTEGER: i16 = 10;
    pub(super) const VARIANT: i16 = 16;
    pub(super) const GEOMETRY: i16 = 17;
    pub(super) const GEOGRAPHY: i16 = 18;
}

/// The greatest depth of nested values that are skipped unread. The Parquet library skips no deeper ones.
const PASSED_DEPTH_MAX: u32 = 64;

/// The codes of types in Thrift's compact protocol, the encoding of a Parquet file's footer.
mod ty {
    /// The code that ends a struct, in place of the type of a field.
    pub(super) const STOP: u8 = 0;
    /// The code of a boolean field that is true. It contains the value of the field, so no bytes follow.
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
    pub(super) const UUID: u8 = 13;
}

/// Checks that the Parquet library can read the schema of a file without harm to the process. A file without
/// a footer, or with an encrypted one, passes: the library reports what is wrong with it.
///
/// # Errors
/// If the schema is malformed or nested too deeply, if a group has more children than the schema has
/// elements, or if the footer cannot be read. The error is a sentence.
pub(super) fn check(file: &impl ChunkReader) -> Result<(), String> {
    let Some(footer) = footer(file).map_err(|error| error.to_string())? else {
        return Ok(());
    };
    let schema = Schema::of(&footer).ok_or(
        "the schema in its footer is damaged, or is not encoded as Parquet has it; write the file again",
    )?;
    if schema.children_max > schema.elements {
        return Err(format!(
            "its schema has a group of {} children, and {} elements in all",
            schema.children_max, schema.elements
        ));
    }
    if schema.depth > DEPTH_MAX {
        return Err(format!(
            "its schema is nested {} levels deep, and ebb reads at most {DEPTH_MAX}",
            schema.depth
        ));
    }
    Ok(())
}

/// The depth and the size of a Parquet file's schema.
#[derive(Debug, Default, PartialEq, Eq)]
struct Schema {
    /// The greatest number of groups, nested in each other, around a column.
    depth: usize,
    /// The number of groups and columns.
    elements: u64,
    /// The greatest number of children that the footer gives a group.
    children_max: u64,
}

/// Reads the footer of a file; `None` if there is none, if the file is shorter than its footer should be, or
/// if the footer is encrypted.
fn footer(file: &impl ChunkReader) -> ParquetResult<Option<Bytes>> {
    let Some(tail_at) = file.len().checked_sub(FOOTER_SIZE as u64) else {
        return Ok(None);
    };
    let tail = file.get_bytes(tail_at, FOOTER_SIZE)?;
    let tail = FooterTail::try_from(&tail[..]).ok();
    let Some(tail) = tail.filter(|tail| !tail.is_encrypted_footer()) else {
        return Ok(None);
    };
    let length = tail.metadata_length();
    let start = tail_at.checked_sub(length as u64);
    start.map(|start| file.get_bytes(start, length)).transpose()
}

impl Schema {
    /// Finds the schema in a footer; `None` if the footer has none, or is malformed before the end of the
    /// schema.
    fn of(footer: &[u8]) -> Option<Self> {
        let mut bytes = Compact { rest: footer };
        let mut id = 0;
        if (bytes.field(&mut id)?, id) != (ty::I32, VERSION) {
            return None;
        }
        bytes.varint()?;
        if (bytes.field(&mut id)?, id) != (ty::LIST, SCHEMA) {
            return None;
        }
        let (ty::STRUCT, elements) = bytes.list()? else {
            return None;
        };
        let mut schema = Self {
            elements,
            ..Self::default()
        };
        // The groups around the next element, each with the number of its children that are still to come.
        let mut open: Vec<u64> = Vec::new();
        for _ in 0..elements {
            let children = bytes.children()?;
            while open.pop_if(|left| *left == 0).is_some() {}
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push(children);
                schema.depth = schema.depth.max(open.len());
                schema.children_max = schema.children_max.max(children);
            }
        }
        Some(schema)
    }
}

/// A reader of bytes in Thrift's compact protocol. Each function returns `None` if the bytes end too early,
/// or are malformed.
struct Compact<'b> {
    rest: &'b [u8],
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn pass_bytes(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads an integer in the zigzag encoding, whose lowest bit is the sign.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        let half = i64::try_from(value >> 1).ok()?;
        Some(if value & 1 == 0 { half } else { -half - 1 })
    }

    /// Reads the header of a struct's next field, and returns the code of the field's type, or [`ty::STOP`]
    /// at the end of the struct. `id` must be the id of the field before (0 before the first one), and is set
    /// to the id of this field: most headers contain only the difference.
    fn field(&mut self, id: &mut i16) -> Option<u8> {
        let header = self.byte()?;
        let ty = header & 0x0f;
        if ty != ty::STOP {
            *id = match header >> 4 {
                0 => i16::try_from(self.integer()?).ok()?,
                more => id.checked_add(more.into())?,
            };
        }
        Some(ty)
    }

    /// Reads a struct: calls `read` with the id and the type of each field, to read its value.
    fn fields(&mut self, mut read: impl FnMut(&mut Self, i16, u8) -> Option<()>) -> Option<()> {
        let mut id = 0;
        loop {
            match self.field(&mut id)? {
                ty::STOP => return Some(()),
                ty => read(self, id, ty)?,
            }
        }
    }

    /// Reads the type of the elements of a list, and their number.
    fn list(&mut self) -> Option<(u8, u64)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.varint()?,
            few => few.into(),
        };
        Some((header & 0x0f, count))
    }

    /// Skips the value of a field of type `ty`. Returns `None` if the value is malformed, ends too early, or
    /// consists of more than `depth_left` levels of lists, sets, maps and structs.
    fn pass(&mut self, ty: u8, depth_left: u32) -> Option<()> {
        match ty {
            ty::TRUE | ty::FALSE => Some(()),
            ty::LIST | ty::SET => {
                let depth_left = depth_left.checked_sub(1)?;
                let (ty, count) = self.list()?;
                (0..count).try_for_each(|_| self.pass_element(ty, depth_left))
            }
            ty::MAP => {
                let depth_left = depth_left.checked_sub(1)?;
                let count = self.varint()?;
                let types = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.pass_element(types >> 4, depth_left)?;
                    self.pass_element(types & 0x0f, depth_left)
                })
            }
            ty::STRUCT => {
                let depth_left = depth_left.checked_sub(1)?;
                self.fields(|bytes, _, ty| bytes.pass(ty, depth_left))
            }
            ty::BYTE => self.pass_bytes(1),
            ty::I16 | ty::I32 | ty::I64 => self.varint().map(drop),
            ty::DOUBLE => self.pass_bytes(8),
            ty::UUID => self.pass_bytes(16),
            ty::BINARY => {
                let length = self.varint()?;
                self.pass_bytes(length)
            }
            _ => None,
        }
    }

    /// Skips an element, of the type `ty`, of a list, a set or a map. Returns `None` in the same
    /// cases as [`pass`](Self::pass). Also returns `None` for a boolean: as an element it takes a
    /// byte, which the Parquet library does not skip. `depth_left` is the number of levels that may
    /// be nested in the element.
    fn pass_element(&mut self, ty: u8, depth_left: u32) -> Option<()> {
        match ty {
            // Each has a byte, which the library does not skip.
            ty::TRUE | ty::FALSE => None,
            other => self.pass(other, depth_left),
        }
    }

    /// Skips the value of a field of type `ty`. Returns `None` if the type is not `expected`, and
    /// in the cases in which [`pass`](Self::pass) does.
    fn pass_expected(&mut self, ty: u8, expected: u8) -> Option<()> {
        if ty == expected {
            self.pass(ty, PASSED_DEPTH_MAX)
        } else {
            None
        }
    }

    /// Reads an element of the schema, and returns the number of its children: 0 for a column.
    fn children(&mut self) -> Option<u64> {
        let mut children = 0;
        self.fields(|bytes, id, ty| match (id, ty) {
            (CHILDREN, ty::I32) => {
                children = u64::try_from(bytes.integer()?).ok()?;
                Some(())
            }
            (LOGICAL_TYPE, ty::STRUCT) => bytes.pass_logical_type(),
            (CHILDREN | LOGICAL_TYPE, _) => None,
            (NAME, _) => bytes.pass_expected(ty, ty::BINARY),
            (1..LOGICAL_TYPE, _) => bytes.pass_expected(ty, ty::I32),
            _ => bytes.pass(ty, PASSED_DEPTH_MAX),
        })?;
        Some(children)
    }

    /// Skips a logical type: a struct with one field, whose id is the kind of the type. Returns `None` if the
    /// bytes have another form.
    fn pass_logical_type(&mut self) -> Option<()> {
        self.fields(|bytes, kind, ty| {
            if ty != ty::STRUCT {
                return None;
            }
            bytes.fields(|bytes, id, ty| match (kind, id) {
                (kind::DECIMAL, 1 | 2) | (kind::GEOGRAPHY, 2) => bytes.pass_expected(ty, ty::I32),
                (kind::INTEGER | kind::VARIANT, 1) => bytes.pass_expected(ty, ty::BYTE),
                (kind::GEOMETRY | kind::GEOGRAPHY, 1) => bytes.pass_expected(ty, ty::BINARY),
                // The unit, a struct whose only field is an empty struct.
                (kind::TIME | kind::TIMESTAMP, 2) if ty == ty::STRUCT => {
                    bytes.fields(|bytes, _, ty| bytes.pass_expected(ty, ty::STRUCT))
                }
                (kind::TIME | kind::TIMESTAMP, 2) => None,
                _ => bytes.pass(ty, PASSED_DEPTH_MAX),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the beginning of a Parquet footer, up to the end of its schema, which has one column. `fields`
    /// are encoded fields of the column's schema element, which follow its name (id 4).
    fn footer(fields: &[u8]) -> Vec<u8> {
        let start = &b"\x15\x02\x19\x2c\x48\x01m\x15\x02\0\x15\x02\x25\0\x18\x01x"[..];
        [start, fields, b"\0"].concat()
    }

    #[test]
    fn fields_of_all_types_are_passed_over_and_a_footer_without_its_end_has_no_schema() {
        let fields: [&[u8]; 8] = [
            // A timestamp in UTC, in milliseconds.
            b"\x6c\x8c\x11\x1c\x1c\0\0\0\0",
            // Fields with ids from 100 on, which are in full: a boolean, a UUID, a list of integers, a map of an
            // integer to a text, a struct with an integer, a double, and a set without elements.
            b"\x01\xc8\x01",
            b"\x0d\xca\x01 sixteen bytes. ",
            b"\x09\xcc\x01\x25\x01\x02",
            b"\x0b\xce\x01\x01\x58\x02\x01x",
            b"\x0c\xd0\x01\x15\x02\0",
            b"\x07\xd2\x01 double ",
            b"\x0a\xd4\x01\0",
        ];
        let footer = footer(&fields.concat());
        let schema = Schema {
            depth: 1,
            elements: 2,
            children_max: 1,
        };
        assert_eq!(Schema::of(&footer), Some(schema));
        for end in 0..footer.len() {
            assert_eq!(Schema::of(&footer[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_footer_that_the_library_would_read_in_another_way_has_no_schema() {
        let fields: [&[u8]; 9] = [
            // The number of children as a text, as a negative number, and with an id that is 5 in its lowest 16 bits.
            b"\x18\x01x",
            b"\x15\x01",
            b"\x05\x8a\x80\x08\0",
            // An integer of more than ten bytes.
            b"\x45\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0",
            // A logical type that is an integer, a kind and a unit that are booleans, and a scale that is a text.
            b"\x65\0",
            b"\x6c\x11\0",
            b"\x6c\x8c\x11\x1c\x11\0\0\0",
            b"\x6c\x5c\x18\x01x\0\0",
            // A list of booleans.
            b"\x09\xcc\x01\x21\x01\x02",
        ];
        assert!(Schema::of(&footer(b"")).is_some());
        for field in fields {
            assert_eq!(Schema::of(&footer(field)), None, "{field:?}");
        }
        // The version as a text.
        let footer = footer(b"").split_off(2);
        assert_eq!(Schema::of(&[&b"\x18\x01x"[..], &footer].concat()), None);
    }
}
