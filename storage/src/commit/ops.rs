//! The operations of a commit as they stand in the WAL (the book, Formats: WAL).
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

use bytes::Bytes;

use crate::key::{KeyRange, Kind, NUMBER_MAX, SeqNo, TableId};
use crate::runs::RunMeta;
use crate::snapshots::{SnapshotOp, SnapshotRecord};
use crate::varint;

pub(super) const RANGE_DELETE: u8 = 0x04;
const INGEST: u8 = 0x06;
const SNAPSHOT_CREATE: u8 = 0x10;
const SNAPSHOT_DELETE: u8 = 0x11;
const SNAPSHOT_EXPIRY: u8 = 0x12;

pub(crate) fn encode_ingest(table: TableId, run: &RunMeta) -> Bytes {
    let mut out = vec![INGEST];
    varint::put(&mut out, u64::from(table.0));
    put_json(&mut out, run);
    out.into()
}

pub(crate) fn encode_snapshot(op: &SnapshotOp) -> Bytes {
    match op {
        SnapshotOp::Create(record) => encode_json(SNAPSHOT_CREATE, record),
        SnapshotOp::Delete(id) => encode_json(SNAPSHOT_DELETE, id),
        SnapshotOp::Expiry(expiry) => encode_json(SNAPSHOT_EXPIRY, expiry),
    }
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

/// An operation of a commit, as [`OpReader`] decodes it.
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
        /// The range of the deleted keys; never an empty range.
        range: KeyRange,
    },
    /// Adds an ingested run. The versions in it have no sequence number yet: they get the number of
    /// this operation.
    Ingest {
        table: TableId,
        run: RunMeta,
    },
    Snapshot(SnapshotOp),
}

/// Reads the operations of a payload, each with its sequence number. An error ends the iteration. It
/// describes the damage; the caller adds the position of the payload.
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
                Ok(Op::Snapshot(SnapshotOp::Create(record)))
            }
            RANGE_DELETE => {
                let table = self.table()?;
                let range = self.range()?;
                Ok(Op::RangeDelete { table, range })
            }
            SNAPSHOT_DELETE => Ok(Op::Snapshot(SnapshotOp::Delete(self.json()?))),
            SNAPSHOT_EXPIRY => Ok(Op::Snapshot(SnapshotOp::Expiry(self.json()?))),
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
