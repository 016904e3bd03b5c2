//! The layout options of an SSTable.

use serde::{Deserialize, Serialize};

use super::compression::Compression;
use crate::error::{Error, Result};
use crate::read::FilterPrefix;

/// The layout of new SSTables. Every SSTable records the options that it was written with, so a
/// change affects new files only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsTableOptions {
    /// Size of a data block before compression, in bytes: from 1 byte to 16 MiB. A single larger
    /// record gets a block of its own. Larger blocks compress better; smaller ones make a point
    /// read cheaper. Default: 4096.
    pub block_bytes: u32,
    /// Number of records from one full key to the next in a block, at least 1. A larger number
    /// saves space; a smaller one makes a search shorter. Default: 16.
    pub restart_interval: u32,
    /// Size of the bloom filter, in bits per distinct key, at most 64. 10, the default, lets about
    /// 1 % of absent keys through; 0 writes no filter.
    pub filter_bits_per_key: u32,
    /// The prefixes of keys that filters contain beside the keys. A scan within one prefix skips
    /// files without keys of that prefix. This is worth its space where such scans meet many runs;
    /// each prefix takes as many bits as a key. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_prefix: Option<FilterPrefix>,
    /// The compression of data blocks, of the index and of range tombstones. Default: LZ4.
    pub compression: Compression,
    /// The compression of the oldest of a table's runs, which has most of the table's bytes and is
    /// written least often; by default that of the other runs. (`bottommost_compression` of
    /// RocksDB.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottom_compression: Option<Compression>,
}

impl Default for SsTableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            restart_interval: 16,
            filter_bits_per_key: 10,
            filter_prefix: None,
            compression: Compression::Lz4,
            bottom_compression: None,
        }
    }
}

impl SsTableOptions {
    const BLOCK_BYTES_MAX: u32 = 16 << 20;

    /// Returns the options for a new run; `is_oldest` is true for the oldest run of a table.
    pub(crate) fn of_run(&self, is_oldest: bool) -> Self {
        let at_bottom = self.bottom_compression.filter(|_| is_oldest);
        Self {
            compression: at_bottom.unwrap_or(self.compression),
            bottom_compression: None,
            ..self.clone()
        }
    }

    /// Checks that each option is within its range.
    ///
    /// # Errors
    /// `InvalidRequest` names the option, its value and its range.
    pub(crate) fn validate(&self) -> Result<()> {
        let checks = [
            ("block_bytes", self.block_bytes, 1, Self::BLOCK_BYTES_MAX),
            ("restart_interval", self.restart_interval, 1, u32::MAX),
            ("filter_bits_per_key", self.filter_bits_per_key, 0, 64),
        ];
        for (name, value, min, max) in checks {
            if !(min..=max).contains(&value) {
                return Err(Error::InvalidRequest(format!(
                    "SSTable option {name} is {value}; set it from {min} to {max}"
                )));
            }
        }
        if self.filter_prefix == Some(FilterPrefix::Bytes(0)) {
            return Err(Error::InvalidRequest(
                "SSTable option filter_prefix has 0 bytes; set it to 1 or more".into(),
            ));
        }
        Ok(())
    }
}
