//! Names of keyspaces, tables, columns, types and fields as CQL spells them.

use std::fmt;

/// Words that must be quoted to be names, as in Cassandra 4.1, in ascending order. `true` and
/// `false` are among them because the parser reads them as constants.
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

/// The length of the longest reserved word.
const RESERVED_LEN_MAX: usize = 12;

/// Words that Cassandra 4.1 quotes although statements accept them as names without quotes.
const QUOTED: [&str; 5] = ["default", "mbean", "mbeans", "replace", "unset"];

/// Words that must be quoted to name a user-defined type, as in Cassandra 4.1.
pub const RESERVED_TYPES: [&str; 6] = [
    "bitstring",
    "byte",
    "complex",
    "enum",
    "interval",
    "macaddr",
];

/// Returns whether a word, in upper or lower case, must be quoted to be a name.
pub fn is_reserved(word: &str) -> bool {
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

/// Returns whether the lexer reads `text` without quotes as one word, unchanged, reserved or not.
pub fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Returns whether `name` is printed without quotes.
fn is_plain(name: &str) -> bool {
    is_word(name) && !is_reserved(name) && !QUOTED.contains(&name)
}

/// Prints a name for a statement: in quotes if the parser requires them, or if Cassandra prints
/// them.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain(self.0) {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        }
    }
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

    /// DESCRIBE and the parser once had separate lists of words: DESCRIBE printed a column `true`
    /// without quotes, and the parser rejected the output.
    #[test]
    fn a_text_that_is_no_plain_name_is_quoted() {
        for name in ["true", "false", "select", "default", "Upper", "1a", ""] {
            assert_eq!(Quoted(name).to_string(), format!("\"{name}\""));
        }
        assert_eq!(Quoted("ttl").to_string(), "ttl");
    }
}
