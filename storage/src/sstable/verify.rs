//! Checks a whole table against itself, past every cache.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::bounds::Bound;
use super::damage::Damage;
use super::filter::{Filter, key_hash};
use super::handle::BlockHandle;
use super::index::IndexEntry;
use super::parts::Parts;
use super::properties::Properties;
use super::read_ahead::ReadAhead;
use super::reader::SsTable;
use crate::error::{Error, Result};
use crate::key::{SeqNo, compare_versions};
use crate::read::{FilterPrefix, KeyPrefixes, PrefixesOf};

/// The number of stored bytes after which [`SsTable::check_blocks`] calls its callback. In the
/// callback, a backup takes locks and reads the clock, which would cost too much after each block
/// of the default size. In the callback, the backup also lets other threads run on its core, about
/// every 50 microseconds, so the time between two calls must not be much longer. The check of 32
/// KiB takes some ten microseconds.
const STEP_BYTES: u64 = 32 << 10;

/// The length of the pieces that [`SsTable::check_blocks`] reads, unless a block is larger. A
/// backup writes the whole piece to its copy before the next callback, and this writing takes some
/// 50 microseconds.
const PIECE_BYTES: usize = 128 << 10;

impl SsTable {
    /// Reads the whole file, without the block cache, and checks every checksum, the order of the
    /// versions, the index, filters and properties against the data, and that no byte lies outside
    /// of a block. The bounds of timestamps and expiries in the properties are not checked.
    ///
    /// Calls `found` for each error. Calls `step` after each data block, with the block's length,
    /// and after each partition whose index or filter cannot be read, with the length of its data.
    /// Ends early, and returns `Break`, if `step` does. The counts and bounds in the properties are
    /// compared with the data only if every block could be read.
    pub(crate) fn verify_all(
        &self,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
        found: &mut dyn FnMut(Error),
    ) -> ControlFlow<()> {
        let parts = match self.reread_parts() {
            Ok(parts) => parts,
            Err(error) => {
                found(error);
                return ControlFlow::Continue(());
            }
        };
        let mut walk = Walk::new(&parts);
        let mut whole = true;
        let mut before: Option<Filter> = None;
        for (position, place) in parts.top.places().enumerate() {
            let partition = match self.reread_partition(&parts, position) {
                Ok(partition) => partition,
                Err(error) => {
                    whole = false;
                    found(error);
                    walk.pass_over(place.data, parts.top.bound(position));
                    before = None;
                    step(place.data.len)?;
                    continue;
                }
            };
            for IndexEntry { handle, bound } in partition.index.entries() {
                let filters = (&partition.filter, before.take());
                let checked = self.read_data_block(handle).and_then(|payload| {
                    Block::new(payload)
                        .and_then(|block| walk.block((handle, block), &bound, filters))
                        .map_err(|damage| damage.at(self.path(), handle.offset))
                });
                if let Err(error) = checked {
                    whole = false;
                    found(error);
                    walk.pass_over(handle, bound);
                }
                step(handle.len)?;
            }
            before = Some(partition.filter.clone());
        }
        if whole && let Err(damage) = walk.finish() {
            found(damage.at(self.path(), parts.footer.properties.offset));
        }
        ControlFlow::Continue(())
    }

    /// Reads the whole file, without the block cache, and checks every checksum. That takes less
    /// time than [`Self::verify_all`], because the data blocks are not unpacked and their versions
    /// not compared. Calls `step` after each [`STEP_BYTES`] of data blocks, or a little more, and
    /// after the last block, with the length of the blocks since the last call. Ends early, and
    /// returns `Break`, if `step` does.
    ///
    /// # Errors
    /// The first damage as `Corruption`; `Io`.
    pub(crate) fn check_blocks(
        &self,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let parts = self.reread_parts()?;
        let mut ahead = ReadAhead::new(true).with_bytes_max(PIECE_BYTES);
        let mut bytes = 0;
        for position in 0..parts.top.len() {
            let index = self.reread_partition(&parts, position)?.index;
            for handle in (0..index.len()).map(|block| index.handle(block)) {
                self.check_data_block(handle, &mut ahead)?;
                bytes += handle.len;
                if bytes >= STEP_BYTES && step(std::mem::take(&mut bytes)).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        if bytes == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(step(bytes))
    }

    /// Like [`Self::verify_all`]; returns the first error.
    ///
    /// # Errors
    /// `Corruption`; `Io`.
    pub(crate) fn verify(&self) -> Result<()> {
        self.verify_while(&mut |_| ControlFlow::Continue(()))
            .map(|_whole| ())
    }

    /// Like [`Self::verify`], but calls `step` as [`Self::verify_all`] does. Returns `Break` if `step`
    /// does.
    ///
    /// # Errors
    /// `Corruption`; `Io`.
    pub(crate) fn verify_while(
        &self,
        step: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut first = None;
        let mut keep_first = |error| {
            first.get_or_insert(error);
        };
        let read = self.verify_all(step, &mut keep_first);
        first.map_or(Ok(read), Err)
    }
}

/// A check of the data blocks, one after the other: the properties of the blocks that were read so
/// far, to be compared with the properties that the table has recorded.
struct Walk<'a> {
    parts: &'a Parts,
    seen: Properties,
    /// The prefixes of keys that the filters must have; `None` if the filters have no prefixes, or
    /// if only the table's merge operator can compute the prefixes.
    prefixes: Option<KeyPrefixes>,
    /// The lower bound of all versions that follow: the last version that was read or, after the
    /// end of a block, the bound of the block in the index.
    last: Bound,
}

impl<'a> Walk<'a> {
    fn new(parts: &'a Parts) -> Self {
        let properties = &parts.properties;
        let mut seen = Properties::new(
            (properties.file_number, properties.table_id),
            properties.options.clone(),
        );
        seen.created_by.clone_from(&properties.created_by);
        seen.origin.clone_from(&properties.origin);
        // Only the table's merge operator can compute these.
        seen.timestamps = properties.timestamps;
        seen.expiries = properties.expiries;
        seen.filter_prefixes.clone_from(&properties.filter_prefixes);
        let of = match properties.filter_prefixes {
            Some(PrefixesOf::Bytes(bytes)) => Some(FilterPrefix::Bytes(bytes)),
            _ => None,
        };
        Self {
            parts,
            seen,
            prefixes: KeyPrefixes::new(of, None),
            last: (Vec::new(), SeqNo::ZERO),
        }
    }

