//! A block: some sorted versions, prefix-compressed, with restart points.
//!
//! ```text
//!   entry ... | restart offset u32 LE ... | number of restarts u32 LE
//!
//!   entry = varint shared | varint unshared | varint value_len
//!         | kind u8 | varint seq | key suffix | value
//! ```
//!
//! `shared` counts the leading bytes of the user key that are those of the
//! entry before; at a restart point it is 0, and so restart points can be
//! searched. Data blocks and the index have this form (see the book, Formats:
//! SSTable).
//!
//! Here is the reading of one entry and the search. Nothing is trusted, though
//! the block's checksum was right: every offset and length is checked, and every
//! entry ends after it starts, so each walk ends.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::{Buf, Bytes};

use super::damage::Damage;
use crate::key::{Kind, SeqNo};
use crate::varint;

const U32_BYTES: usize = size_of::<u32>();

/// A verified, uncompressed block. It has at least one entry, except as the index of a table
/// without data blocks. A clone shares the bytes.
#[derive(Debug, Clone)]
pub(super) struct Block {
    bytes: Bytes,
    /// The end of the entries, where the restart offsets begin.
    entries_end: usize,
    restarts: usize,
}

/// One entry, decoded in place. Positions are offsets in the block.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// The number of leading key bytes that are the same as in the entry before.
    pub(super) shared: usize,
    /// The bytes of the key behind the shared ones.
    pub(super) suffix: &'a [u8],
    pub(super) seq: SeqNo,
    pub(super) kind: Kind,
    pub(super) value: Range<usize>,
    pub(super) start: usize,
    /// The start of the next entry.
    pub(super) end: usize,
}

/// The entry that [`Block::find`] or [`Block::find_older`] found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) entry: Entry<'a>,
    /// Whether the entry has the sought user key; false if it has a larger one.
    pub(super) same_key: bool,
}

impl Block {
    /// Creates a block of uncompressed bytes. Checks that they have room for entries and for as
    /// many restart points as their last bytes state, and that the first restart point is the first
    /// byte.
    pub(super) fn new(bytes: Bytes) -> Result<Self, Damage> {
        let damage = || {
            Damage(format!(
                "a block of {} bytes has no room for its restart points",
                bytes.len()
            ))
        };
        let count = bytes.last_chunk::<U32_BYTES>().ok_or_else(damage)?;
        let restarts = u32::from_le_bytes(*count) as usize;
        let entries_end = restarts
            .checked_add(1)
            .and_then(|numbers| numbers.checked_mul(U32_BYTES))
            .and_then(|tail| bytes.len().checked_sub(tail))
            .ok_or_else(damage)?;
        let block = Self {
            bytes,
            entries_end,
            restarts,
        };
        if restarts == 0 || entries_end == 0 {
            return Err(Damage("a block without entries".into()));
        }
        if block.restart(0)? != 0 {
            return Err(Damage(
                "a block's first restart point is not its start".into(),
            ));
        }
        Ok(block)
    }

    /// Returns a block without entries, as the index of a table without data blocks is.
    pub(super) fn empty() -> Self {
        Self {
            bytes: Bytes::new(),
            entries_end: 0,
            restarts: 0,
        }
    }

    /// Returns the number of restart points, at least 1 unless the block is [`Self::empty`].
    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    /// Returns the offset of a restart point, below [`Self::entries_end`].
    pub(super) fn restart(&self, i: usize) -> Result<usize, Damage> {
        let offset = self
            .bytes
            .get(self.entries_end + i * U32_BYTES..)
            .and_then(|tail| tail.first_chunk::<U32_BYTES>())
            .map(|number| u32::from_le_bytes(*number) as usize);
        match offset {
            Some(offset) if i < self.restarts && offset < self.entries_end => Ok(offset),
            _ => Err(Damage(format!(
                "restart point {i} of {} is at {offset:?} of {} bytes of entries",
                self.restarts, self.entries_end
            ))),
        }
    }

    pub(super) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// Returns the value of an entry, at `range` in the block; it shares the block's memory.
    pub(super) fn value(&self, range: Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    /// Does the same as [`Self::value`], for a block that is no longer needed: the value takes over
    /// the block's reference to the memory.
    pub(super) fn into_value(self, range: Range<usize>) -> Bytes {
        let mut value = self.bytes;
        value.truncate(range.end);
        value.advance(range.start);
        value
    }

    /// Returns the value at `range`, borrowed from the block.
    pub(super) fn value_bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Returns the length of the block in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the memory of the block, to be reused.
    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Returns the keys and sequence numbers of two entries that are stored with their full keys:
    /// the first entry, and the one at the last restart point.
    pub(super) fn full_keys(&self) -> Result<[(&[u8], SeqNo); 2], Damage> {
        let full = |at: usize| {
            let entry = self.entry(at)?;
            match entry.shared {
                0 => Ok((entry.suffix, entry.seq)),
                _ => Err(self.bad_entry(at, "is a restart point but shares key bytes")),
            }
        };
        Ok([full(0)?, full(self.restart(self.restarts - 1)?)?])
    }

    #[inline]
    pub(super) fn entry(&self, start: usize) -> Result<Entry<'_>, Damage> {
        let entries = &self.bytes[..self.entries_end];
        let decode = || {
            let mut at = start;
            let shared = usize::try_from(varint::get(entries, &mut at)?).ok()?;
            let unshared = usize::try_from(varint::get(entries, &mut at)?).ok()?;
            let value_len = usize::try_from(varint::get(entries, &mut at)?).ok()?;
            let kind = Kind::from_byte(*entries.get(at)?)?;
            at += 1;
            let seq = SeqNo(varint::get(entries, &mut at)?);
            let value_start = at.checked_add(unshared)?;
            let suffix = entries.get(at..value_start)?;
            let end = value_start.checked_add(value_len)?;
            (end <= entries.len() && kind.fits(value_len)).then_some(Entry {
                shared,
                suffix,
                seq,
                kind,
                value: value_start..end,
                start,
                end,
            })
        };
        decode().ok_or_else(|| self.bad_entry(start, "does not decode"))
    }

