//! The parser and the cutting of scripts, as a function of any bytes, for `fuzz`.

use super::{Script, parse};

/// A statement, and the same bytes as a script: what parses is printed and read again,
/// equal.
pub fn statement(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(parsed) = parse(&text) {
        let printed = parsed.statement.to_string();
        let again = parse(&printed)
            .unwrap_or_else(|error| panic!("{error}\nread: {text}\nprinted: {printed}"));
        assert_eq!(parsed, again, "read: {text}\nprinted: {printed}");
    }
    let mut end = 0;
    for statement in Script::new(&text).map_while(Result::ok) {
        assert!(statement.offset >= end && !statement.text.is_empty());
        end = statement.offset + statement.text.len();
    }
    assert!(end <= text.len());
}
