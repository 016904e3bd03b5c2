//! The output of a map task in memory, until it is sorted and written out.
//!
//! ```text
//!   chunks   │ key value key value ...│ key value ...  │       records as emitted
//!   index    │ order 16 | place 8 | key length 4 | value length 4 │ ...   sorted
//! ```
//!
//! An entry's order is its partition and the first twelve bytes of its key in one integer, so that
//! sorting seldom reads the records themselves.
//!
//! If values are combined in place, an index of keys finds the record with the same key.
//!
//! The budget covers everything that the buffer has allocated, not only the part in use. Therefore
//! records are in chunks, which never move, and the index grows only while the old and the new one
//! fit side by side. From the second filling on the index begins with the size that the first
//! filling needed.

use super::key_index::{KeyIndex, Vacancy};
use super::key_prefix::{PREFIX_BYTES, compare_behind, key_prefix};
use super::sorted::Sorted;
use crate::runtime::error::TaskError;
use crate::runtime::job::in_place_combiner::InPlaceCombiner;
use crate::runtime::pacing::attempt::Attempt;
use std::cmp::Ordering;
use xxhash_rust::xxh3::xxh3_64;

const CHUNK_BYTES_MIN: usize = 1 << 10;
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The number of key bytes in the sort order of an entry; the other four bytes are the partition.
const ORDER_KEY_BYTES: usize = PREFIX_BYTES - size_of::<u32>();
const ORDER_KEY_BITS: u32 = 8 * ORDER_KEY_BYTES as u32;

const ENTRY_BYTES: usize = size_of::<Entry>();

/// The number of comparisons between two reads of the clock in a sort. This many comparisons take
/// some microseconds.
const COMPARISONS_PER_LOOK: u32 = 512;

/// The location and the sort order of one record.
#[derive(Clone, Copy, Debug)]
struct Entry {
    order: u128,
    chunk: u32,
    start: u32,
    key_len: u32,
    value_len: u32,
}

/// The records of a map, and an index that [`sort`](Self::sort) orders by partition, key and order
/// of emission.
#[derive(Debug)]
pub(in crate::runtime) struct SortBuffer {
    chunks: Vec<Vec<u8>>,
    /// The position of the chunk that is being filled; later chunks are empty.
    filling: usize,
    entries: Vec<Entry>,
    budget_bytes: usize,
    chunk_bytes: usize,
    /// Total capacity of the chunks, in bytes.
    chunks_bytes: usize,
    keys: KeyIndex,
}

/// The result of an attempt to combine a record with another.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) enum CombineOutcome {
    /// The record was combined into a record of the same key in the buffer.
    Done,
    /// The record was not combined and must be pushed. If there is a vacancy, pass it to
    /// [`SortBuffer::index_last`] after the push, so that later records can be combined with this
    /// one.
    Apart(Option<Vacancy>),
    /// The index of keys would grow beyond the budget: empty the buffer, then combine the record
    /// again.
    Full,
}

