//! One snapshot that a role created, and its stored record: JSON, whose field `format` is checked
//! first.
//!
//! ```text
//!   key    id of the role (8 bytes) | sequence number of the snapshot (8 bytes)
//!   value  {"format":1,"keyspace":"shop","name":"monday"}
//! ```
//!
//! So a record is as long as its names, however many snapshots the role has. The sequence number keeps
//! a later snapshot of the same name from being taken for this one, and the id of the role a later role
//! of the same name from getting its snapshots.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::schema::{SchemaError, read_record};

/// The number of the record format. This version of ebb reads and writes no other format.
const FORMAT: u32 = 1;

/// A snapshot that a role created. It implements `Deserialize` for roles' records of earlier versions,
/// which contain a list of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedSnapshot {
    /// The keyspace of the snapshot.
    pub keyspace: String,
    /// The snapshot's name in this keyspace.
    pub name: String,
    /// The sequence number of the snapshot. A later snapshot of the same name has another number.
    pub seq: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    keyspace: String,
    name: String,
}

impl OwnedSnapshot {
    /// Returns the key of the record of the snapshot with this sequence number, created by the role
    /// with this id. Integers are big-endian, so the keys of a role's records form one range.
    pub fn key(role: u64, seq: u64) -> [u8; 16] {
        ((u128::from(role) << 64) | u128::from(seq)).to_be_bytes()
    }

    /// Returns the range of the keys of a role's records.
    pub fn keys_of(role: u64) -> Range<Vec<u8>> {
        let mut end = Self::key(role, u64::MAX).to_vec();
        end.push(0);
        Self::key(role, 0).to_vec()..end
    }

    /// Encodes the value of the record.
    pub fn encode(&self) -> Vec<u8> {
        let record = Record {
            format: FORMAT,
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
        };
        serde_json::to_vec(&record).expect("plain values")
    }

    /// Decodes a record. Returns the id of the role, and the snapshot.
    ///
    /// # Errors
    /// [`SchemaError::Record`] if the record is damaged or has a format that this version does not
    /// support.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<(u64, Self), SchemaError> {
        let key: [u8; 16] = key.try_into().map_err(|_| {
            let expected = "the key of a role's snapshot has 16 bytes";
            SchemaError::Record(format!("{expected}, this one {}", key.len()))
        })?;
        let key = u128::from_be_bytes(key);
        let Record { keyspace, name, .. } = read_record(value, FORMAT)?;
        let owned = Self {
            keyspace,
            name,
            seq: key as u64,
        };
        Ok(((key >> 64) as u64, owned))
    }
}
