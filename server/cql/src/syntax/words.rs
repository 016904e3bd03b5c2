//! Words with a special meaning where a name is allowed.

pub(super) use ebb_model::types::identifier::RESERVED_TYPES;
use ebb_model::types::identifier::is_reserved;

/// Words that may be names of columns but not of functions: before a parenthesis they have another
/// meaning.
const NO_FUNCTION: &[&str] = &[
    "cast",
    "distinct",
    "json",
    "key",
    "maxwritetime",
    "ttl",
    "writetime",
];

/// Returns whether a word, in upper or lower case, calls a function when a parenthesis follows.
pub(super) fn is_function(word: &str) -> bool {
    let known = |known: &&str| known.eq_ignore_ascii_case(word);
    word.eq_ignore_ascii_case("token") || !(is_reserved(word) || NO_FUNCTION.iter().any(known))
}
