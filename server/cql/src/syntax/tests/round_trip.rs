//! What is printed reads as what was printed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::made::Maker;
use crate::syntax::parse;

const STATEMENTS: u64 = 20_000;

#[test]
fn every_made_tree_comes_back_from_its_text() {
    let first = match std::env::var("EBB_SEED") {
        Ok(seed) => seed.parse().expect("EBB_SEED is a number"),
        Err(_) => rand::rng().random_range(0..u64::MAX - STATEMENTS),
    };
    for seed in first..first + STATEMENTS {
        let mut maker = Maker {
            rng: ChaCha8Rng::seed_from_u64(seed),
            markers: Vec::new(),
        };
        let made = maker.statement();
        let text = made.to_string();
        let context = || format!("EBB_SEED={seed}\n{text}\n{made:?}");
        let parsed = parse(&text).unwrap_or_else(|error| panic!("{error}\n{}", context()));
        assert_eq!(parsed.statement, made, "{}", context());
        assert_eq!(parsed.markers, maker.markers, "{}", context());
        assert_eq!(parsed.statement.to_string(), text, "{}", context());
    }
}
