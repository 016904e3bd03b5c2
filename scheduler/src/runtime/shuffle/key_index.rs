//! An index of the keys in a buffer: a table of hashes and record numbers.
//!
//! Open addressing, linear probing, at most three quarters full. Keys stay with the records; the
//! table has 32 bits of each key's hash. These bits rule out nearly every record with another key,
//! and are enough to grow the table without reading a key.

use std::iter::repeat_n;

/// Initial number of slots; a power of two.
const SLOTS_MIN: usize = 1 << 8;

/// The number of lookups, one per record, after which their benefit is evaluated: whether enough
/// of them have found an earlier record of the same key.
const TRIAL_RECORDS: u32 = 1 << 16;

/// Lookups end if fewer than one in this many has found a record of the same key: each costs CPU
/// time.
const RECORDS_PER_HIT_MAX: u32 = 8;

/// A slot: the upper 32 bits of a key's hash, and in the lower 32 bits the number of its record,
/// counted from 1. An empty slot is 0.
type Slot = u64;

#[derive(Debug, Default)]
pub(in crate::runtime) struct KeyIndex {
    slots: Vec<Slot>,
    records: usize,
    looks: u32,
    hits: u32,
    gave_up: bool,
}

/// The free slot for a key that was not found, for [`KeyIndex::insert`].
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Vacancy {
    at: usize,
    hash: u64,
}

impl KeyIndex {
    pub fn allocated_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Returns the size, in bytes, of the larger table that the index will allocate for the next
    /// record; 0 if the record fits into the present table. While the index copies the records,
    /// both tables exist.
    pub fn grown_bytes(&self) -> usize {
        if self.is_full() {
            self.grown_slots() * size_of::<Slot>()
        } else {
            0
        }
    }

    /// Returns whether lookups are worth their cost. After every [`TRIAL_RECORDS`] lookups this
    /// becomes false if fewer than one in [`RECORDS_PER_HIT_MAX`] of them found an earlier record
    /// of the same key.
    pub fn is_worth_it(&self) -> bool {
        !self.gave_up
    }

    /// Searches the records with this hash for the one that is sought: `is_it` returns true for its
    /// number. Returns the number. If there is no such record, returns the free slot for it as the
    /// error.
    pub fn find(&mut self, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, Vacancy> {
        self.looks += 1;
        if self.looks == TRIAL_RECORDS {
            self.gave_up = self.hits < TRIAL_RECORDS / RECORDS_PER_HIT_MAX;
            (self.looks, self.hits) = (0, 0);
        }
        if self.is_full() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = place(hash) & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(Vacancy { at, hash });
            }
            let record = (slot as u32 - 1) as usize;
            if slot >> 32 == hash >> 32 && is_it(record) {
                self.hits += 1;
                return Ok(record);
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts `record` in the vacancy that the last call of [`KeyIndex::find`] returned.
    pub fn insert(&mut self, vacancy: Vacancy, record: usize) {
        self.slots[vacancy.at] = vacancy.hash & !u64::from(u32::MAX) | (record as u64 + 1);
        self.records += 1;
    }

    /// Removes all records, and frees the memory.
    pub fn clear(&mut self) {
        self.slots = Vec::new();
        self.records = 0;
    }

    fn grow(&mut self) {
        let grown = repeat_n(0, self.grown_slots()).collect();
        let slots = std::mem::replace(&mut self.slots, grown);
        let mask = self.slots.len() - 1;
        for slot in slots.into_iter().filter(|slot| *slot != 0) {
            let mut at = place(slot) & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    fn is_full(&self) -> bool {
        self.records + 1 > self.slots.len() / 4 * 3
    }

    fn grown_slots(&self) -> usize {
        (2 * self.slots.len()).max(SLOTS_MIN)
    }
}

/// Returns the slot at which the search for a key begins, before it is masked to the size of the
/// table. It depends only on the upper half of the key's hash, which the table keeps.
fn place(hash: u64) -> usize {
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::HashMap;

    #[test]
    fn only_inserted_records_are_found_however_hashes_collide() {
        let test = "only_inserted_records_are_found_however_hashes_collide";
        for_seeds(test, 1, |seed| {
            for hash_bits in [64, 34, 32] {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let mut index = KeyIndex::default();
                let mut keys: Vec<u32> = Vec::new();
                let mut numbers: HashMap<u32, usize> = HashMap::new();
                for _ in 0..20_000 {
                    let key = rng.random_range(0..4000_u32);
                    // The half of the hash in the table has few bits that differ, or none.
                    let hash = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let hash = hash & (u64::MAX >> (64 - hash_bits));
                    match index.find(hash, |number| keys[number] == key) {
                        Ok(number) => assert_eq!(numbers.get(&key), Some(&number)),
                        Err(vacancy) => {
                            assert_eq!(numbers.insert(key, keys.len()), None);
                            index.insert(vacancy, keys.len());
                            keys.push(key);
                        }
                    }
                }
                assert!(keys.len() * size_of::<Slot>() < index.allocated_bytes());
                index.clear();
                assert_eq!(index.allocated_bytes(), 0);
            }
        });
    }

    #[test]
    fn lookups_end_when_keys_hardly_repeat() {
        for (keys, is_worth_it) in [(1000, true), (u64::MAX, false)] {
            let mut index = KeyIndex::default();
            let mut seen = Vec::new();
            for n in 0..u64::from(TRIAL_RECORDS) {
                let hash = (n % keys).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                if let Err(vacancy) = index.find(hash, |number| seen[number] == hash) {
                    index.insert(vacancy, seen.len());
                    seen.push(hash);
                }
            }
            assert_eq!(index.is_worth_it(), is_worth_it);
        }
    }
}
