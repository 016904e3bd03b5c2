//! Types and values, compared with the behaviour of Cassandra 4.1.

mod compare;
mod elements;
mod literal;
mod names;
mod normal;
mod sort;
mod validate;

use std::sync::Arc;

use ebb_test_support::seed::for_seeds;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub(crate) use super::generate;
use super::{CqlType, UserType};

pub(super) fn address() -> Arc<UserType> {
    let fields = [
        ("street".into(), CqlType::Text),
        ("Number".into(), CqlType::Int),
        ("phones".into(), CqlType::set(CqlType::Text).freeze()),
    ];
    Arc::new(UserType::new("ks", "address", fields).unwrap())
}

pub(crate) fn parse(text: &str) -> CqlType {
    CqlType::parse(text, &|name| (name == "address").then(address)).unwrap()
}

/// Returns types whose values have an ordered form: every native one but `duration` and `counter`,
/// and some nested ones. (The nested ones that contain a duration are not allowed in a primary
/// key.)
pub(crate) fn ordered_types() -> Vec<CqlType> {
    let nested = [
        "frozen<list<decimal>>",
        "frozen<set<timeuuid>>",
        "frozen<map<varint, blob>>",
        "frozen<map<float, frozen<list<int>>>>",
        "tuple<int, text, frozen<set<double>>>",
        "frozen<address>",
        "tuple<tuple<uuid, boolean>, smallint>",
        "tuple<int, duration>",
        "frozen<map<tuple<duration>, frozen<list<duration>>>>",
    ];
    let native = CqlType::NATIVE.into_iter();
    native
        .filter(|t| !matches!(t, CqlType::Duration | CqlType::Counter))
        .chain(nested.map(parse))
        .collect()
}

/// Runs `check` with a generator from one seed, or from more if `EBB_SEEDS` is set.
pub(crate) fn with_rng(test: &str, mut check: impl FnMut(ChaCha8Rng)) {
    for_seeds(test, 1, |seed| check(ChaCha8Rng::seed_from_u64(seed)));
}
