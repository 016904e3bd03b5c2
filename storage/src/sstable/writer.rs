//! Writes one SSTable, front to back.
//!
//! ```text
//!   data block ... | [range tombstones] | filter | index | properties | footer
//! ```
//!
//! See the book, Formats: SSTable.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};

use super::block_builder::BlockBuilder;
use super::compression::{Compression, PAYLOAD_BYTES_MAX, Sealer};
use super::filter::{FilterBuilder, key_hash};
use super::footer::Footer;
use super::handle::BlockHandle;
use super::index::IndexBuilder;
use super::options::SsTableOptions;
use super::properties::{Origin, Properties};
use super::tombstone_block;
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, WriteFile};
use crate::formats::SSTABLE;
use crate::key::{Kind, RangeTombstones, SeqNo, compare_versions};
use crate::mutation::{self, Mutation};
use crate::read::TimestampBounds;

/// Finished blocks are gathered up to this size before the file is appended to.
const APPEND_BYTES: usize = 256 << 10;

/// Upper bound of what an entry costs beside key and value: three lengths, the
/// kind, the sequence number, a restart point and the number of them.
const ENTRY_OVERHEAD_BYTES_MAX: usize = 3 * 5 + 1 + 10 + 4 + 4;

/// A table being written. Dropped without [`Self::finish`], or after an error,
/// it leaves a useless file behind, which the caller removes.
pub(crate) struct SsTableWriter {
    data: BlockBuilder,
    index: IndexBuilder,
    filter: FilterBuilder,
    pub(super) properties: Properties,
    tombstones: RangeTombstones,
    out: Output,
}

/// A table that is complete and synced.
#[derive(Debug, Clone)]
pub(crate) struct FinishedTable {
    /// What the table says about itself.
    pub(crate) properties: Properties,
    /// Length of the file.
    pub(crate) file_bytes: u64,
}

impl SsTableWriter {
    /// Creates the file `path` for the table `ids` = (file number, table id).
    ///
    /// # Errors
    /// `InvalidRequest` when an option is out of its range; `Io`.
    pub(crate) fn create(
        disk: &dyn FileSystem,
        path: &Path,
        ids: (u64, u32),
        options: SsTableOptions,
    ) -> Result<Self> {
        Self::begin(disk.create(path), path, ids, options)
    }

    /// [`Self::create`] of a file that was just made, or could not be, which errors
    /// call `path`.
    pub(crate) fn begin(
        file: io::Result<Box<dyn WriteFile>>,
        path: &Path,
        ids: (u64, u32),
        options: SsTableOptions,
    ) -> Result<Self> {
        options.validate()?;
        let file = file.map_err(Error::no_space_or_io("create", path))?;
        Ok(Self {
            data: BlockBuilder::new(options.restart_interval),
            index: IndexBuilder::new(),
            filter: FilterBuilder::new(options.filter_bits_per_key),
            properties: Properties::new(ids, options),
            tombstones: RangeTombstones::default(),
            out: Output {
                path: path.to_path_buf(),
                file,
                sealer: Sealer::default(),
                pending: Vec::new(),
                appended_bytes: 0,
            },
        })
    }

    /// Appends a version.
    ///
    /// # Errors
    /// `InvalidRequest` when key and value together are too large for a block
    /// (some 257 MiB); `Io`.
    ///
    /// # Panics
    /// When the version is not greater than the one before (see [`crate::key`]),
    /// or its value does not fit its kind.
    pub(crate) fn add(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        let new_key = match self.last_version() {
            None => true,
            Some(last) => {
                assert_eq!(
                    compare_versions(last, (key, seq)),
                    Ordering::Less,
                    "versions must be added in order; {} gets {seq} after {}",
                    self.out.path.display(),
                    last.1
                );
                last.0 != key
            }
        };
        assert!(
            kind.fits(value.len()),
            "{kind:?} has no value of {} bytes",
            value.len()
        );
        let entry_bytes_max = key
            .len()
            .saturating_add(value.len())
            .saturating_add(ENTRY_OVERHEAD_BYTES_MAX);
        if entry_bytes_max > PAYLOAD_BYTES_MAX {
            return Err(Error::InvalidRequest(format!(
                "a key of {} and a value of {} bytes; together at most {} fit",
                key.len(),
                value.len(),
                PAYLOAD_BYTES_MAX - ENTRY_OVERHEAD_BYTES_MAX
            )));
        }
        // A block ends before it would get too large, so that a large value
        // does not make its small neighbours dear to read.
        let block_bytes = self.properties.options.block_bytes as usize;
        if !self.data.is_empty() && self.data.len() + entry_bytes_max > block_bytes {
            self.finish_data_block()?;
        }
        if self.data.is_empty() {
            self.index.start_block(key);
        }
        if new_key {
            let hash = key_hash(key);
            self.filter.add(hash);
            self.properties.count_key(hash);
        }
        self.data.add(key, seq, kind, value);
        self.properties.count(key, seq, kind, value.len());
        Ok(())
    }

