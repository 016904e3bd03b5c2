//! The parser as a function of any bytes, for `fuzz`.

use super::parse;

/// Parses a statement. If that succeeds, the printed statement must parse to an equal tree.
pub fn statement(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(parsed) = parse(&text) {
        let printed = parsed.statement.to_string();
        let again = parse(&printed)
            .unwrap_or_else(|error| panic!("{error}\nread: {text}\nprinted: {printed}"));
        assert_eq!(parsed, again, "read: {text}\nprinted: {printed}");
    }
}
