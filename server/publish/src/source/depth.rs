//! The depth of the schema of a Parquet file.
//!
//! The library reads a schema by recursion. A stack that overflows ends the process, and is no panic that could be
//! caught, so the depth is found before: in the footer, and without recursion into the schema. A footer is in Thrift's
//! compact protocol. It lists the schema's elements. A group has the number of its children, which stand behind it.
//! The library reserves memory for this number, so that is checked as well.

use bytes::Bytes;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;
use parquet::file::reader::{ChunkReader, Length};

use super::place::PlaceReader;

/// The greatest number of groups around a column, the root of the schema included. A list of CQL takes two of them.
const DEPTH_MAX: usize = 127;

/// The field id of the schema in the footer.
const SCHEMA: i16 = 2;

/// The field id of the number of children, in an element of the schema.
const CHILDREN: i16 = 5;

/// The greatest depth of nested values that are skipped unread. The Parquet library skips no deeper ones.
const PASSED_DEPTH_MAX: u32 = 64;

/// The codes of types in Thrift's compact protocol, the encoding of a Parquet file's footer.
mod ty {
    /// The end of a struct, in place of a field.
    pub(super) const STOP: u8 = 0;
    /// A boolean that is true. In a field the code is the value, and no bytes follow; in a list each boolean has a
    /// byte.
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

/// Checks that the library can read the schema of a file. A file that is malformed passes: the error of the library
/// has its reason.
///
/// # Errors
/// A sentence about the schema, if it is nested too deeply, or a group has more children than there are elements.
pub(super) fn check(file: &PlaceReader) -> Result<(), String> {
    let Some(schema) = footer(file).and_then(|footer| Schema::of(&footer)) else {
        return Ok(());
    };
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
    /// The greatest number of groups, one within another, around an element.
    depth: usize,
    /// Groups and columns.
    elements: u64,
    /// The greatest number of children of a group, as the footer has it.
    children_max: u64,
}

/// Reads the footer of a file; `None` if there is none, or if it cannot be read.
fn footer(file: &PlaceReader) -> Option<Bytes> {
    let tail_at = file.len().checked_sub(FOOTER_SIZE as u64)?;
    let tail = file.get_bytes(tail_at, FOOTER_SIZE).ok()?;
    let length = FooterTail::try_from(&tail[..]).ok()?.metadata_length();
    let start = tail_at.checked_sub(length as u64)?;
    file.get_bytes(start, length).ok()
}

impl Schema {
    /// Finds the schema in a footer; `None` if it has none.
    fn of(footer: &[u8]) -> Option<Self> {
        let mut bytes = Compact { rest: footer };
        let mut id = 0;
        loop {
            match bytes.field(&mut id)? {
                ty::STOP => return None,
                // The library takes it for a list, whatever type the field has.
                _ if id == SCHEMA => break,
                other => bytes.pass(other, PASSED_DEPTH_MAX)?,
            }
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
            // The library takes a negative number for none.
            let children = u64::try_from(bytes.children()?).unwrap_or(0);
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

/// Bytes in the compact protocol. Each function returns `None` where they end too early, or are malformed.
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

    /// Reads an integer with a sign, which is in the lowest bit.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        let half = i64::try_from(value >> 1).ok()?;
        Some(if value & 1 == 0 { half } else { -half - 1 })
    }

    /// Reads the type of the next field of a struct, or its end. `id` is the id of the field before, and becomes that
    /// of the field.
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

    /// Reads the type of the elements of a list, and their number.
    fn list(&mut self) -> Option<(u8, u64)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.varint()?,
            few => few.into(),
        };
        Some((header & 0x0f, count))
    }

    /// Skips the value of a field of type `ty`. Returns `None` if the value is malformed, ends too early, or is
    /// nested in more than `depth_left` levels.
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
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        ty::STOP => return Some(()),
                        ty => self.pass(ty, depth_left)?,
                    }
                }
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

    /// Passes over an element of a list, a set or a map.
    fn pass_element(&mut self, ty: u8, depth_left: u32) -> Option<()> {
        match ty {
            ty::TRUE | ty::FALSE => self.pass_bytes(1),
            other => self.pass(other, depth_left),
        }
    }

    /// Reads an element of the schema, and returns the number of its children.
    fn children(&mut self) -> Option<i64> {
        let (mut children, mut id) = (0, 0);
        loop {
            match self.field(&mut id)? {
                ty::STOP => return Some(children),
                // The library takes it for an integer, whatever type the field has.
                _ if id == CHILDREN => children = self.integer()?,
                other => self.pass(other, PASSED_DEPTH_MAX)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_types_are_passed_over_and_a_footer_without_its_end_has_no_schema() {
        let fields: [&[u8]; 10] = [
            b"\x15\x02",
            // Fields with ids from 100 on, which are in full: a boolean, a UUID, a list of booleans, a map of an
            // integer to a text, a struct with an integer, a double, and a set without elements.
            b"\x01\xc8\x01",
            b"\x0d\xca\x01 sixteen bytes. ",
            b"\x09\xcc\x01\x21\x01\x02",
            b"\x0b\xce\x01\x01\x58\x02\x01x",
            b"\x0c\xd0\x01\x15\x02\0",
            b"\x07\xd2\x01 double ",
            b"\x0a\xd4\x01\0",
            // The schema: a root with one column.
            b"\x09\x04\x2c\x48\x01m\x15\x02\0",
            b"\x15\x02\x25\0\x18\x01x\0",
        ];
        let footer = fields.concat();
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
}
