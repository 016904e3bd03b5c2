//! A map task's output in memory, until it is sorted and written out.

use super::attempt::Attempt;
use super::error::TaskError;
use super::sorted::Sorted;

/// Where one record lies in the arena.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    partition: u32,
    key_len: u32,
    value_len: u32,
}

/// Records in an arena, with an index that is sorted by partition, key and
/// order of emission.
#[derive(Debug)]
pub(super) struct SortBuffer {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    budget_bytes: usize,
}

impl SortBuffer {
    /// Holds records up to `budget_bytes`, index included. The vectors double as
    /// they grow, so twice that may be allocated.
    pub fn new(budget_bytes: usize) -> Self {
        Self {
            arena: Vec::new(),
            entries: Vec::new(),
            budget_bytes,
        }
    }

    /// Whether a record fits. A record larger than the whole budget fits alone.
    pub fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        let records = self.entries.len() + 1;
        let bytes = self.arena.len() + key.len() + value.len();
        self.is_empty() || bytes + records * size_of::<Entry>() <= self.budget_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When key or value is 4 GiB long or longer.
    pub fn push(&mut self, partition: u32, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len())
                .map_err(|_| TaskError::failed("a key or value is 4 GiB long or longer"))
        };
        let entry = Entry {
            start: self.arena.len(),
            partition,
            key_len: length(key)?,
            value_len: length(value)?,
        };
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.entries.push(entry);
        Ok(())
    }

    /// Sorts the index. Paces itself, but cannot stop half-way: a cancellation
    /// shows at the caller's next tick.
    pub fn sort(&mut self, attempt: &Attempt<'_>) {
        let arena = &self.arena;
        self.entries.sort_unstable_by(|a, b| {
            let _ = attempt.tick(0);
            (a.partition, a.key(arena), a.start).cmp(&(b.partition, b.key(arena), b.start))
        });
    }

    /// The records of `partition`, once sorted.
    pub fn cursor(&self, partition: u32) -> BufferCursor<'_> {
        let from = self
            .entries
            .partition_point(|entry| entry.partition < partition);
        let until = self
            .entries
            .partition_point(|entry| entry.partition <= partition);
        BufferCursor {
            arena: &self.arena,
            entries: &self.entries[from..until],
        }
    }

    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
    }
}

impl Entry {
    fn key<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start..][..self.key_len as usize]
    }

    fn value<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start + self.key_len as usize..][..self.value_len as usize]
    }
}

/// A cursor over one partition of a sorted buffer.
pub(super) struct BufferCursor<'a> {
    arena: &'a [u8],
    entries: &'a [Entry],
}

impl Sorted for BufferCursor<'_> {
    fn current(&self) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.first()?;
        Some((entry.key(self.arena), entry.value(self.arena)))
    }

    fn advance(&mut self) -> Result<(), TaskError> {
        self.entries = &self.entries[1..];
        Ok(())
    }
}
