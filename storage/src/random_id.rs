//! Random numbers that identify databases and files.

use std::hash::{BuildHasher, RandomState};

/// Returns 128 random bits, which are taken to be unique.
pub(crate) fn random_id() -> [u8; 16] {
    // The keys of a hasher are drawn from the system's randomness.
    let half = || RandomState::new().hash_one(0_u8).to_le_bytes();
    let (low, high) = (half(), half());
    std::array::from_fn(|i| match i {
        0..8 => low[i],
        _ => high[i - 8],
    })
}
