//! Integers and byte strings of operands: a bounds-checked reader, and the functions that write its
//! input.

use super::RowError;

/// Appends an unsigned LEB128 integer: seven bits per byte, lowest first, the top bit
/// set on all but the last.
#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed integer as a zigzag varint, so that small absolute values are short.
#[inline]
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends the length of a byte string as a varint, and then its bytes.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A reader of an operand (an encoded write of a row or of a partition's header), from front to
/// back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const EMPTY: Reader<'static> = Reader { bytes: &[], at: 0 };

    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[cold]
    pub(super) fn damaged(&self, what: &'static str) -> RowError {
        RowError::Damaged {
            what,
            offset: self.at,
        }
    }

    /// Reads the first byte of an operand, which encodes the operand's kind and version. Returns an
    /// error if the byte is not `expected`.
    pub(super) fn format(&mut self, expected: u8) -> Result<(), RowError> {
        match self.bytes.get(self.at) {
            Some(&found) if found == expected => {
                self.at += 1;
                Ok(())
            }
            Some(&found) => Err(RowError::Format { expected, found }),
            None if self.at == 0 => Err(RowError::Empty),
            None => Err(self.damaged("the bytes end early")),
        }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, RowError> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => Err(self.damaged("the bytes end early")),
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, RowError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long_varint(u64::from(first & 0x7f))
    }

    /// Reads the remaining bytes of an integer that has two bytes or more; `value` has the bits of
    /// the first byte.
    fn long_varint(&mut self, mut value: u64) -> Result<u64, RowError> {
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte contains only the 64th bit.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damaged("an integer of more than 64 bits"))
    }

    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64, RowError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a byte string that follows its length, a varint.
    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], RowError> {
        let len = self.varint()?;
        self.take(len)
    }

    /// Returns a reader of the section that begins here, and moves behind the section. A section is
    /// a part that follows its length, four bytes in little endian: the fixed width lets the writer
    /// fill in the length at the end.
    #[inline]
    pub(super) fn section(&mut self) -> Result<Reader<'a>, RowError> {
        let len = self.take(4)?;
        let len = u32::from_le_bytes(len.try_into().expect("four bytes were taken"));
        let start = self.at;
        self.take(u64::from(len))?;
        // The section's offsets count from the start of the operand, so that errors report
        // positions in it.
        Ok(Reader {
            bytes: &self.bytes[..self.at],
            at: start,
        })
    }

    #[inline]
    fn take(&mut self, len: u64) -> Result<&'a [u8], RowError> {
        let left = self.bytes.len() - self.at;
        match usize::try_from(len) {
            Ok(len) if len <= left => {
                let bytes = &self.bytes[self.at..self.at + len];
                self.at += len;
                Ok(bytes)
            }
            _ => Err(self.damaged("a length beyond the end of the bytes")),
        }
    }
}

/// Appends four bytes for the length of a section, to be filled in by [`end_section`]. Returns the
/// offset after them, where the section's content begins.
pub(super) fn begin_section(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len()
}

/// Fills in the length of a section, a part of an operand that a reader can skip. The section's
/// content reaches from `start`, the result of [`begin_section`], to the end of `out`. Fails if the
/// content has 4 GiB or more.
pub(super) fn end_section(out: &mut [u8], start: usize) -> Result<(), RowError> {
    let len = u32::try_from(out.len() - start)
        .map_err(|_| RowError::Build("a section of 4 GiB or more"))?;
    out[start - 4..start].copy_from_slice(&len.to_le_bytes());
    Ok(())
}
