//! The live elements of a collection that is not frozen, and its native serialization.
//!
//! Elements are stored by ascending path, and paths are bytes that sort as the element's type
//! sorts: module `key` encodes them. So operands merge without types and schemas, which neither a
//! merge operator has nor a process that folds the files of another one. The alternative, a
//! comparator function, would have to be found again for the schema of the time at each place that
//! merges. The price: to write out a whole collection, each key or member is decoded from its path,
//! and stored beside it if it cannot be decoded.

use super::cell::Deletion;
use super::decode::{CollectionRef, Elements};
use super::error::RowError;
use super::live::{LiveCell, live_cell};
use crate::key::ordered::{self, DecodeError};
use crate::types::{Charge, CqlType};

/// The live elements of a collection, at least one.
#[derive(Debug, Clone, Copy)]
pub struct LiveCollection<'a> {
    collection: CollectionRef<'a>,
    /// The newest deletion, by its timestamp, that covers the collection: its own, or that of its
    /// row or partition.
    deletion: Option<Deletion>,
    read_time_s: i64,
}

/// An element of a collection, as a reader sees it at its read time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveElement<'a> {
    /// The path: the key, member, place in the list or field number, as bytes that sort in the
    /// order of its type.
    pub path: &'a [u8],
    /// The key or member in native serialization, if it cannot be decoded from `path`.
    pub original: Option<&'a [u8]>,
    /// The element's value; empty in a set.
    pub cell: LiveCell<'a>,
}

impl LiveElement<'_> {
    /// Appends the length of the key or member (four bytes, big endian), then the key or member in
    /// native serialization: the stored original, or without one the result of `decode` for the
    /// path.
    fn write_key<E: From<RowError>>(
        &self,
        out: &mut Vec<u8>,
        decode: &mut impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(original) = self.original {
            put_value(out, original)?;
            return Ok(());
        }
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        decode(self.path, out)?;
        let len = i32::try_from(out.len() - at - 4).map_err(|_| TOO_LONG)?;
        out[at..at + 4].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }
}

const TOO_LONG: RowError = RowError::Build("a collection of 2 GiB or more");

impl<'a> LiveCollection<'a> {
    pub(super) fn new(
        collection: CollectionRef<'a>,
        above: Option<Deletion>,
        read_time_s: i64,
    ) -> Self {
        Self {
            collection,
            deletion: collection.deletion().max(above),
            read_time_s,
        }
    }