    /// Checks the next data block. None of its versions may be above `bound`, the bound of the
    /// block in the index. `filter` must have the keys of the block and their prefixes. For the
    /// first block of a partition, `before` is the filter of the previous partition. That filter
    /// must have the prefix of the block's first key, too: a scan that begins between the two
    /// partitions looks in that filter only.
    fn block(
        &mut self,
        (handle, block): (BlockHandle, Block),
        bound: &Bound,
        (filter, before): (&Filter, Option<Filter>),
    ) -> Result<(), Damage> {
        if handle.offset != self.seen.data_end {
            return Err(Damage(format!(
                "the block before ends at {}, the next starts at {}",
                self.seen.data_end, handle.offset
            )));
        }
        check_restarts(&block)?;
        let mut cursor = BlockCursor::new(block);
        cursor.seek_to_first()?;
        if let Some(before) = before {
            self.check_prefix(cursor.key(), &before)?;
        }
        while cursor.valid() {
            self.version(&cursor, filter)?;
            cursor.next()?;
        }
        let last = (self.last.0.as_slice(), self.last.1);
        if compare_versions(last, (&bound.0, bound.1)).is_gt() {
            return Err(Damage("the block goes on above what the index says".into()));
        }
        self.seen.largest_key.clone_from(&self.last.0);
        self.last.clone_from(bound);
        self.seen.data_end += handle.len;
        Ok(())
    }

    /// Skips the data at `handle`, which could not be checked: a block, or all blocks of a
    /// partition. Its last version is at most `bound`, so what follows must be above `bound`.
    fn pass_over(&mut self, handle: BlockHandle, bound: Bound) {
        self.seen.entries += 1;
        self.seen.data_end = handle.end().unwrap_or(self.seen.data_end);
        self.last = bound;
    }

    fn version(&mut self, cursor: &BlockCursor, filter: &Filter) -> Result<(), Damage> {
        let (key, seq, kind) = (cursor.key(), cursor.seq(), cursor.kind());
        let value_len = cursor.value().len();
        let (last_key, last_seq) = (self.last.0.as_slice(), self.last.1);
        if self.seen.entries > 0
            && compare_versions((last_key, last_seq), (key, seq)) != Ordering::Less
        {
            return Err(Damage(format!(
                "versions out of order: sequence number {seq} comes after {last_seq}, \
                 with keys {key:02x?} and {last_key:02x?}"
            )));
        }
        let hash = key_hash(key);
        if !filter.may_contain(hash) {
            return Err(Damage(format!(
                "the filter denies the key {key:02x?}, which is here"
            )));
        }
        self.check_prefix(key, filter)?;
        if self.seen.entries == 0 || last_key != key {
            self.seen.count_key(hash);
        }
        self.seen.count(key, seq, kind, value_len);
        self.last.0.clear();
        self.last.0.extend_from_slice(key);
        self.last.1 = seq;
        Ok(())
    }

    fn check_prefix(&self, key: &[u8], filter: &Filter) -> Result<(), Damage> {
        let prefix = (self.prefixes.as_ref()).and_then(|prefixes| prefixes.of_key(key));
        if prefix.is_none_or(|prefix| filter.may_contain(key_hash(prefix))) {
            Ok(())
        } else {
            Err(Damage(format!(
                "the filter denies the prefix of the key {key:02x?}"
            )))
        }
    }

    /// Compares the properties of all data that was read with those that the table has recorded.
    fn finish(mut self) -> Result<(), Damage> {
        let properties = &self.parts.properties;
        if let (Some(tombstones), Some(at)) = (&self.parts.tombstones, &properties.range_tombstones)
        {
            self.seen.count_tombstones(tombstones, at.handle());
        }
        if self.seen == *properties {
            return Ok(());
        }
        Err(Damage(format!(
            "the properties are {properties:?}, the data has {:?}",
            self.seen
        )))
    }
}

/// Checks that the restart points ascend and are entries with a full key.
fn check_restarts(block: &Block) -> Result<(), Damage> {
    let (mut at, mut next) = (0, 0);
    while at < block.entries_end() {
        let entry = block.entry(at)?;
        if next < block.restarts() && block.restart(next)? == at {
            if entry.shared != 0 {
                return Err(block.bad_entry(at, "is a restart point but shares key bytes"));
            }
            next += 1;
        }
        at = entry.end;
    }
    if next < block.restarts() {
        return Err(Damage(format!(
            "restart point {next} of {} is no entry's start",
            block.restarts()
        )));
    }
    Ok(())
}
