//! Writes one SSTable, front to back.
//!
//! ```text
//!   header | data block ... | [range tombstones]
//!          | (filter, index) of each partition ... | top level | properties | footer
//! ```
//!
//! See the book, Formats: SSTable.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};

use super::block_builder::BlockBuilder;
use super::compression::{Compression, PAYLOAD_BYTES_MAX, Sealer};
use super::file_id::FileId;
use super::filter::key_hash;
use super::footer::Footer;
use super::handle::BlockHandle;
use super::options::SsTableOptions;
use super::partition_builder::PartitionBuilder;
use super::properties::{Origin, Properties};
use super::tombstone_block;
use super::top_level::TopLevelBuilder;
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, WriteFile};
use crate::formats::SSTABLE;
use crate::key::{Kind, RangeTombstones, SeqNo, compare_versions};
use crate::mutation::{self, Mutation};
use crate::read::{KeyPrefixes, ValueBounds};

/// The number of bytes of finished blocks that are gathered in memory before they are appended to
/// the file.
const APPEND_BYTES: usize = 256 << 10;

/// The largest size of the top level of an index, in bytes: the offsets of its restart points are
/// four bytes wide.
const TOP_LEVEL_BYTES_MAX: usize = u32::MAX as usize;

/// Upper bound of the bytes that an entry takes beside key and value: three lengths, the kind, the
/// sequence number, a restart point, and the number of restart points.
const ENTRY_OVERHEAD_BYTES_MAX: usize = 3 * 5 + 1 + 10 + 4 + 4;

/// A table being written. If it is dropped without [`Self::finish`], or an error occurs, the
/// unfinished file stays, and the caller has to remove it.
pub(crate) struct SsTableWriter {
    data: BlockBuilder,
    partitions: PartitionBuilder,
    /// The hashes of key prefixes for the filters; `None` if the filters have only keys.
    prefixes: Option<Prefixes>,
    pub(super) properties: Properties,
    tombstones: RangeTombstones,
    /// The largest size of the top level, in bytes: [`TOP_LEVEL_BYTES_MAX`], or less in tests.
    pub(super) top_level_bytes_max: usize,
    out: Output,
}

/// A table that is complete and synced.
#[derive(Debug, Clone)]
pub(crate) struct FinishedTable {
    /// The properties that were written.
    #[cfg(test)]
    pub(crate) properties: Properties,
    pub(crate) file_bytes: u64,
}

impl SsTableWriter {
    /// Creates the file `path`, for a table with `ids` = (file number, table id).
    ///
    /// # Errors
    /// `InvalidRequest` when an option is out of its range; `DiskFull`; `Io`.
    pub(crate) fn create(
        disk: &dyn FileSystem,
        path: &Path,
        ids: (u64, u32),
        options: SsTableOptions,
    ) -> Result<Self> {
        Self::begin(disk.create(path), path, ids, options)
    }

    /// Begins a table as [`Self::create`] does, in a file that the caller has made or failed to
    /// make; errors name `path`.
    pub(crate) fn begin(
        file: io::Result<Box<dyn WriteFile>>,
        path: &Path,
        ids: (u64, u32),
        options: SsTableOptions,
    ) -> Result<Self> {
        options.validate()?;
        let file = file.map_err(Error::no_space_or_io("create", path))?;
        let id = FileId::random();
        Ok(Self {
            data: BlockBuilder::new(options.restart_interval),
            partitions: PartitionBuilder::new(options.filter_bits_per_key),
            prefixes: None,
            properties: Properties::new(ids, options),
            tombstones: RangeTombstones::default(),
            top_level_bytes_max: TOP_LEVEL_BYTES_MAX,
            out: Output {
                path: path.to_path_buf(),
                id,
                file,
                sealer: Sealer::default(),
                pending: id.header().to_vec(),
                appended_bytes: 0,
            },
        })
    }

