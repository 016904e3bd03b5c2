//! Seeds: a run is the same every time from the same one.

use rand::SeedableRng;

/// What every proof draws from.
pub type Rng = rand_chacha::ChaCha8Rng;

/// A generator that starts from `seed`.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}
