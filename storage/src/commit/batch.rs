//! Write batches, and the operations as they stand in the WAL (the book,
//! Formats: WAL).
//!
//! ```text
//!   put              01 | table varint | key len varint | key | value len varint | value
//!   delete           02 | table varint | key len varint | key
//!   merge            03 | table varint | key len varint | key | operand len varint | operand
//!   range delete     04 | table varint | start len varint | start
//!                       | bounded u8 (0 or 1) [| end len varint | end]
//!   expiring put     05 | table varint | key len varint | key | 8 + value len varint | expiry u64 LE | value
//!   ingest           06 | table varint | len varint | JSON
//!   snapshot create  10 | len varint | JSON
//!   snapshot delete  11 | len varint | JSON
//!   snapshot expiry  12 | len varint | JSON
//! ```

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::db::TableCore;
use crate::error::{Error, Result};
use crate::key::{Kind, NUMBER_MAX, SeqNo};
use crate::read::expiry::{self, EXPIRY_BYTES};
use crate::retention::register::{SnapshotExpiry, SnapshotRecord};
use crate::table::Table;
use crate::varint;
use crate::version::key_range::KeyRange;
use crate::version::run::RunMeta;
use crate::version::table_version::TableId;

/// The longest key, in bytes: 64 KiB.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// The longest value, in bytes: 256 MiB.
pub const MAX_VALUE_BYTES: usize = 256 << 20;
/// The largest batch, in bytes: 1 GiB. A WAL record's length is 32 bits.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// What an operation on one key takes beside key and value: its kind, a table's id
/// and the two lengths, of 32 bits each.
const OP_OVERHEAD_BYTES_MAX: usize = 1 + 3 * 5;

const RANGE_DELETE: u8 = 0x04;
const INGEST: u8 = 0x06;
const SNAPSHOT_CREATE: u8 = 0x10;
const SNAPSHOT_DELETE: u8 = 0x11;
const SNAPSHOT_EXPIRY: u8 = 0x12;

