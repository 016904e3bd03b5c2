//! A reader of the specification's notations (its section 3) that borrows the bytes.

use super::consistency::Consistency;
use super::fault::{ProtocolError, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// No value; writing it deletes the cell.
    Null,
    /// Leaves the cell unchanged.
    Unset,
    /// A value in the format of its type.
    Bytes(&'a [u8]),
}

/// Reads items in sequence. Results borrow from the bytes; only lists and maps allocate, a `Vec` of
/// borrowed items. The position after a failed read is undefined.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.left
    }

    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8]> {
        let Some((taken, left)) = self.left.split_at_checked(n) else {
            return Err(ProtocolError::Truncated {
                what,
                needed_bytes: n,
                left_bytes: self.left.len(),
            });
        };
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let taken = self.take(N, what)?;
        Ok(*taken.first_chunk().expect("as many bytes as were taken"))
    }

    pub fn byte(&mut self, what: &'static str) -> Result<u8> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub fn short(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn int(&mut self, what: &'static str) -> Result<i32> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub fn long(&mut self, what: &'static str) -> Result<i64> {
        self.array(what).map(i64::from_be_bytes)
    }

    pub fn uuid(&mut self, what: &'static str) -> Result<[u8; 16]> {
        self.array(what)
    }

    /// Reads an `[int]` that is a count; a negative one is an error.
    pub fn count(&mut self, what: &'static str) -> Result<usize> {
        let count = self.int(what)?;
        usize::try_from(count).map_err(|_| ProtocolError::length(what, count))
    }

    fn text(bytes: &'a [u8], what: &'static str) -> Result<&'a str> {
        std::str::from_utf8(bytes).map_err(|_| ProtocolError::NotUtf8 { what })
    }

    pub fn string(&mut self, what: &'static str) -> Result<&'a str> {
        Self::text(self.short_bytes(what)?, what)
    }

    pub fn long_string(&mut self, what: &'static str) -> Result<&'a str> {
        let length = self.count(what)?;
        Self::text(self.take(length, what)?, what)
    }

    pub fn short_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let length = self.short(what)?;
        self.take(length.into(), what)
    }

    /// Reads `[bytes]`: every negative length is a null.
    pub fn bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.int(what)?) {
            Ok(length) => self.take(length, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads a `[value]`: -1 is a null, -2 unset, other negative lengths are errors.
    pub fn value(&mut self, what: &'static str) -> Result<Value<'a>> {
        match self.int(what)? {
            -1 => Ok(Value::Null),
            -2 => Ok(Value::Unset),
            length => match usize::try_from(length) {
                Ok(n) => self.take(n, what).map(Value::Bytes),
                Err(_) => Err(ProtocolError::length(what, length)),
            },
        }
    }

    pub fn consistency(&mut self) -> Result<Consistency> {
        Consistency::from_code(self.short("consistency level")?)
    }

    /// Reads a `[string list]`. Each string takes 16 bytes of the result, and at least 2 bytes of the
    /// encoded list, so that a short message cannot make the reader allocate much memory.
    pub fn string_list(&mut self, what: &'static str) -> Result<Vec<&'a str>> {
        let count = self.short(what)?;
        (0..count).map(|_| self.string(what)).collect()
    }

    /// Reads a `[string map]`. Keeps the order sent, and repeated keys.
    pub fn string_map(&mut self, what: &'static str) -> Result<Vec<(&'a str, &'a str)>> {
        let count = self.short(what)?;
        let pair = |_| Ok((self.string(what)?, self.string(what)?));
        (0..count).map(pair).collect()
    }

    /// Reads a `[string multimap]`. Keeps the order sent, and repeated keys.
    pub fn string_multimap(&mut self, what: &'static str) -> Result<Vec<(&'a str, Vec<&'a str>)>> {
        let count = self.short(what)?;
        let pair = |_| Ok((self.string(what)?, self.string_list(what)?));
        (0..count).map(pair).collect()
    }

    pub fn skip_bytes_map(&mut self, what: &'static str) -> Result<()> {
        for _ in 0..self.short(what)? {
            self.string(what)?;
            self.bytes(what)?;
        }
        Ok(())
    }
}
