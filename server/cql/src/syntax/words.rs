//! Words that mean something: which are no names, and how a name is written.

/// Words that are no names unless they are quoted, as in Cassandra 4.1, in order.
/// `true` and `false` are constants.
const RESERVED: &[&str] = &[
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "false",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "true",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

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

/// Names that no type of a user has unless they are quoted.
pub(super) const RESERVED_TYPES: &[&str] = &[
    "byte",
    "complex",
    "enum",
    "interval",
    "macaddr",
    "bitstring",
];

/// What DESCRIBE lists when it is called so, and not something with that name.
pub(super) const DESCRIBED: &[&str] = &[
    "aggregates",
    "cluster",
    "columnfamilies",
    "functions",
    "keyspaces",
    "tables",
    "types",
];

/// The longest of the reserved words.
const RESERVED_LEN_MAX: usize = 12;

/// Whether a word, in letters of any size, is no name unless it is quoted.
pub(super) fn is_reserved(word: &str) -> bool {
    if word.len() > RESERVED_LEN_MAX {
        return false;
    }
    let mut lower = [0; RESERVED_LEN_MAX];
    let lower = &mut lower[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    RESERVED
        .binary_search_by(|known| known.as_bytes().cmp(lower))
        .is_ok()
}

/// Whether a word, in letters of any size, calls a function when a parenthesis follows.
pub(super) fn is_function(word: &str) -> bool {
    let known = |known: &&str| known.eq_ignore_ascii_case(word);
    word.eq_ignore_ascii_case("token") || !(is_reserved(word) || NO_FUNCTION.iter().any(known))
}

/// Whether a text is read as itself without quotes, reserved or not.
pub(super) fn is_plain(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserved_words_are_in_order_and_within_their_length() {
        assert!(RESERVED.is_sorted());
        let longest = RESERVED.iter().map(|word| word.len()).max();
        assert_eq!(longest, Some(RESERVED_LEN_MAX));
        assert!(is_reserved("Select") && is_reserved("materialized") && !is_reserved("ttl"));
    }
}
