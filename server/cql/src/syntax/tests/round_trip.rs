//! Printed trees parse to equal ones.

use ebb_test_support::seed::for_seeds;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::made::Maker;
use crate::syntax::parse;

const STATEMENTS: u64 = 20_000;

#[test]
fn every_random_tree_is_parsed_from_its_text() {
    for_seeds(
        "every_random_tree_is_parsed_from_its_text",
        STATEMENTS,
        |seed| {
            let mut maker = Maker {
                rng: ChaCha8Rng::seed_from_u64(seed),
                markers: Vec::new(),
            };
            let made = maker.statement();
            let text = made.to_string();
            let context = || format!("{text}\n{made:?}");
            let parsed = parse(&text).unwrap_or_else(|error| panic!("{error}\n{}", context()));
            assert_eq!(parsed.statement, made, "{}", context());
            assert_eq!(parsed.markers, maker.markers, "{}", context());
            assert_eq!(parsed.statement.to_string(), text, "{}", context());
        },
    );
}