    /// Returns the live elements, by ascending path: sets and maps in the order of their type,
    /// lists from front to back.
    pub fn elements(&self) -> LiveElements<'a> {
        LiveElements {
            collection: *self,
            elements: self.collection.elements(),
        }
    }

    /// Returns the element with this path (its stored sort key), if it is live.
    ///
    /// # Errors
    /// If the operand is damaged.
    pub fn element(&self, path: &[u8]) -> Result<Option<LiveElement<'a>>, RowError> {
        for element in self.elements() {
            let element = element?;
            if element.path >= path {
                return Ok(Some(element).filter(|element| element.path == path));
            }
        }
        Ok(None)
    }

    /// Appends, in native serialization, the collection or the value of a user-defined type that is
    /// not frozen. `ty` is its type. Calls `charge` before it decodes a decimal in a path (an
    /// element's stored sort key), as [`ordered::decode`] does.
    ///
    /// # Errors
    /// If the operand is damaged, `ty` is not a type of several cells, a path is invalid for the
    /// type, or an element has 2 GiB or more; the error of `charge`. `out` then ends with an
    /// incomplete collection.
    pub fn write_value<E>(
        &self,
        ty: &CqlType,
        out: &mut Vec<u8>,
        charge: Charge<'_, E>,
    ) -> Result<(), DecodeError<RowError, E>> {
        match ty {
            CqlType::List { .. } => self.write_list(out)?,
            CqlType::Set { element, .. } => {
                self.write_set(out, |path, out| decode_path(element, path, out, charge))?;
            }
            CqlType::Map { key, .. } => {
                self.write_map(out, |path, out| decode_path(key, path, out, charge))?;
            }
            CqlType::Udt { definition, .. } => {
                let fields = u16::try_from(definition.fields().len()).unwrap_or(u16::MAX);
                self.write_fields(fields, out)?;
            }
            _ => {
                return Err(DecodeError::Damaged(RowError::Damaged {
                    what: "a collection in a column of one value",
                    offset: 0,
                }));
            }
        }
        Ok(())
    }

    pub(super) fn write_list(&self, out: &mut Vec<u8>) -> Result<(), RowError> {
        self.write(out, |element, out| put_value(out, element.cell.value))
    }

    /// Appends a set in native serialization. `decode` decodes the path of an element, its stored
    /// sort key, and appends the member.
    pub(super) fn write_set<E: From<RowError>>(
        &self,
        out: &mut Vec<u8>,
        mut decode: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write(out, |element, out| element.write_key(out, &mut decode))
    }

    /// Appends a map in native serialization. `decode` decodes the path of an element, its stored
    /// sort key, and appends the map's key.
    pub(super) fn write_map<E: From<RowError>>(
        &self,
        out: &mut Vec<u8>,
        mut decode: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write(out, |element, out| {
            element.write_key(out, &mut decode)?;
            put_value(out, element.cell.value)?;
            Ok(())
        })
    }

    /// Appends, in native serialization, a value of a user-defined type that is not frozen and has
    /// `fields` fields: the value of each field in order, and null for a field without a live
    /// element. The path of an element is the position of its field as two bytes, big endian, so
    /// elements have the order of the fields.
    pub(super) fn write_fields(&self, fields: u16, out: &mut Vec<u8>) -> Result<(), RowError> {
        let mut elements = self.elements();
        let mut element = elements.next().transpose()?;
        for field in 0..fields {
            let path = field.to_be_bytes();
            while element.is_some_and(|element| *element.path < path[..]) {
                element = elements.next().transpose()?;
            }
            match element {
                Some(element) if *element.path == path[..] => {
                    put_value(out, element.cell.value)?;
                }
                _ => out.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        Ok(())
    }

    /// Appends the number of live elements (four bytes, big endian). Then calls `put` for each of
    /// them to append it.
    fn write<E: From<RowError>>(
        &self,
        out: &mut Vec<u8>,
        mut put: impl FnMut(&LiveElement<'a>, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut count = 0_i32;
        for element in self.elements() {
            put(&element?, out)?;
            count = count.checked_add(1).ok_or(TOO_LONG)?;
        }
        out[at..at + 4].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }
}

/// Iterates over the live elements of a collection: see [`LiveCollection::elements`].
#[derive(Debug, Clone)]
pub struct LiveElements<'a> {
    collection: LiveCollection<'a>,
    elements: Elements<'a>,
}

impl<'a> Iterator for LiveElements<'a> {
    type Item = Result<LiveElement<'a>, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let element = match self.elements.next()? {
                Ok(element) => element,
                Err(error) => return Some(Err(error)),
            };
            let LiveCollection {
                deletion,
                read_time_s,
                ..
            } = self.collection;
            if let Some(cell) = live_cell(element.cell, deletion, read_time_s) {
                return Some(Ok(LiveElement {
                    path: element.path,
                    original: element.original,
                    cell,
                }));
            }
        }
    }
}

/// Decodes a path, the stored sort key of an element, and appends the set's member or the map's key.
fn decode_path<E>(
    ty: &CqlType,
    path: &[u8],
    out: &mut Vec<u8>,
    charge: Charge<'_, E>,
) -> Result<(), DecodeError<RowError, E>> {
    let value = ordered::decode(ty, &mut ordered::Reader::new(path, false), charge);
    let value = value.map_err(|error| {
        error.map_damage(|malformed| RowError::Damaged {
            what: malformed.what,
            offset: malformed.at,
        })
    })?;
    out.extend_from_slice(&value);
    Ok(())
}

/// Appends a value after its length, four bytes in big endian.
fn put_value(out: &mut Vec<u8>, value: &[u8]) -> Result<(), RowError> {
    let len = i32::try_from(value.len()).map_err(|_| TOO_LONG)?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}
