//! Checks a whole table against itself, past every cache.

use std::cmp::Ordering;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::damage::Damage;
use super::filter::key_hash;
use super::handle::BlockHandle;
use super::index::IndexEntry;
use super::properties::Properties;
use super::reader::{Parts, SsTable};
use crate::error::{Error, Result};
use crate::key::{SeqNo, compare_versions};

impl SsTable {
    /// Reads the whole file, past the cache, and checks every checksum, the
    /// order of the versions, that index, filter and properties tell the truth,
    /// and that no byte lies outside of a block. Cost: the file read once.
    ///
    /// Calls `found` for everything that is wrong; the sums are held against the
    /// properties only when every block could be read.
    pub(crate) fn verify_all(&self, found: &mut dyn FnMut(Error)) {
        let parts = match self.reread_parts() {
            Ok(parts) => parts,
            Err(error) => return found(error),
        };
        let mut walk = Walk::new(&parts);
        let mut whole = true;
        for IndexEntry { handle, bound } in parts.index.entries() {
            let checked = self.read_data_block(handle).and_then(|payload| {
                Block::new(payload)
                    .and_then(|block| walk.block(handle, block, &bound))
                    .map_err(|damage| damage.at(self.path(), handle.offset))
            });
            if let Err(error) = checked {
                whole = false;
                found(error);
                walk.pass_over(handle, bound);
            }
        }
        if whole && let Err(damage) = walk.finish() {
            found(damage.at(self.path(), parts.footer.properties.offset));
        }
    }

    /// [`Self::verify_all`] up to the first thing that is wrong.
    ///
    /// # Errors
    /// `Corruption`; `Io`.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut first = Ok(());
        self.verify_all(&mut |error| {
            if first.is_ok() {
                first = Err(error);
            }
        });
        first
    }
}

/// What was seen so far, to be held against what the table says about itself.
struct Walk<'a> {
    parts: &'a Parts,
    seen: Properties,
    /// Nothing that comes may be below: the last version, and behind a block what
    /// the index says of it.
    last: (Vec<u8>, SeqNo),
}

impl<'a> Walk<'a> {
    fn new(parts: &'a Parts) -> Self {
        let told = &parts.properties;
        let mut seen = Properties::new((told.file_number, told.table_id), told.options.clone());
        seen.created_by.clone_from(&told.created_by);
        seen.origin.clone_from(&told.origin);
        // Only the table's merge operator knows them.
        seen.timestamps = told.timestamps;
        Self {
            parts,
            seen,
            last: (Vec::new(), SeqNo::ZERO),
        }
    }

    /// Takes the next data block, which the index says does not go above `bound`.
    fn block(
        &mut self,
        handle: BlockHandle,
        block: Block,
        bound: &(Vec<u8>, SeqNo),
    ) -> Result<(), Damage> {
        if handle.offset != self.seen.data_bytes {
            return Err(Damage(format!(
                "the block before ends at {}, the next starts at {}",
                self.seen.data_bytes, handle.offset
            )));
        }
        check_restarts(&block)?;
        let mut cursor = BlockCursor::new(block);
        cursor.seek_to_first()?;
        while cursor.valid() {
            self.version(&cursor)?;
            cursor.next()?;
        }
        let last = (self.last.0.as_slice(), self.last.1);
        if compare_versions(last, (&bound.0, bound.1)).is_gt() {
            return Err(Damage("the block goes on above what the index says".into()));
        }
        self.seen.largest_key.clone_from(&self.last.0);
        self.last.clone_from(bound);
        self.seen.data_bytes += handle.len;
        Ok(())
    }

    /// Goes on behind a block that could not be checked.
    fn pass_over(&mut self, handle: BlockHandle, bound: (Vec<u8>, SeqNo)) {
        self.seen.entries += 1;
        self.seen.data_bytes = handle.end().unwrap_or(self.seen.data_bytes);
        self.last = bound;
    }

    fn version(&mut self, cursor: &BlockCursor) -> Result<(), Damage> {
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
        if !self.parts.filter.may_contain(hash) {
            return Err(Damage(format!(
                "the filter denies the key {key:02x?}, which is here"
            )));
        }
        if self.seen.entries == 0 || last_key != key {
            self.seen.count_key(hash);
        }
        self.seen.count(key, seq, kind, value_len);
        self.last.0.clear();
        self.last.0.extend_from_slice(key);
        self.last.1 = seq;
        Ok(())
    }

    /// Holds the sums against the properties.
    fn finish(mut self) -> Result<(), Damage> {
        let told = &self.parts.properties;
        if let (Some(tombstones), Some(at)) = (&self.parts.tombstones, &told.range_tombstones) {
            let handle = BlockHandle {
                offset: at.offset,
                len: at.bytes,
            };
            self.seen.count_tombstones(tombstones, handle);
        }
        if self.seen == *told {
            return Ok(());
        }
        Err(Damage(format!(
            "the properties are {told:?}, the data has {:?}",
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
