//! The writes of a batch, encoded for the WAL while the batch is built.

use std::time::Duration;

use bytes::Bytes;

use super::ops::RANGE_DELETE;
use crate::error::{Error, Result};
use crate::key::expiry::{self, EXPIRY_BYTES};
use crate::key::{KeyRange, Kind, MAX_KEY_BYTES, TableId, check_lengths};
use crate::varint;

/// The largest encoded batch, in bytes: 1 GiB. (The overhead of the last operation is not checked, so a batch
/// may have a few bytes more.) The WAL stores the length of a payload in 32 bits, so the limit must stay well
/// below 4 GiB.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// The largest size of a put, a delete or a merge without its key and value, in bytes: its kind, a table's id
/// and the two lengths, each a varint of 32 bits, which takes up to five bytes.
const OP_OVERHEAD_BYTES_MAX: usize = 1 + 3 * 5;

/// The encoded operations of a batch of writes. An invalid operation is not added; the reason is kept in
/// `refused`, and the commit fails with it.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    count: u32,
    /// The positions in `bytes` of the expiries. Until [`Payload::finish`], a time to live in milliseconds is
    /// at each of them instead of an expiry.
    expiries: Vec<usize>,
    /// The reason why the commit must fail: the fault of the first invalid operation, or the reason that the
    /// first call of [`Payload::refuse`] passed, whichever came first. `None` if the commit need not fail.
    refused: Option<String>,
}

impl Payload {
    /// Adds an operation that sets a key. Returns false if the operation is invalid: it is then not
    /// added, and the commit fails.
    pub(crate) fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> bool {
        if !self.check(key, value) {
            return false;
        }
        // This reserves space for the whole operation, so that it takes one allocation at most.
        let bytes = key.len() + value.len() + OP_OVERHEAD_BYTES_MAX;
        self.bytes.reserve(bytes);
        self.begin(Kind::Put as u8, table, key);
        self.bytes(value);
        true
    }

    /// Adds an operation that sets a key. The value expires `ttl`, rounded up to whole milliseconds, after
    /// the commit. Returns whether the operation was added. If it is invalid, it is not added, and the commit
    /// fails.
    pub(crate) fn put_with_ttl(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> bool {
        if !self.check(key, value) {
            return false;
        }
        self.begin(Kind::ExpiringPut as u8, table, key);
        varint::put(&mut self.bytes, (EXPIRY_BYTES + value.len()) as u64);
        self.expiries.push(self.bytes.len());
        self.bytes
            .extend_from_slice(&expiry::ttl_ms(ttl).to_le_bytes());
        self.bytes.extend_from_slice(value);
        true
    }

    /// Adds an operation that changes a key's value by a merge operand. Returns whether the operation was
    /// added. If it is invalid, it is not added, and the commit fails.
    pub(crate) fn merge(&mut self, table: TableId, key: &[u8], operand: &[u8]) -> bool {
        if !self.check(key, operand) {
            return false;
        }
        self.begin(Kind::Merge as u8, table, key);
        self.bytes(operand);
        true
    }

    /// Adds an operation that deletes a key. Returns false if the operation is invalid: it is then
    /// not added, and the commit fails.
    pub(crate) fn delete(&mut self, table: TableId, key: &[u8]) -> bool {
        if !self.check(key, &[]) {
            return false;
        }
        self.begin(Kind::Delete as u8, table, key);
        true
    }

    /// Adds an operation that removes all keys of a range. Returns whether an operation was added.
    /// An empty range adds none. An invalid range adds none either, and makes the commit fail.
    pub(crate) fn delete_range(&mut self, table: TableId, range: &KeyRange) -> bool {
        if range.is_empty() || !self.check_range(range) {
            return false;
        }
        self.begin(RANGE_DELETE, table, &range.start);
        self.bytes.push(u8::from(range.end.is_some()));
        if let Some(end) = &range.end {
            self.bytes(end);
        }
        true
    }

    /// Makes the commit of the whole batch fail with this reason. If the commit must fail anyway, the earlier
    /// reason stays.
    pub(crate) fn refuse(&mut self, reason: String) {
        self.refused.get_or_insert(reason);
    }

    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the operations in the form of the WAL, and their number. Times to live count from `now_ms`,
    /// the time of the commit.
    ///
    /// # Errors
    /// `InvalidRequest` if an operation was invalid, or [`Payload::refuse`] was called.
    pub(crate) fn finish(mut self, now_ms: u64) -> Result<(Bytes, u32)> {
        if let Some(reason) = self.refused {
            return Err(Error::InvalidRequest(reason));
        }
        for at in self.expiries {
            let place = &mut self.bytes[at..at + EXPIRY_BYTES];
            let ttl_ms = u64::from_le_bytes((&*place).try_into().expect("eight bytes"));
            place.copy_from_slice(&now_ms.saturating_add(ttl_ms).to_le_bytes());
        }
        Ok((self.bytes.into(), self.count))
    }

    fn check(&mut self, key: &[u8], value: &[u8]) -> bool {
        let reason = if let Err(reason) = check_lengths(key, value) {
            reason
        } else if self.bytes.len() + key.len() + value.len() > MAX_BATCH_BYTES {
            format!("a batch of more than {MAX_BATCH_BYTES} bytes; write it in parts")
        } else {
            return true;
        };
        self.refused.get_or_insert(reason);
        false
    }

    fn check_range(&mut self, range: &KeyRange) -> bool {
        let end_bytes = range.end.as_ref().map_or(0, Bytes::len);
        let longest = end_bytes.max(range.start.len());
        // The end of a range may be the key right behind the longest one, which has a byte more.
        let reason = if longest > MAX_KEY_BYTES + 1 {
            format!("a key of {longest} bytes; the longest allowed is {MAX_KEY_BYTES}")
        } else if self.bytes.len() + range.start.len() + end_bytes > MAX_BATCH_BYTES {
            format!("a batch of more than {MAX_BATCH_BYTES} bytes; write it in parts")
        } else {
            return true;
        };
        self.refused.get_or_insert(reason);
        false
    }

    fn begin(&mut self, byte: u8, table: TableId, key: &[u8]) {
        self.bytes.push(byte);
        varint::put(&mut self.bytes, u64::from(table.0));
        self.bytes(key);
        self.count += 1;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        varint::put(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }
}
