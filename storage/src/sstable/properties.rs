//! The properties of a table, stored in it as JSON, so that `strings` and people can read
//! them. See the book, Formats: SSTable.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::damage::Damage;
use super::file_id::HEADER_BYTES;
use super::handle::BlockHandle;
use super::key_sketch::KeySketch;
use super::options::SsTableOptions;
use crate::formats::SSTABLE;
use crate::hex;
use crate::key::{KeyBounds, Kind, NUMBER_MAX, RangeTombstones, SeqNo};
use crate::read::{ExpiryBounds, PrefixesOf, TimestampBounds};

/// Facts about one SSTable, which its file records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Properties {
    pub(crate) format_version: u32,
    /// Number of the file within its database. A file that was written outside of a database
    /// records [`NO_NUMBER`](super::NO_NUMBER); when it is read, that is replaced by the number
    /// under which it was opened.
    pub(crate) file_number: u64,
    /// The id of the database's table whose versions the file contains; 0 if the file was written
    /// outside of a database, to be ingested.
    pub(crate) table_id: u32,
    /// Number of versions, tombstones included; range tombstones are no versions. 0 if the file has
    /// range tombstones only: `smallest_key` and `largest_key` are empty then.
    pub(crate) entries: u64,
    /// Number of versions that are tombstones.
    pub(crate) tombstones: u64,
    /// The smallest user key of the versions; recorded in hex.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub(crate) smallest_key: Vec<u8>,
    /// The largest user key of the versions; recorded in hex.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub(crate) largest_key: Vec<u8>,
    /// The smallest sequence number of any version or range tombstone.
    pub(crate) smallest_seq: SeqNo,
    /// The largest sequence number of any version or range tombstone.
    pub(crate) largest_seq: SeqNo,
    /// Number of different user keys.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) keys: u64,
    /// Number of versions that expire.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) expiring: u64,
    /// The sketch of the user keys, to estimate the number of different keys in several tables
    /// together; recorded in hex.
    #[serde(serialize_with = "sketch_to_hex", deserialize_with = "sketch_from_hex")]
    pub(crate) key_sketch: KeySketch,
    /// Length of the user keys of all versions together, in bytes.
    pub(crate) raw_key_bytes: u64,
    /// Length of the values of all versions together, in bytes.
    pub(crate) raw_value_bytes: u64,
    /// The offset at which the last data block ends. The first one begins behind the header.
    pub(crate) data_end: u64,
    /// The bounds of the timestamps in the values; `None` if the table has no merge operator, or
    /// the operator cannot read all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timestamps: Option<TimestampBounds>,
    /// The bounds of the times at which values in the file, or parts of them, expire.
    #[serde(default, skip_serializing_if = "ExpiryBounds::is_never")]
    pub(crate) expiries: ExpiryBounds,
    /// The kind of the key prefixes in the table's filters; `None` if the filters have no prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filter_prefixes: Option<PrefixesOf>,
    /// The place of the block of range tombstones. Of the files of a run only the last has that
    /// block, for the whole run. If a merge wrote the run in parts, one key range after the other,
    /// the last file of each part has the block for the part. `None` if the file has no such block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range_tombstones: Option<TombstoneProperties>,
    /// The database's table to which the file belongs, and the ranges of the table's keys and
    /// sequence numbers that the file covers. A repair without a manifest needs them. `None` if the
    /// file was written outside of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
    /// The layout of the table.
    pub(crate) options: SsTableOptions,
    /// The program that wrote the table, with its version: "ebb 0.1.0".
    pub(crate) created_by: String,
}

/// The table of the database to which a file belongs, and the ranges of the table's keys and
/// sequence numbers that the file covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    pub(crate) keyspace: String,
    pub(crate) table: String,
    /// The last commit before the table of the database was created. Snapshots up to this commit do
    /// not cover the table.
    pub(crate) created_after: SeqNo,
    /// The first sequence number that the file covers. Of the keys in `keys`, the file has every
    /// version numbered `smallest_seq` to `largest_seq` that readers still needed when the file was
    /// written; flushes and merges have dropped the others. The range tombstones are in the last
    /// file of the run.
    pub(crate) smallest_seq: SeqNo,
    /// The largest sequence number that the file covers.
    pub(crate) largest_seq: SeqNo,
    /// The key range in which the file covers the numbers `smallest_seq` to `largest_seq`; `None`
    /// for all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<KeyBounds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merge_operator: Option<String>,
}

/// The place of the block of range tombstones, and the number of sequence numbers in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TombstoneProperties {
    /// The offset in the file of the block of range tombstones, which is stored behind the data
    /// blocks.
    pub(crate) offset: u64,
    /// The length in the file of the block of range tombstones, in bytes.
    pub(crate) bytes: u64,
    /// The number of sequence numbers in the block. The block divides the key space into fragments
    /// at the ends of all range tombstones, and has for each fragment the numbers of the range
    /// tombstones over it. So a tombstone over three fragments counts three times.
    pub(crate) count: u64,
}

