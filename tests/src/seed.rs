//! Random numbers: one seed gives the same numbers on every machine. [`ebb_test_support::seed`]
//! decides which seeds a test runs.

use rand::SeedableRng;

/// The random number generator of all randomized tests.
pub type Rng = rand_chacha::ChaCha8Rng;

/// Returns a generator that starts from `seed`.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// Returns the `nth` seed that has a property, counted from 1 on. Seeds that are `period` apart
/// must agree on whether they have the property.
///
/// # Panics
/// If none of the first `period` seeds has the property.
pub fn nth_with(nth: u64, period: u64, has: impl Fn(u64) -> bool) -> u64 {
    let first: Vec<u64> = (0..period).filter(|seed| has(*seed)).collect();
    assert!(!first.is_empty(), "no seed has the property");
    let (at, count) = (nth.wrapping_sub(1), first.len() as u64);
    let periods_before = (at / count).wrapping_mul(period);
    periods_before.wrapping_add(first[(at % count) as usize])
}

/// Prints its text if the test panics before this value is dropped. The text describes the case
/// within a seed, such as the damaged byte.
#[derive(Debug)]
pub struct PrintOnPanic(pub String);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case that failed: {}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nth_with_counts_the_seeds_that_have_the_property() {
        let has = |seed: u64| [1, 4].contains(&(seed % 5));
        let found: Vec<u64> = (1..=5).map(|nth| nth_with(nth, 5, has)).collect();
        assert_eq!(found, [1, 4, 6, 9, 11]);
    }
}
