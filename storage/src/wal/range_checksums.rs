//! Checksums of any ranges of the same bytes, each in about constant time.

use std::ops::Range;

use crc32fast::Hasher;

/// The checksum of each prefix whose length is a multiple of this number of bytes is recorded. The
/// checksum of any other prefix is computed from the recorded one before it, and fewer bytes than
/// this.
const STEP_BYTES: usize = 4 << 10;

/// The checksums of some prefixes of `bytes`, which give the checksum of any range. CRC-32 is
/// linear: the checksum of `A` followed by `B` is the checksum of `A`, shifted by as many zeros as
/// `B` is long, xor the checksum of `B`. So the checksums of two prefixes give that of the bytes
/// between their ends.
#[derive(Debug)]
pub(super) struct RangeChecksums<'a> {
    bytes: &'a [u8],
    prefixes: Vec<u32>,
}

impl<'a> RangeChecksums<'a> {
    /// Computes the checksums of the prefixes, in one pass over the bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut prefix = Hasher::new();
        let mut prefixes = vec![0];
        for step in bytes.chunks_exact(STEP_BYTES) {
            prefix.update(step);
            prefixes.push(prefix.clone().finalize());
        }
        Self { bytes, prefixes }
    }

    /// Returns the CRC-32 of a range, which lies within the bytes.
    pub(super) fn of(&self, range: Range<usize>) -> u32 {
        if range.len() <= 2 * STEP_BYTES {
            return crc32fast::hash(&self.bytes[range]);
        }
        let mut before = Hasher::new_with_initial(self.of_prefix(range.start));
        before.combine(&Hasher::new_with_initial_len(0, range.len() as u64));
        before.finalize() ^ self.of_prefix(range.end)
    }

    fn of_prefix(&self, end: usize) -> u32 {
        let step = end / STEP_BYTES;
        let mut prefix = Hasher::new_with_initial(self.prefixes[step]);
        prefix.update(&self.bytes[step * STEP_BYTES..end]);
        prefix.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_has_the_checksum_of_its_bytes() {
        let bytes: Vec<u8> = (0..40_000_u32).map(|i| ((i * i) >> 7) as u8).collect();
        let checksums = RangeChecksums::new(&bytes);
        let ends = [
            0, 1, 4095, 4096, 4097, 8192, 12_289, 20_000, 36_864, 39_999, 40_000,
        ];
        for (i, &start) in ends.iter().enumerate() {
            for &end in &ends[i..] {
                let expected = crc32fast::hash(&bytes[start..end]);
                assert_eq!(checksums.of(start..end), expected, "{start}..{end}");
            }
        }
    }
}
