//! Seeds: a run is the same every time from the same one.

use rand::SeedableRng;

/// What every proof draws from.
pub type Rng = rand_chacha::ChaCha8Rng;

/// A generator that starts from `seed`.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// A number from the environment.
///
/// # Panics
/// When it is there and no number: the run would be another than was asked for.
pub fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs a random test for the first `count` of some seeds; for `EBB_SEED` alone, or
/// for the first `EBB_SEEDS`, when the environment says so. A panic is followed by
/// the words that repeat it.
pub fn for_seeds(seeds: impl IntoIterator<Item = u64>, count: usize, mut test: impl FnMut(u64)) {
    let mut run = |seed| {
        let _replay = Replay(format!("EBB_SEED={seed}"));
        test(seed);
    };
    match env("EBB_SEED") {
        Some(seed) => run(seed),
        None => {
            let count = env("EBB_SEEDS").map_or(count, |count| count as usize);
            seeds.into_iter().take(count).for_each(run);
        }
    }
}

/// Says how to replay when the test panics while it lives.
#[derive(Debug)]
pub struct Replay(pub String);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this with {}", self.0);
        }
    }
}
