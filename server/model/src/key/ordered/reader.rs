//! The reader of ordered forms.

use super::{EMPTY, PRESENT};

/// Decodes ordered forms from the front of a key. The bytes of a descending column are inverted.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    mask: u8,
}

/// An invalid ordered form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The kind of damage.
    pub what: &'static str,
    /// The offset of the damage in the reader's input.
    pub at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of ordered forms, one after the other in `bytes`. `inverted` is true if the
    /// first one is of a descending column, whose bytes are complemented.
    pub fn new(bytes: &'a [u8], inverted: bool) -> Self {
        Self {
            bytes,
            at: 0,
            mask: if inverted { 0xff } else { 0 },
        }
    }

    /// Sets whether the following bytes are complemented, as those of a descending column are.
    pub fn set_inverted(&mut self, inverted: bool) {
        self.mask = if inverted { 0xff } else { 0 };
    }

    /// Returns the number of bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    pub(super) fn fail<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { what, at: self.at })
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[b]| b)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(bytes.map(|b| b ^ self.mask))
            }
            None => self.fail("a value is cut off"),
        }
    }

    pub(super) fn many(&mut self, len: usize) -> Result<Vec<u8>, Malformed> {
        match self.bytes[self.at..].get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes.iter().map(|b| b ^ self.mask).collect())
            }
            None => self.fail("a value is cut off"),
        }
    }

    /// Reads a byte that is 1 before a value or a part of a collection, and 0 for an empty value or
    /// the end of a collection. Returns true for 1.
    pub(super) fn present(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            EMPTY => Ok(false),
            PRESENT => Ok(true),
            _ => self.fail("an unknown first byte"),
        }
    }
}