/// Writes to any tables of one database that become visible, and survive a
/// crash, all or none. Of two writes to one key the later one counts.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
/// let app = db.keyspace("app")?;
/// let (users, mails) = (app.table("users", Default::default())?, app.table("mails", Default::default())?);
/// let mut batch = ebb_storage::WriteBatch::new();
/// batch.put(&users, b"ada", b"1815");
/// batch.delete(&mails, b"old");
/// db.write(batch)?;
/// # Ok::<(), ebb_storage::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct WriteBatch {
    payload: Vec<u8>,
    count: u32,
    /// The tables written to, each once.
    tables: Vec<Arc<TableCore>>,
    /// Where in the payload expiries stand: times to live until the commit.
    expiries: Vec<usize>,
    /// Why the first operation that cannot be done cannot; reported by the write.
    refused: Option<String>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key. Limits ([`MAX_KEY_BYTES`], [`MAX_VALUE_BYTES`]) are checked
    /// by [`Db::write`](crate::Db::write), before anything is written.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        if self.check(key, value) {
            self.reserve(key.len() + value.len());
            self.begin(Kind::Put, &table.core, key);
            self.bytes(value);
        }
    }

    /// Sets a key until `ttl` (in milliseconds, rounded up) after the commit.
    pub fn put_with_ttl(&mut self, table: &Table, key: &[u8], value: &[u8], ttl: Duration) {
        if self.check(key, value) {
            self.begin(Kind::ExpiringPut, &table.core, key);
            varint::put(&mut self.payload, (EXPIRY_BYTES + value.len()) as u64);
            self.expiries.push(self.payload.len());
            self.payload
                .extend_from_slice(&expiry::ttl_ms(ttl).to_le_bytes());
            self.payload.extend_from_slice(value);
        }
    }

    /// Changes a key's value by an operand of the table's merge operator.
    pub fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) {
        if let Err(e) = table.core.check_merges() {
            self.refused.get_or_insert(e.to_string());
        } else if self.check(key, operand) {
            self.begin(Kind::Merge, &table.core, key);
            self.bytes(operand);
        }
    }

    /// Removes a key.
    pub fn delete(&mut self, table: &Table, key: &[u8]) {
        if self.check(key, &[]) {
            self.begin(Kind::Delete, &table.core, key);
        }
    }

    /// Removes all keys of a range. An empty range adds no operation.
    pub fn delete_range<K: AsRef<[u8]>, R: RangeBounds<K>>(&mut self, table: &Table, range: R) {
        let range = KeyRange::new(range);
        if range.is_empty() || !self.check_range(&range) {
            return;
        }
        self.begin_op(RANGE_DELETE, &table.core, &range.start);
        self.payload.push(u8::from(range.end.is_some()));
        if let Some(end) = &range.end {
            self.bytes(end);
        }
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn tables(&self) -> &[Arc<TableCore>] {
        &self.tables
    }

    /// The operations as they go into the WAL when they are committed at
    /// `now_ms`, how many they are, and the tables that they write to.
    pub(crate) fn into_payload(mut self, now_ms: u64) -> Result<(Bytes, u32, Vec<Arc<TableCore>>)> {
        if let Some(reason) = self.refused {
            return Err(Error::InvalidRequest(reason));
        }
        for at in self.expiries {
            let place = &mut self.payload[at..at + EXPIRY_BYTES];
            let ttl_ms = u64::from_le_bytes((&*place).try_into().expect("eight bytes"));
            place.copy_from_slice(&now_ms.saturating_add(ttl_ms).to_le_bytes());
        }
        Ok((self.payload.into(), self.count, self.tables))
    }

    fn check(&mut self, key: &[u8], value: &[u8]) -> bool {
        let reason = if let Err(reason) = check_lengths(key, value) {
            reason
        } else if self.payload.len() + key.len() + value.len() > MAX_BATCH_BYTES {
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
        // The key right behind the longest one has a byte more.
        let reason = if longest > MAX_KEY_BYTES + 1 {
            format!("a key of {longest} bytes; the longest allowed is {MAX_KEY_BYTES}")
        } else if self.payload.len() + range.start.len() + end_bytes > MAX_BATCH_BYTES {
            format!("a batch of more than {MAX_BATCH_BYTES} bytes; write it in parts")
        } else {
            return true;
        };
        self.refused.get_or_insert(reason);
        false
    }

    /// Makes room for an operation with so many bytes of key and value: at once,
    /// not as it grows.
    fn reserve(&mut self, bytes: usize) {
        self.payload.reserve(bytes + OP_OVERHEAD_BYTES_MAX);
    }

    fn begin(&mut self, kind: Kind, table: &Arc<TableCore>, key: &[u8]) {
        self.begin_op(kind as u8, table, key);
    }

    fn begin_op(&mut self, byte: u8, table: &Arc<TableCore>, key: &[u8]) {
        if !self.tables.iter().any(|t| Arc::ptr_eq(t, table)) {
            self.tables.push(table.clone());
        }
        self.payload.push(byte);
        varint::put(&mut self.payload, u64::from(table.id.0));
        self.bytes(key);
        self.count += 1;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        varint::put(&mut self.payload, bytes.len() as u64);
        self.payload.extend_from_slice(bytes);
    }
}

/// What is too long, if anything.
pub(crate) fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), String> {
    if key.len() > MAX_KEY_BYTES {
        Err(format!(
            "a key of {} bytes; the longest allowed is {MAX_KEY_BYTES}",
            key.len()
        ))
    } else if value.len() > MAX_VALUE_BYTES {
        Err(format!(
            "a value of {} bytes; the longest allowed is {MAX_VALUE_BYTES}",
            value.len()
        ))
    } else {
        Ok(())
    }
}

/// The payload of a commit that ingests a run into a table.
pub(crate) fn encode_ingest(table: TableId, run: &RunMeta) -> Bytes {
    let mut out = vec![INGEST];
    varint::put(&mut out, u64::from(table.0));
    put_json(&mut out, run);
    out.into()
}

/// The payload of a commit that creates a snapshot.
pub(crate) fn encode_snapshot_create(record: &SnapshotRecord) -> Bytes {
    encode_json(SNAPSHOT_CREATE, record)
}

/// The payload of a commit that deletes the snapshot of this id.
pub(crate) fn encode_snapshot_delete(id: u64) -> Bytes {
    encode_json(SNAPSHOT_DELETE, &id)
}

/// The payload of a commit that changes when a snapshot expires.
pub(crate) fn encode_snapshot_expiry(expiry: &SnapshotExpiry) -> Bytes {
    encode_json(SNAPSHOT_EXPIRY, expiry)
}

fn encode_json(kind: u8, value: &impl serde::Serialize) -> Bytes {
    let mut out = vec![kind];
    put_json(&mut out, value);
    out.into()
}

fn put_json(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    let json = serde_json::to_vec(value).expect("records have string keys only");
    varint::put(out, json.len() as u64);
    out.extend_from_slice(&json);
}