impl SortBuffer {
    /// Creates a buffer that may allocate up to `budget_bytes`, for records, their index and the
    /// index of keys.
    pub fn new(budget_bytes: usize) -> Self {
        Self {
            chunks: Vec::new(),
            filling: 0,
            entries: Vec::new(),
            budget_bytes,
            chunk_bytes: (budget_bytes / 64).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX),
            chunks_bytes: 0,
            keys: KeyIndex::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of allocated bytes, used or not.
    pub fn allocated_bytes(&self) -> usize {
        let index_bytes = self.entries.capacity() * ENTRY_BYTES;
        self.chunks_bytes + index_bytes + self.keys.allocated_bytes()
    }

    /// Combines the value into that of a record in the buffer with the same partition and key, if
    /// there is one, the two values have the same length, and the combiner accepts them.
    pub fn combine(
        &mut self,
        partition: u32,
        key: &[u8],
        value: &[u8],
        combiner: &dyn InPlaceCombiner,
    ) -> CombineOutcome {
        if !self.keys.is_worth_it() {
            return CombineOutcome::Apart(None);
        }
        let grown_bytes = self.allocated_bytes() + self.keys.grown_bytes();
        if grown_bytes > self.budget_bytes && !self.is_empty() {
            return CombineOutcome::Full;
        }
        let order = order(partition, key);
        let (entries, chunks) = (&self.entries, &self.chunks);
        let is_it = |number: usize| {
            let entry: &Entry = &entries[number];
            entry.order == order && compare_behind(entry.key(chunks), key, ORDER_KEY_BYTES).is_eq()
        };
        match self.keys.find(xxh3_64(key), is_it) {
            Err(vacancy) => CombineOutcome::Apart(Some(vacancy)),
            Ok(number) => {
                let entry = self.entries[number];
                let into = entry.value_mut(&mut self.chunks);
                if into.len() == value.len() && combiner.combine(into, value) {
                    CombineOutcome::Done
                } else {
                    CombineOutcome::Apart(None)
                }
            }
        }
    }

    /// Adds the record that was pushed last to the index of keys, so that values of later records
    /// with the same key can be combined with its value. `vacancy` is the free entry of the index
    /// that the search for the key returned.
    pub fn index_last(&mut self, vacancy: Vacancy) {
        self.keys.insert(vacancy, self.entries.len() - 1);
    }

    /// Returns whether a record of `record_bytes` fits. An empty buffer takes any record.
    pub fn has_room(&self, record_bytes: usize) -> bool {
        let grown_bytes = if self.entries.len() < self.entries.capacity() {
            0
        } else {
            self.grown_entries() * ENTRY_BYTES
        };
        let (chunk_bytes, freed_bytes) = match self.chunk_for(record_bytes) {
            Some(_) => (0, 0),
            None => {
                let empty = self.chunks.len() - self.chunks_in_use();
                (self.chunk_bytes.max(record_bytes), empty * self.chunk_bytes)
            }
        };
        let allocated_bytes = self.allocated_bytes() + grown_bytes + chunk_bytes;
        self.is_empty() || allocated_bytes - freed_bytes <= self.budget_bytes
    }

    /// Adds a record. Returns whether the buffer allocated memory for it.
    ///
    /// # Errors
    /// If key or value is 4 GiB long or longer.
    pub fn push(&mut self, partition: u32, key: &[u8], value: &[u8]) -> Result<bool, TaskError> {
        let number = |n: usize| {
            u32::try_from(n)
                .map_err(|_| TaskError::failed("a key or value is 4 GiB long or longer"))
        };
        let (key_len, value_len) = (number(key.len())?, number(value.len())?);
        let record_bytes = key.len() + value.len();
        let mut has_grown = false;
        let at = self.chunk_for(record_bytes).unwrap_or_else(|| {
            // All chunks behind the present one are empty, and too short for this record.
            let in_use = self.chunks_in_use();
            self.chunks_bytes -= (self.chunks.len() - in_use) * self.chunk_bytes;
            self.chunks.truncate(in_use);
            let capacity = self.chunk_bytes.max(record_bytes);
            self.chunks.push(Vec::with_capacity(capacity));
            self.chunks_bytes += capacity;
            has_grown = true;
            self.chunks.len() - 1
        });
        self.filling = at;
        let chunk = &mut self.chunks[at];
        let start = number(chunk.len())?;
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
        if self.entries.len() == self.entries.capacity() {
            let grown = self.grown_entries();
            self.entries.reserve_exact(grown - self.entries.len());
            has_grown = true;
        }
        self.entries.push(Entry {
            order: order(partition, key),
            chunk: number(at)?,
            start,
            key_len,
            value_len,
        });
        Ok(has_grown)
    }

    /// Sorts the index. The sort is paced but cannot stop half-way: the caller's next tick notices
    /// a cancellation.
    pub fn sort(&mut self, attempt: &Attempt<'_>) {
        let chunks = &self.chunks;
        let mut comparisons = 0;
        self.entries.sort_unstable_by(|a, b| {
            comparisons += 1;
            if comparisons == COMPARISONS_PER_LOOK {
                comparisons = 0;
                let _ = attempt.look();
            }
            a.compare(b, chunks)
        });
    }

    /// Returns a cursor over the records of `partition`. The buffer must be sorted.
    pub fn cursor(&self, partition: u32) -> BufferCursor<'_> {
        let of = |entry: &Entry| (entry.order >> ORDER_KEY_BITS) as u32;
        let from = self.entries.partition_point(|entry| of(entry) < partition);
        let until = self.entries.partition_point(|entry| of(entry) <= partition);
        BufferCursor {
            chunks: &self.chunks,
            entries: &self.entries[from..until],
        }
    }

