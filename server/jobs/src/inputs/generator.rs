//! Records from a seed.

use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::SPLIT_BYTES_MIN;

/// Length of a key in bytes.
const KEY_BYTES: usize = 10;

/// The number of different words in the values.
const WORDS: u64 = 5000;

/// Records drawn from a seed. The key has ten printable characters, drawn evenly as in gensort; the
/// value consists of words with frequencies by Zipf's law (that of the n-th word is proportional to
/// 1/n). A record depends only on the seed and its number, so the number of splits does not change
/// the records.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Generator {
    seed: u64,
    records: u64,
    value_bytes: usize,
    splits: usize,
}

impl Generator {
    /// Creates records with values of `value_bytes`, in at most `splits` splits.
    pub fn new(seed: u64, records: u64, value_bytes: usize, splits: usize) -> Self {
        Self {
            seed,
            records,
            value_bytes,
            splits: splits.max(1),
        }
    }

    fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }

    fn draw(&self, number: u64, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(number);
        key.clear();
        // Printable characters except the blank, so that a key is one word of a line.
        key.extend((0..KEY_BYTES).map(|_| b'!' + (rng.next_u32() % 94) as u8));
        value.clear();
        while value.len() < self.value_bytes {
            if !value.is_empty() {
                value.push(b' ');
            }
            push_word(zipf(rng.next_u64()), value);
        }
        value.truncate(self.value_bytes);
    }
}

/// Returns the number of a word, 0 to `WORDS - 1`, for a random number. A variable whose logarithm
/// is evenly distributed follows Zipf's law, except for rounding.
fn zipf(random: u64) -> u64 {
    let even = (random >> 11) as f64 / (1_u64 << 53) as f64;
    (((WORDS + 1) as f64).powf(even) as u64 - 1).min(WORDS - 1)
}

/// Appends the word with the number `number`: a syllable for each digit in base 60, the least
/// significant first.
fn push_word(mut number: u64, value: &mut Vec<u8>) {
    const CONSONANTS: &[u8] = b"bdfgklmnprst";
    const VOWELS: &[u8] = b"aeiou";
    let syllables = (CONSONANTS.len() * VOWELS.len()) as u64;
    loop {
        let syllable = (number % syllables) as usize;
        value.push(CONSONANTS[syllable / VOWELS.len()]);
        value.push(VOWELS[syllable % VOWELS.len()]);
        number /= syllables;
        if number == 0 {
            return;
        }
    }
}

impl Input for Generator {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let bytes = self.records.saturating_mul(self.record_bytes());
        let parts = (bytes / SPLIT_BYTES_MIN).clamp(1, self.splits as u64);
        let border =
            |part: u64| (u128::from(self.records) * u128::from(part) / u128::from(parts)) as u64;
        let split = |part: u64| {
            let (from, to) = (border(part), border(part + 1));
            Split {
                index: part as u32,
                bytes: (to - from) * self.record_bytes(),
                payload: [from.to_le_bytes(), to.to_le_bytes()].concat(),
                ..Split::default()
            }
        };
        Ok((0..parts).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let number = |at: usize| {
            u64::from_le_bytes(split.payload[at..at + 8].try_into().expect("eight bytes"))
        };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in number(0)..number(8) {
            self.draw(number, &mut key, &mut value);
            record(&key, &value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn records(generator: Generator) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut records = Vec::new();
        for split in generator.splits().unwrap() {
            let before = records.len();
            let mut record = |key: &[u8], value: &[u8]| {
                records.push((key.to_vec(), value.to_vec()));
                Ok(())
            };
            generator.read(&split, &mut record).unwrap();
            let read = (records.len() - before) as u64;
            assert_eq!(split.bytes, read * generator.record_bytes());
        }
        records
    }

    #[test]
    fn the_number_of_splits_does_not_change_the_records() {
        let one = records(Generator::new(7, 5000, 90, 1));
        assert_eq!(one.len(), 5000);
        assert_eq!(records(Generator::new(7, 5000, 90, 6)), one);
        assert_ne!(records(Generator::new(8, 5000, 90, 1)), one);
        assert!(one.iter().all(|(key, value)| {
            key.len() == 10 && key.iter().all(u8::is_ascii_graphic) && value.len() == 90
        }));
    }

    #[test]
    fn frequencies_of_words_follow_zipfs_law() {
        let mut counts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for (_, value) in records(Generator::new(1, 4000, 200, 1)) {
            for word in value.split(|&byte| byte == b' ') {
                *counts.entry(word.to_vec()).or_default() += 1;
            }
        }
        let count = |number| {
            let mut word = Vec::new();
            push_word(number, &mut word);
            f64::from(counts.get(&word).copied().unwrap_or(0))
        };
        // A word is a number rounded down, so rank n has the interval from n to n + 1 of
        // the logarithm.
        let expected = |rank: f64| ((rank + 1.0) / rank).ln();
        for rank in [2.0, 3.0, 10.0] {
            let ratio = count(rank as u64 - 1) / count(0);
            let expected = expected(rank) / expected(1.0);
            assert!((ratio / expected - 1.0).abs() < 0.15, "{rank}: {ratio}");
        }
        assert!(counts.len() > 1000);
    }
}
