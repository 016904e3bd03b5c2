//! Random numbers of tests that always draw the same ones.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns a generator with this seed, and prints the seed.
pub(crate) fn test_rng(seed: u64) -> ChaCha8Rng {
    println!("seed {seed}");
    ChaCha8Rng::seed_from_u64(seed)
}