    /// Gives the table the range tombstones of its run.
    pub(crate) fn set_range_tombstones(&mut self, tombstones: RangeTombstones) {
        self.tombstones = tombstones;
    }

    /// Says what the file stands for.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.properties.origin = Some(origin);
    }

    /// Says what is known of the timestamps in all values.
    pub(crate) fn set_timestamps(&mut self, bounds: TimestampBounds) {
        self.properties.timestamps = Some(bounds);
    }

    /// Size of the file so far, in bytes: blocks as stored, the open one as it
    /// is before compression; without filter, index and footer.
    pub(crate) fn file_bytes(&self) -> u64 {
        let open = if self.data.is_empty() {
            0
        } else {
            self.data.len()
        };
        self.out.bytes() + open as u64
    }

    /// The user key added last.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.last_version().map(|(key, _)| key)
    }

    /// Writes what follows the data and syncs the file. Syncing the directory
    /// is left to the caller, who may have more files in it.
    ///
    /// # Errors
    /// `Io`.
    ///
    /// # Panics
    /// When nothing was added: an empty table has no bounds.
    pub(crate) fn finish(mut self) -> Result<FinishedTable> {
        assert!(
            !self.data.is_empty() || !self.tombstones.is_empty(),
            "{} would hold nothing",
            self.out.path.display()
        );
        if !self.data.is_empty() {
            self.finish_data_block()?;
        }
        self.properties.data_bytes = self.out.bytes();
        self.properties.largest_key = self.data.last().0.to_vec();
        if !self.tombstones.is_empty() {
            let payload = tombstone_block::encode(&self.tombstones);
            let compression = self.properties.options.compression;
            let handle = self.out.store(&payload, compression)?;
            self.properties.count_tombstones(&self.tombstones, handle);
        }

        let Self {
            mut index,
            filter,
            properties,
            mut out,
            ..
        } = self;
        let footer = Footer {
            version: SSTABLE.version,
            filter: out.store(&filter.finish(), Compression::None)?,
            index: out.store(index.finish(), properties.options.compression)?,
            properties: out.store(&properties.encode(), Compression::None)?,
        };
        Ok(FinishedTable {
            properties,
            file_bytes: out.finish(&footer)?,
        })
    }

    fn last_version(&self) -> Option<(&[u8], SeqNo)> {
        (self.properties.entries > 0).then(|| self.data.last())
    }

    fn finish_data_block(&mut self) -> Result<()> {
        let compression = self.properties.options.compression;
        let handle = self.out.store(self.data.finish(), compression)?;
        self.data.clear();
        let (key, seq) = self.data.last();
        self.index.end_block(key, seq, handle);
        Ok(())
    }
}

/// The file, as a sequence of stored blocks.
struct Output {
    path: PathBuf,
    file: Box<dyn WriteFile>,
    sealer: Sealer,
    /// Stored bytes that the file does not have yet.
    pending: Vec<u8>,
    appended_bytes: u64,
}

impl Output {
    /// Stored so far, in bytes.
    fn bytes(&self) -> u64 {
        self.appended_bytes + self.pending.len() as u64
    }

    fn store(&mut self, payload: &[u8], compression: Compression) -> Result<BlockHandle> {
        let offset = self.bytes();
        let len = self.sealer.seal(payload, compression, &mut self.pending) as u64;
        if self.pending.len() >= APPEND_BYTES {
            self.append_pending()?;
        }
        Ok(BlockHandle { offset, len })
    }

    /// Writes the footer, syncs, and returns the length of the file.
    fn finish(mut self, footer: &Footer) -> Result<u64> {
        self.pending.extend_from_slice(&footer.encode());
        self.append_pending()?;
        mutation::unless(Mutation::TableWithoutSync, || self.file.sync())
            .map_err(Error::no_space_or_io("sync", &self.path))?;
        Ok(self.appended_bytes)
    }

    fn append_pending(&mut self) -> Result<()> {
        self.file
            .append(&self.pending)
            .map_err(Error::no_space_or_io("write", &self.path))?;
        self.appended_bytes += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
