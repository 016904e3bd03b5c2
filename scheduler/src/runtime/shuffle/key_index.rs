//! Finds the record of a key in a buffer: a table of hashes and numbers.
//!
//! Open addressing, linear probing, never more than three quarters full. Keys
//! stay with the records; the table has 32 bits of each key's hash, which rule out
//! nearly every record that is not the one, and from which it grows without
//! looking at a key.

use std::iter::repeat_n;

/// Slots at first; a power of two.
const SLOTS_MIN: usize = 1 << 8;

/// Records after which it is judged whether looking is worth it.
const TRIAL_RECORDS: u32 = 1 << 16;

/// Looking goes on if at least one record in so many was found.
const RECORDS_PER_HIT_MAX: u32 = 8;

/// A slot: the upper half of a hash and the number of a record, from 1; 0 when
/// empty.
type Slot = u64;

#[derive(Debug, Default)]
pub(in crate::runtime) struct KeyIndex {
    slots: Vec<Slot>,
    records: usize,
    looks: u32,
    hits: u32,
    gave_up: bool,
}

/// Where a key is not: what [`KeyIndex::insert`] needs.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Vacancy {
    at: usize,
    hash: u64,
}

impl KeyIndex {
    pub fn allocated_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// What it will allocate for the next record, beside what it has.
    pub fn grown_bytes(&self) -> usize {
        match self.is_full() {
            true => self.grown_slots() * size_of::<Slot>(),
            false => 0,
        }
    }

    /// Whether looking for keys was worth it so far.
    pub fn is_worth_it(&self) -> bool {
        !self.gave_up
    }

    /// The record with this hash of which `is_it` holds, or where it would be.
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

    /// Puts `record` where [`KeyIndex::find`], called last, did not find it.
    pub fn insert(&mut self, vacancy: Vacancy, record: usize) {
        self.slots[vacancy.at] = vacancy.hash & !u64::from(u32::MAX) | (record as u64 + 1);
        self.records += 1;
    }

    /// Forgets all records, and gives the memory back.
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

/// Where a key is looked for first: by the half of its hash that is kept.
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
    fn it_finds_what_was_put_in_and_nothing_else_however_hashes_collide() {
        let test = "it_finds_what_was_put_in_and_nothing_else_however_hashes_collide";
        for_seeds(test, 1, |seed| {
            for hash_bits in [64, 34, 32] {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let mut index = KeyIndex::default();
                let mut keys: Vec<u32> = Vec::new();
                let mut numbers: HashMap<u32, usize> = HashMap::new();
                for _ in 0..20_000 {
                    let key = rng.random_range(0..4000_u32);
                    // Few bits in the half that is kept, or none.
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
    fn it_gives_up_when_keys_hardly_repeat() {
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
