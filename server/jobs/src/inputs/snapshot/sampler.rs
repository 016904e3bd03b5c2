//! Keys that cut a stream of rows into even pieces.

use bytes::Bytes;

/// A sampler of keys at even distances in a stream of rows whose length is not known before its
/// end. When there are too many keys, it drops every other one and doubles the distance.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The number of bytes of all rows so far.
    pub(super) total_bytes: u64,
    distance_bytes: u64,
    /// The collected keys, each with the number of bytes of all rows before it.
    samples: Vec<(Bytes, u64)>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            total_bytes: 0,
            distance_bytes: 4 << 10,
            samples: Vec::new(),
        }
    }
}

impl Sampler {
    const SAMPLES_MAX: usize = 4096;

    /// Adds the next row, of `bytes` bytes.
    pub(super) fn add(&mut self, key: Bytes, bytes: u64) {
        let next = self.samples.last();
        let next = next.map_or(0, |(_, before)| before + self.distance_bytes);
        if self.total_bytes >= next {
            self.samples.push((key, self.total_bytes));
        }
        if self.samples.len() == Self::SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.distance_bytes *= 2;
        }
        self.total_bytes += bytes;
    }

    /// Returns keys, ascending, that cut the stream into at most `parts` pieces of about equal
    /// size.
    pub(super) fn cut(&self, parts: u64) -> Vec<Bytes> {
        let mut keys: Vec<Bytes> = Vec::new();
        for part in 1..parts {
            let target = self.total_bytes * part / parts;
            let at = self.samples.partition_point(|&(_, before)| before < target);
            if let Some((key, _)) = self.samples.get(at)
                && keys.last() != Some(key)
            {
                keys.push(key.clone());
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_bounded_and_even_in_a_long_stream() {
        let mut sampler = Sampler::default();
        for n in 0..1_000_000_u32 {
            sampler.add(Bytes::copy_from_slice(&n.to_be_bytes()), 100);
        }
        assert!(sampler.samples.len() < Sampler::SAMPLES_MAX);
        let keys: Vec<u32> = sampler
            .cut(4)
            .iter()
            .map(|key| u32::from_be_bytes(key[..].try_into().unwrap()))
            .collect();
        for (key, expected) in keys.into_iter().zip([250_000, 500_000, 750_000]) {
            assert!(key.abs_diff(expected) < 1000, "{key}");
        }
    }
}
