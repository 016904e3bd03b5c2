//! A bloom filter over the user keys of a partition: it excludes most absent keys without a read
//! of a data block.
//!
//! The bits that a key sets are derived from one 64-bit hash by double hashing (Kirsch and
//! Mitzenmacher, "Less Hashing, Same Performance", 2006), so a lookup hashes its key once for all
//! the runs it visits. See the book, Formats: SSTable.

use bytes::Bytes;

use super::damage::Damage;

/// The greatest number of bits that a key sets. It limits only filters with more than 44 bits per
/// key, which let almost no absent key through anyway.
const PROBES_MAX: u8 = 30;

/// Returns the hash of a key that [`Filter::may_contain`] takes: xxh3 with 64 bits and without a
/// seed.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// The bloom filter for the keys of one partition, a range of neighbouring data blocks of an
/// SSTable. The default excludes no key.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    bits: Bytes,
    /// Bits set per key; 0 when the table has no filters.
    probes: u8,
}

impl Filter {
    /// Reads a filter's payload: the bits, then the number of probes.
    pub(super) fn decode(payload: Bytes) -> Result<Self, Damage> {
        let Some((&probes, bits)) = payload.split_last() else {
            return Err(Damage("the filter is empty".into()));
        };
        if probes > PROBES_MAX || (probes == 0) != bits.is_empty() {
            return Err(Damage(format!(
                "a filter of {} bytes with {probes} probes per key",
                bits.len()
            )));
        }
        let bits = payload.slice(..payload.len() - 1);
        Ok(Self { bits, probes })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bits.len()
    }

    /// Returns false only if no key and no key prefix with this hash is in the partition. True
    /// proves nothing.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        positions(hash, self.probes, self.bits.len()).all(|bit| {
            self.bits
                .get(bit / 8)
                .is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
        })
    }
}

/// Collects the keys for the bloom filter of the open partition of an SSTable being written.
pub(super) struct FilterBuilder {
    bits_per_key: u32,
    /// The hash of each distinct key and key prefix. They are collected because the size of the
    /// filter depends on their number.
    hashes: Vec<u64>,
}

impl FilterBuilder {
    pub(super) fn new(bits_per_key: u32) -> Self {
        Self {
            bits_per_key,
            hashes: Vec::new(),
        }
    }

    /// Adds a key or a key prefix, by its hash; call once per distinct one.
    pub(super) fn add(&mut self, hash: u64) {
        if self.bits_per_key > 0 {
            self.hashes.push(hash);
        }
    }

    /// Returns the size of the filter if it were finished now, in bytes.
    pub(super) fn len(&self) -> usize {
        match self.bits_per_key {
            0 => 1,
            _ => self.bytes() + 1,
        }
    }

    /// Returns the size of the bits in bytes, at least 8: a smaller filter would let nearly every
    /// key pass.
    fn bytes(&self) -> usize {
        let bits = self.hashes.len() * self.bits_per_key as usize;
        bits.div_ceil(8).max(8)
    }

    /// Returns the encoded filter of the keys so far, which [`Filter::decode`] reads. Keys that are
    /// added later go into the filter of the next partition.
    pub(super) fn take(&mut self) -> Vec<u8> {
        if self.bits_per_key == 0 {
            return vec![0];
        }
        // ln 2 x bits per key minimises the false positives; 69 / 100 is ln 2.
        let probes = (self.bits_per_key * 69 / 100).clamp(1, u32::from(PROBES_MAX)) as u8;
        let bytes = self.bytes();
        let mut bits = vec![0; bytes];
        for hash in self.hashes.drain(..) {
            for bit in positions(hash, probes, bytes) {
                bits[bit / 8] |= 1 << (bit % 8);
            }
        }
        bits.push(probes);
        bits
    }
}

/// Returns the positions of the bits that a key sets in a filter of `bytes` bytes.
fn positions(hash: u64, probes: u8, bytes: usize) -> impl Iterator<Item = usize> {
    // The step's high half is the hash's low half: position and step are
    // independent where the multiplication below looks.
    let step = hash.rotate_left(32) | 1;
    let bits = bytes as u128 * 8;
    (0..u64::from(probes)).map(move |i| {
        let h = hash.wrapping_add(i.wrapping_mul(step));
        // Maps 0..2^64 onto 0..bits by a multiplication, cheaper than modulo.
        ((u128::from(h) * bits) >> 64) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(keys: u64, bits_per_key: u32) -> Filter {
        let mut builder = FilterBuilder::new(bits_per_key);
        for i in 0..keys {
            builder.add(key_hash(&i.to_be_bytes()));
        }
        Filter::decode(builder.take().into()).unwrap()
    }

    #[test]
    fn no_false_negatives_and_about_one_percent_false_positives() {
        for keys in [1, 10, 1000, 50_000] {
            let filter = filter(keys, 10);
            let contains = |i: &u64| filter.may_contain(key_hash(&i.to_be_bytes()));
            assert!((0..keys).all(|i| contains(&i)));
            let wrong = (1 << 40..(1 << 40) + 20_000).filter(contains).count();
            assert!(wrong < 300, "{wrong} of 20000 with {keys} keys");
        }
    }

    #[test]
    fn no_bits_per_key_means_no_filter() {
        assert!(filter(3, 0).may_contain(12345));
    }

    #[test]
    fn impossible_payloads_are_damage() {
        for payload in [&b""[..], b"\x07", b"bits\x00", b"bits\x1f"] {
            assert!(Filter::decode(Bytes::copy_from_slice(payload)).is_err());
        }
    }
}