    /// Sets another id of the file. Nothing may have been written to the file yet.
    #[cfg(test)]
    pub(super) fn set_id(&mut self, id: FileId) {
        self.out.id = id;
        self.out.pending = id.header().to_vec();
    }

    /// Sets the size in bytes at which a partition of the index and the filter is finished.
    #[cfg(test)]
    pub(super) fn set_partition_bytes(&mut self, bytes: usize) {
        self.partitions.set_partition_bytes(bytes);
    }

    /// Appends a version.
    ///
    /// # Errors
    /// `InvalidRequest` when key and value together are too large for a block (some 257 MiB), or
    /// the key has so many versions that the top level of the index would exceed 4 GiB (all
    /// versions of a key must be in one file); `DiskFull`; `Io`.
    ///
    /// # Panics
    /// When the version does not come after the one before in the order of versions (see
    /// [`crate::key`]), or its value does not fit its kind.
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
        // The versions of one key are not parted into files, however large that makes the index.
        if self.partitions.top_bytes_with(key.len()) > self.top_level_bytes_max {
            return Err(Error::InvalidRequest(format!(
                "a key of {} bytes has so many versions that the top level of their file's \
                 index would take more than {} bytes",
                key.len(),
                self.top_level_bytes_max
            )));
        }
        // A block ends before it would get too large, so that a large value
        // does not make its small neighbours dear to read.
        let block_bytes = self.properties.options.block_bytes as usize;
        if !self.data.is_empty() && self.data.len() + entry_bytes_max > block_bytes {
            self.finish_data_block()?;
        }
        let prefix = (self.prefixes.as_mut()).and_then(|prefixes| prefixes.hash(key));
        if self.data.is_empty() {
            self.partitions.start_block(key, prefix);
        }
        self.partitions.add_prefix(prefix);
        // Each partition has a filter of its own, so a key whose versions go on in another partition
        // is added to both filters. It is counted once.
        if new_key || !self.partitions.has_key() {
            let hash = key_hash(key);
            self.partitions.add_key(hash);
            if new_key {
                self.properties.count_key(hash);
            }
        }
        self.data.add(key, seq, kind, value);
        self.properties.count(key, seq, kind, value.len());
        Ok(())
    }

    /// Sets the kind of prefixes that the filters have beside the keys; with `None` the filters
    /// have only keys. Called before the first key is added.
    pub(crate) fn set_prefixes(&mut self, prefixes: Option<&KeyPrefixes>) {
        self.properties.filter_prefixes = prefixes.map(|prefixes| prefixes.of().clone());
        self.prefixes = prefixes.cloned().map(Prefixes::new);
    }

    /// Gives the table the range tombstones of its run.
    pub(crate) fn set_range_tombstones(&mut self, tombstones: RangeTombstones) {
        self.tombstones = tombstones;
    }

    /// Sets what the file records about the table that it belongs to, and the keys and sequence
    /// numbers that it covers.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.properties.origin = Some(origin);
    }

    /// Sets the bounds of the timestamps and of the expiries in the values of the file, for its
    /// properties.
    pub(crate) fn set_bounds(&mut self, bounds: ValueBounds) {
        self.properties.timestamps = bounds.timestamps;
        self.properties.expiries = bounds.expiries;
    }

    /// Returns about the size that the file would have if it were finished now, in bytes. Finished
    /// data blocks count as they are stored; the open data block, the filters and the index count
    /// with their size before compression. The range tombstones, the properties and the footer are
    /// left out.
    pub(crate) fn file_bytes(&self) -> u64 {
        let open = if self.data.is_empty() {
            0
        } else {
            self.data.len()
        };
        self.out.bytes() + (open + self.partitions.len()) as u64
    }

    /// Returns whether the next key should go into another file: because this one has `bytes_max`
    /// or more, or because the top level of its index has half of the size that it may have.
    pub(crate) fn is_full(&self, bytes_max: u64) -> bool {
        // From half of the limit on: the versions of the next key all go into the same file.
        self.file_bytes() >= bytes_max
            || self.partitions.top_bytes_with(0) >= self.top_level_bytes_max / 2
    }

    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.last_version().map(|(key, _)| key)
    }

    /// Writes the rest of the file: the open data block, the range tombstones, the filters and
    /// indexes of the partitions, the top level, the properties and the footer. Then syncs the
    /// file. Syncing the directory is left to the caller, who may have more files in it.
    ///
    /// # Errors
    /// `DiskFull`; `Io`.
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
        self.properties.data_end = self.out.bytes();
        self.properties.largest_key = self.data.last().0.to_vec();
        if !self.tombstones.is_empty() {
            let payload = tombstone_block::encode(&self.tombstones);
            let compression = self.properties.options.compression;
            let handle = self.out.store(&payload, compression)?;
            self.properties.count_tombstones(&self.tombstones, handle);
        }

        let Self {
            partitions,
            properties,
            mut out,
            ..
        } = self;
        let compression = properties.options.compression;
        let offset = out.bytes();
        let mut top = TopLevelBuilder::new();
        for partition in partitions.finish() {
            let filter = out.store(&partition.filter, Compression::None)?;
            let index = out.store(&partition.index, compression)?;
            let (key, seq) = &partition.bound;
            top.add((key, *seq), partition.data_end, [filter.len, index.len]);
        }
        let partitions = BlockHandle {
            offset,
            len: out.bytes() - offset,
        };
        let footer = Footer {
            version: SSTABLE.version,
            file_id: out.id,
            partitions,
            top: out.store(&top.finish(), compression)?,
            properties: out.store(&properties.encode(), Compression::None)?,
        };
        Ok(FinishedTable {
            #[cfg(test)]
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
        self.partitions.end_block(key, seq, handle);
        Ok(())
    }
}

