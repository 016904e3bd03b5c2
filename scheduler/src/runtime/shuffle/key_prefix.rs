//! The first bytes of a key as an integer, which decide most comparisons.

use std::cmp::Ordering;

/// The number of key bytes in a prefix.
pub(in crate::runtime) const PREFIX_BYTES: usize = 16;

/// Returns the first [`PREFIX_BYTES`] of `key`, padded with zeros, as an integer. If the prefixes
/// of two keys differ, they compare like the keys.
pub(in crate::runtime) fn key_prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; PREFIX_BYTES];
    match key.first_chunk() {
        Some(first) => bytes = *first,
        None => bytes[..key.len()].copy_from_slice(key),
    }
    u128::from_be_bytes(bytes)
}

/// Compares two keys whose first `compared` bytes, padded with zeros if a key is shorter, were
/// found to be equal.
pub(in crate::runtime) fn compare_behind(a: &[u8], b: &[u8], compared: usize) -> Ordering {
    match (a.get(compared..), b.get(compared..)) {
        (Some(a), Some(b)) => a.cmp(b),
        // A key that ends there is a prefix of the other one, up to zeros.
        _ => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_then_the_other_bytes_have_the_order_of_keys() {
        let stem = b"sixteen bytes and";
        let mut keys: Vec<Vec<u8>> = (0..=stem.len()).map(|n| stem[..n].to_vec()).collect();
        for key in keys.clone() {
            for tail in [&[0][..], &[0, 0], &[0, 1], &[255], b"tail"] {
                keys.push([&key, tail].concat());
            }
        }
        for compared in [4, 12, PREFIX_BYTES] {
            let unused_bits = 8 * (PREFIX_BYTES - compared) as u32;
            let prefix = |key: &[u8]| key_prefix(key) >> unused_bits;
            for (a, b) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))) {
                let order = prefix(a).cmp(&prefix(b));
                let order = order.then_with(|| compare_behind(a, b, compared));
                assert_eq!(order, a.cmp(b), "{a:?} and {b:?} by {compared} bytes");
            }
        }
    }
}