    /// Returns the first entry at or after `(key, seq)`, in the order of versions (by key, and newest
    /// first); `None` if all entries come before. The full key of the found entry is
    /// `key[..entry.shared]` and its suffix.
    pub(super) fn find(&self, key: &[u8], seq: SeqNo) -> Result<Option<Found<'_>>, Damage> {
        let mut at = self.restart_before(key, seq)?;
        let mut before_len = 0;
        // The number of bytes that `key` shares with the previous entry, which is below the target.
        // If an entry shares more bytes than this with the previous entry, it differs from `key`
        // where the previous entry does, so it is below the target, too. Any other entry has the
        // first `entry.shared` bytes of `key`, so comparing its suffix is enough.
        let mut matched = 0;
        while at < self.entries_end {
            let entry = self.entry(at)?;
            if entry.shared > before_len {
                return Err(self.bad_entry(at, "shares more than the key before has"));
            }
            if entry.shared <= matched {
                let rest = &key[entry.shared..];
                match entry.suffix.cmp(rest) {
                    Ordering::Equal if entry.seq <= seq => {
                        return Ok(Some(Found {
                            entry,
                            same_key: true,
                        }));
                    }
                    Ordering::Greater => {
                        return Ok(Some(Found {
                            entry,
                            same_key: false,
                        }));
                    }
                    Ordering::Equal => matched = key.len(),
                    Ordering::Less => {
                        matched = entry.shared + common_prefix_len(entry.suffix, rest);
                    }
                }
            }
            before_len = entry.shared + entry.suffix.len();
            at = entry.end;
        }
        Ok(None)
    }

    /// Returns the entry at the offset `start` if its key is `key`; `None` if it has another key.
    /// The entry that ends at `start` must have the key `key`, and must not be the last one.
    pub(super) fn find_older(&self, key: &[u8], start: usize) -> Result<Option<Found<'_>>, Damage> {
        let entry = self.entry(start)?;
        let Some(rest) = key.get(entry.shared..) else {
            return Err(self.bad_entry(start, "shares more than the key before has"));
        };
        let same_key = entry.suffix == rest;
        Ok(same_key.then_some(Found { entry, same_key }))
    }

    /// Returns the offset of the last restart point whose entry is before `(key, seq)`; the first
    /// restart point if there is none.
    fn restart_before(&self, key: &[u8], seq: SeqNo) -> Result<usize, Damage> {
        // Restart points below `low` are smaller; from `high` on none is.
        let (mut low, mut high, mut best) = (0, self.restarts, 0);
        while low < high {
            let middle = low + (high - low) / 2;
            let offset = self.restart(middle)?;
            let entry = self.entry(offset)?;
            if entry.shared != 0 {
                return Err(self.bad_entry(offset, "is a restart point but shares key bytes"));
            }
            if entry.suffix.cmp(key).then_with(|| seq.cmp(&entry.seq)) == Ordering::Less {
                best = offset;
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(best)
    }

    #[cold]
    pub(super) fn bad_entry(&self, start: usize, what: &str) -> Damage {
        Damage(format!(
            "the entry at byte {start} of the block's {} bytes of entries {what}",
            self.entries_end
        ))
    }
}

/// Returns the number of leading bytes in which `a` and `b` are equal.
pub(super) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    for (i, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return i * 8 + difference.trailing_zeros() as usize / 8;
        }
    }
    let whole = a_words.len().min(b_words.len()) * 8;
    let tail = a[whole..].iter().zip(&b[whole..]);
    whole + tail.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes_are_counted_exactly() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..=a.len() {
            assert_eq!(common_prefix_len(&a, &a[..len]), len);
            assert_eq!(common_prefix_len(&a[..len], &a), len);
            if len < a.len() {
                let mut b = a.clone();
                b[len] ^= 0x80;
                assert_eq!(common_prefix_len(&a, &b), len);
            }
        }
    }

    #[test]
    fn frames_that_cannot_hold_an_entry_are_damage() {
        let frames: [&[u8]; 5] = [
            b"",
            b"abc",
            &[0, 0, 0, 0],
            &[0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0],
            &[0xff; 12],
        ];
        for frame in frames {
            assert!(
                Block::new(Bytes::copy_from_slice(frame)).is_err(),
                "{frame:?}"
            );
        }
    }
}
