//! Words that mean something where a name may stand.

pub(super) use ebb_model::types::identifier::RESERVED_TYPES;
use ebb_model::types::identifier::is_reserved;

/// Words that are names of columns but not of functions: with a parenthesis behind them
/// they mean something else.
const NO_FUNCTION: &[&str] = &[
    "cast",
    "distinct",
    "json",
    "key",
    "maxwritetime",
    "ttl",
    "writetime",
];

/// Whether a word, in letters of any size, calls a function when a parenthesis follows.
pub(super) fn is_function(word: &str) -> bool {
    let known = |known: &&str| known.eq_ignore_ascii_case(word);
    word.eq_ignore_ascii_case("token") || !(is_reserved(word) || NO_FUNCTION.iter().any(known))
}