    /// Empties a full buffer for another filling. The budget is divided between records and index
    /// in the proportion of the last filling.
    pub fn restart(&mut self) {
        let records = self.entries.len().max(1);
        let used_bytes: usize = self.chunks.iter().map(Vec::len).sum();
        let record_bytes = used_bytes.div_ceil(records);
        // Larger records may follow small ones and need some of the space.
        let index_bytes_max = self.budget_bytes / 8 * 7;
        // The table of keys grows once more while the old table still exists.
        let entry_bytes = ENTRY_BYTES + self.keys.allocated_bytes() * 3 / 2 / records;
        let capacity =
            (self.budget_bytes / (record_bytes + entry_bytes)).min(index_bytes_max / entry_bytes);
        self.keys.clear();
        // Frees the old index before it allocates the new one.
        self.entries = Vec::new();
        self.entries.reserve_exact(capacity);

        let chunks_bytes_max = (self.budget_bytes).saturating_sub(capacity * entry_bytes);
        self.chunks
            .retain(|chunk| chunk.capacity() == self.chunk_bytes);
        self.chunks.truncate(chunks_bytes_max / self.chunk_bytes);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.chunks_bytes = self.chunks.len() * self.chunk_bytes;
        self.filling = 0;
    }

    fn grown_entries(&self) -> usize {
        (2 * self.entries.capacity()).max(16)
    }

    /// Returns the number of chunks with records; later ones are empty.
    fn chunks_in_use(&self) -> usize {
        let present = self.chunks.get(self.filling);
        self.filling + usize::from(present.is_some_and(|chunk| !chunk.is_empty()))
    }

    /// Returns the index of the chunk for a record: that of the present chunk if the record fits
    /// there, otherwise that of the next one; `None` if it fits in neither.
    fn chunk_for(&self, record_bytes: usize) -> Option<usize> {
        let has_room = |at: &usize| {
            self.chunks
                .get(*at)
                .is_some_and(|chunk| chunk.capacity() - chunk.len() >= record_bytes)
        };
        [self.filling, self.filling + 1].into_iter().find(has_room)
    }
}

/// Returns the first sort key of a record: its partition, then the first bytes of its key.
fn order(partition: u32, key: &[u8]) -> u128 {
    let key_order = key_prefix(key) >> (u128::BITS - ORDER_KEY_BITS);
    u128::from(partition) << ORDER_KEY_BITS | key_order
}

impl Entry {
    fn compare(&self, other: &Self, chunks: &[Vec<u8>]) -> Ordering {
        (self.order.cmp(&other.order))
            .then_with(|| compare_behind(self.key(chunks), other.key(chunks), ORDER_KEY_BYTES))
            .then_with(|| self.place().cmp(&other.place()))
    }

    /// Returns the chunk, the start in the chunk, and the length of the value. Of records with
    /// equal keys, the one with the smaller triple was emitted first. The length decides after an
    /// empty record, which takes no space: the next record has the same start.
    fn place(&self) -> (u32, u32, u32) {
        (self.chunk, self.start, self.value_len)
    }

    fn key<'a>(&self, chunks: &'a [Vec<u8>]) -> &'a [u8] {
        &chunks[self.chunk as usize][self.start as usize..][..self.key_len as usize]
    }

    fn value_mut<'a>(&self, chunks: &'a mut [Vec<u8>]) -> &'a mut [u8] {
        let start = self.start as usize + self.key_len as usize;
        &mut chunks[self.chunk as usize][start..][..self.value_len as usize]
    }

    fn value<'a>(&self, chunks: &'a [Vec<u8>]) -> &'a [u8] {
        let start = self.start as usize + self.key_len as usize;
        &chunks[self.chunk as usize][start..][..self.value_len as usize]
    }
}

/// A cursor over one partition of a sorted buffer.
pub(in crate::runtime) struct BufferCursor<'a> {
    chunks: &'a [Vec<u8>],
    entries: &'a [Entry],
}

impl Sorted for BufferCursor<'_> {
    fn current(&self) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.first()?;
        Some((entry.key(self.chunks), entry.value(self.chunks)))
    }

    fn advance(&mut self) -> Result<(), TaskError> {
        self.entries = &self.entries[1..];
        Ok(())
    }
}

#[cfg(test)]
mod tests;
