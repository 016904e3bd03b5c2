//! How an SSTable is laid out.

use serde::{Deserialize, Serialize};

use super::compression::Compression;
use crate::error::{Error, Result};

/// How new SSTables are laid out. Every table records what it was written with,
/// so a change touches new files only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsTableOptions {
    /// Size of a data block before compression, in bytes, 1 to 16 MiB. A single
    /// larger record gets a block of its own. Larger blocks compress better;
    /// smaller ones make a point read cheaper.
    pub block_bytes: u32,
    /// Records between two full keys in a block, at least 1. More save space;
    /// fewer make a search shorter.
    pub restart_interval: u32,
    /// Size of the bloom filter, in bits per distinct key, at most 64. 10 lets
    /// about 1 % of absent keys through; 0 writes no filter.
    pub filter_bits_per_key: u32,
    /// How data blocks and the index are compressed.
    pub compression: Compression,
}

impl Default for SsTableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            restart_interval: 16,
            filter_bits_per_key: 10,
            compression: Compression::Lz4,
        }
    }
}

impl SsTableOptions {
    /// Upper end of `block_bytes`.
    const BLOCK_BYTES_MAX: u32 = 16 << 20;

    /// Checks every range above.
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
        Ok(())
    }
}