/// One operation of a commit.
#[derive(Debug)]
pub(crate) enum Op<'a> {
    Write {
        table: TableId,
        kind: Kind,
        key: &'a [u8],
        value: &'a [u8],
    },
    RangeDelete {
        table: TableId,
        /// Not empty.
        range: KeyRange,
    },
    /// The run has no number yet: it gets that of the operation.
    Ingest {
        table: TableId,
        run: RunMeta,
    },
    SnapshotCreate(SnapshotRecord),
    SnapshotDelete(u64),
    SnapshotExpiry(SnapshotExpiry),
}

/// Reads the operations of a payload, each with its number. The error is what
/// is wrong with the bytes, for the caller to put into its place.
#[derive(Debug)]
pub(crate) struct OpReader<'a> {
    payload: &'a [u8],
    at: usize,
    next: SeqNo,
}

impl<'a> OpReader<'a> {
    pub(crate) fn new(payload: &'a [u8], first: SeqNo) -> Self {
        Self {
            payload,
            at: 0,
            next: first,
        }
    }

    fn varint(&mut self) -> Result<u64, String> {
        let start = self.at;
        varint::get(self.payload, &mut self.at)
            .ok_or_else(|| format!("bad varint at payload byte {start}"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.varint()?;
        let left = self.payload.len() - self.at;
        if len > left as u64 {
            return Err(format!(
                "{len} bytes announced at payload byte {}, {left} left",
                self.at
            ));
        }
        let bytes = &self.payload[self.at..self.at + len as usize];
        self.at += len as usize;
        Ok(bytes)
    }

    fn table(&mut self) -> Result<TableId, String> {
        let table = self.varint()?;
        let table = u32::try_from(table).map_err(|_| format!("table id {table} out of range"))?;
        Ok(TableId(table))
    }

    fn range(&mut self) -> Result<KeyRange, String> {
        let start = Bytes::copy_from_slice(self.bytes()?);
        let at = self.at;
        self.at += 1;
        let end = match self.payload.get(at) {
            Some(0) => None,
            Some(1) => Some(Bytes::copy_from_slice(self.bytes()?)),
            _ => return Err(format!("bad range at payload byte {at}")),
        };
        let range = KeyRange { start, end };
        if range.is_empty() {
            return Err(format!("an empty range at payload byte {at}"));
        }
        Ok(range)
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, String> {
        serde_json::from_slice(self.bytes()?).map_err(|e| format!("bad JSON record: {e}"))
    }

    fn op(&mut self) -> Result<Op<'a>, String> {
        let byte = self.payload[self.at];
        self.at += 1;
        match byte {
            INGEST => {
                let (table, run): (_, RunMeta) = (self.table()?, self.json()?);
                run.check()?;
                Ok(Op::Ingest { table, run })
            }
            SNAPSHOT_CREATE => {
                let record: SnapshotRecord = self.json()?;
                if record.id >= NUMBER_MAX {
                    return Err(format!("snapshot id {} is out of all bounds", record.id));
                }
                Ok(Op::SnapshotCreate(record))
            }
            RANGE_DELETE => {
                let table = self.table()?;
                let range = self.range()?;
                Ok(Op::RangeDelete { table, range })
            }
            SNAPSHOT_DELETE => Ok(Op::SnapshotDelete(self.json()?)),
            SNAPSHOT_EXPIRY => Ok(Op::SnapshotExpiry(self.json()?)),
            _ => {
                let kind =
                    Kind::from_byte(byte).ok_or_else(|| format!("unknown operation {byte}"))?;
                let table = self.table()?;
                let key = self.bytes()?;
                let start = self.at;
                let value = if kind == Kind::Delete {
                    &[]
                } else {
                    self.bytes()?
                };
                if !kind.fits(value.len()) {
                    return Err(format!(
                        "{kind:?} with {} bytes at payload byte {start}",
                        value.len()
                    ));
                }
                Ok(Op::Write {
                    table,
                    kind,
                    key,
                    value,
                })
            }
        }
    }
}

impl<'a> Iterator for OpReader<'a> {
    type Item = Result<(SeqNo, Op<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.payload.len() {
            return None;
        }
        let seq = self.next;
        let item = if seq.0 < NUMBER_MAX {
            self.next = seq.next();
            self.op().map(|op| (seq, op))
        } else {
            Err(format!("sequence number {seq} is out of all bounds"))
        };
        if item.is_err() {
            self.at = self.payload.len();
        }
        Some(item)
    }
}