/// Hashes of the prefixes of ascending keys.
struct Prefixes {
    of: KeyPrefixes,
    /// The prefix of the previous key; empty if there is no previous key, or it has no prefix.
    last: Vec<u8>,
    hash: Option<u64>,
}

impl Prefixes {
    fn new(of: KeyPrefixes) -> Self {
        Self {
            of,
            last: Vec::new(),
            hash: None,
        }
    }

    /// Returns the hash of a key's prefix, if the key has one.
    fn hash(&mut self, key: &[u8]) -> Option<u64> {
        if self.hash.is_none() || !key.starts_with(&self.last) {
            let prefix = self.of.of_key(key);
            self.hash = prefix.map(key_hash);
            self.last.clear();
            self.last.extend_from_slice(prefix.unwrap_or_default());
        }
        self.hash
    }
}

/// The file that is being written: a header, a sequence of stored blocks, and at the end the
/// footer.
struct Output {
    path: PathBuf,
    id: FileId,
    file: Box<dyn WriteFile>,
    sealer: Sealer,
    /// The next bytes of the file, which are encoded and not appended to it yet.
    pending: Vec<u8>,
    appended_bytes: u64,
}

impl Output {
    /// Returns the size of the file in bytes, with the bytes that are still pending.
    fn bytes(&self) -> u64 {
        self.appended_bytes + self.pending.len() as u64
    }

    fn store(&mut self, payload: &[u8], compression: Compression) -> Result<BlockHandle> {
        let offset = self.bytes();
        let (place, out) = (self.id.at(offset), &mut self.pending);
        let len = self.sealer.seal(payload, compression, place, out) as u64;
        if self.pending.len() >= APPEND_BYTES {
            self.append_pending()?;
        }
        Ok(BlockHandle { offset, len })
    }

    /// Writes the footer, syncs, and returns the length of the file.
    ///
    /// A sync that finds no space is reported as a full disk, like a write that finds none, and not
    /// as a failed sync: no reader and no manifest relies on the file yet, so the caller removes it
    /// and writes it anew under another name.
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
