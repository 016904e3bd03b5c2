//! The text of a statement without its constants, for logs: readers of logs may lack the permission to
//! read the table, or to know a password.

use super::lexer::{Lexer, TokenKind};

/// The replacement of a constant.
const MASK: &str = "?";
/// The end of a text that was cut.
const CUT: &str = "...";

/// Returns the text of a statement with `?` for each constant except NaN and Infinity, without
/// comments, and with single spaces. The text is cut before the token that would make it longer
/// than `bytes_max` bytes, or that is not CQL; then `...` is appended.
///
/// ```
/// use ebb_cql::syntax::masked;
///
/// let text = "CREATE  ROLE ada WITH PASSWORD = 'secret'\n AND LOGIN = true";
/// assert_eq!(masked(text, 100), "CREATE ROLE ada WITH PASSWORD = ? AND LOGIN = ?");
/// ```
#[must_use]
pub fn masked(text: &str, bytes_max: usize) -> String {
    let mut masked = String::new();
    let mut lexer = Lexer::new(text);
    let mut end = 0;
    loop {
        let token = match lexer.next() {
            Ok(token) if token.kind == TokenKind::End => return masked,
            Ok(token) => token,
            Err(_) => break,
        };
        if token.start > end && !masked.is_empty() {
            masked.push(' ');
        }
        end = token.end;
        let shown = if token.kind.constant().is_some() {
            MASK
        } else {
            &text[token.start..token.end]
        };
        if masked.len() + shown.len() > bytes_max {
            break;
        }
        masked.push_str(shown);
    }
    masked.push_str(CUT);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_constant_is_left_and_names_stay() {
        for (text, expected) in [
            (
                "INSERT INTO ks.\"T 1\" (k, v) VALUES (-12, 'it''s')",
                "INSERT INTO ks.\"T 1\" (k, v) VALUES (-?, ?)",
            ),
            (
                "UPDATE t SET m['a'] = 0xcafe, d = 1y2mo, f = 1.5e3 WHERE k = ? AND c = :c;",
                "UPDATE t SET m[?] = ?, d = ?, f = ? WHERE k = ? AND c = :c;",
            ),
            (
                "SELECT * FROM t WHERE id = 123e4567-e89b-12d3-a456-426655440000 -- a comment",
                "SELECT * FROM t WHERE id = ?",
            ),
            ("\n SELECT $$a 'b'$$\t/* no */ FROM t", "SELECT ? FROM t"),
        ] {
            assert_eq!(masked(text, 1000), expected);
        }
    }

    #[test]
    fn long_texts_and_invalid_statements_are_cut() {
        let text = format!("SELECT a{} FROM t", ", a".repeat(10_000));
        let cut = masked(&text, 100);
        assert!(cut.len() <= 104, "{}", cut.len());
        assert!(cut.starts_with("SELECT a, a") && cut.ends_with("..."));
        assert_eq!(
            masked("INSERT INTO t (k) VALUES ('open", 100),
            "INSERT INTO t (k) VALUES (..."
        );
        assert_eq!(masked("", 100), "");
        assert_eq!(masked(&"x".repeat(1000), 100), "...");
    }
}