impl TombstoneProperties {
    pub(super) fn handle(&self) -> BlockHandle {
        BlockHandle {
            offset: self.offset,
            len: self.bytes,
        }
    }
}

impl Properties {
    /// Returns the properties of a table that has no versions and no range tombstones yet.
    pub(super) fn new((file_number, table_id): (u64, u32), options: SsTableOptions) -> Self {
        Self {
            format_version: SSTABLE.version,
            file_number,
            table_id,
            smallest_seq: SeqNo::MAX,
            data_end: HEADER_BYTES as u64,
            options,
            created_by: concat!("ebb ", env!("CARGO_PKG_VERSION")).into(),
            ..Self::default()
        }
    }

    /// Counts a version, and extends `smallest_key` and the bounds of the sequence numbers to it.
    /// The caller sets `largest_key` once, at the end, so that it is not copied for each version,
    /// and counts different keys by [`Self::count_key`].
    pub(super) fn count(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value_len: usize) {
        if self.entries == 0 {
            self.smallest_key = key.to_vec();
        }
        self.entries += 1;
        self.tombstones += u64::from(kind == Kind::Delete);
        self.expiring += u64::from(kind == Kind::ExpiringPut);
        self.widen(seq);
        self.raw_key_bytes += key.len() as u64;
        self.raw_value_bytes += value_len as u64;
    }

    pub(super) fn count_key(&mut self, hash: u64) {
        self.keys += 1;
        self.key_sketch.add(hash);
    }

    /// Adds the sequence numbers of the range tombstones to the bounds, and records `handle` as the
    /// place of their block, and their number.
    pub(super) fn count_tombstones(&mut self, tombstones: &RangeTombstones, handle: BlockHandle) {
        tombstones.seqs().for_each(|seq| self.widen(seq));
        self.range_tombstones = Some(TombstoneProperties {
            offset: handle.offset,
            bytes: handle.len,
            count: tombstones.count(),
        });
    }

    /// Returns the number of versions plus [`TombstoneProperties::count`].
    pub(crate) fn entries_with_tombstones(&self) -> u64 {
        let tombstones = self.range_tombstones.as_ref();
        self.entries + tombstones.map_or(0, |tombstones| tombstones.count)
    }

    fn widen(&mut self, seq: SeqNo) {
        self.smallest_seq = self.smallest_seq.min(seq);
        self.largest_seq = self.largest_seq.max(seq);
    }

    /// Returns the payload that [`Self::decode`] reads.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings always become JSON")
    }

    pub(super) fn decode(payload: &Bytes) -> Result<Self, Damage> {
        let properties: Self = serde_json::from_slice(payload)
            .map_err(|e| Damage(format!("the properties do not parse: {e}")))?;
        match &properties.origin {
            Some(origin)
                if origin.smallest_seq > origin.largest_seq
                    || origin.largest_seq >= SeqNo(NUMBER_MAX) =>
            {
                let (first, last) = (origin.smallest_seq, origin.largest_seq);
                Err(Damage(format!("it stands for commits {first} to {last}")))
            }
            Some(origin) if origin.created_after >= SeqNo(NUMBER_MAX) => {
                let created_after = origin.created_after;
                Err(Damage(format!(
                    "its table was created after commit {created_after}"
                )))
            }
            _ => Ok(properties),
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn sketch_to_hex<S: Serializer>(sketch: &KeySketch, serializer: S) -> Result<S::Ok, S::Error> {
    to_hex(&sketch.encode(), serializer)
}

fn sketch_from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeySketch, D::Error> {
    let bytes = from_hex(deserializer)?;
    KeySketch::decode(&bytes).map_err(|damage| serde::de::Error::custom(damage.0))
}

fn to_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex::encode(bytes))
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    hex::decode(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not hex")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_timestamp_and_expiry_survives_the_json() {
        let mut properties = Properties::new((7, 3), SsTableOptions::default());
        properties.smallest_key = (0..=255).collect();
        properties.timestamps = Some(TimestampBounds::NONE);
        for expiries in [
            ExpiryBounds::Never,
            ExpiryBounds::at_ms(0).union(ExpiryBounds::at_ms(u64::MAX)),
            ExpiryBounds::Unknown,
        ] {
            properties.expiries = expiries;
            let payload = Bytes::from(properties.encode());
            assert_eq!(Properties::decode(&payload).unwrap(), properties);
        }
    }

    #[test]
    fn bad_hex_is_damage() {
        let json = Properties::new((7, 3), SsTableOptions::default()).encode();
        let json = String::from_utf8(json).unwrap();
        for hex in ["a", "0g", "é"] {
            let bad = json.replace("smallest_key\":\"", &format!("smallest_key\":\"{hex}"));
            assert!(Properties::decode(&Bytes::from(bad)).is_err(), "{hex}");
        }
    }
}
