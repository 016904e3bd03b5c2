//! Text that clients chose, for the lines of a terminal or of a log.

use std::fmt::Write as _;

/// Returns a line, or a part of a line, with an escape in place of each control character and of Unicode's
/// separators of lines and paragraphs.
pub(super) fn escaped_line(line: &str) -> String {
    escaped(line, |_| false)
}

/// Returns a text with the same escapes as [`escaped_line`] makes, except that line feeds and tabs stay.
pub(super) fn escaped_lines(text: &str) -> String {
    escaped(text, |character| matches!(character, '\t' | '\n'))
}

/// Returns a text with escapes in place of Unicode's separators of lines and paragraphs, and of control
/// characters, except those for which `stays` returns true. Without escapes, a name with the end of a line
/// could forge a line of output, and a name with an escape sequence could move the cursor.
pub(super) fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let ends_line = matches!(character, '\u{2028}' | '\u{2029}');
        if ends_line || (character.is_control() && !stays(character)) {
            // A string of JSON may have this form, too. Writing to a string does not fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_line_ends_and_tabs_only_within_a_line() {
        let text = "a\tb\nc\r\x1b[31md\u{9b}\u{2028}";
        assert_eq!(
            escaped_line(text),
            "a\\u0009b\\u000ac\\u000d\\u001b[31md\\u009b\\u2028"
        );
        assert_eq!(
            escaped_lines(text),
            "a\tb\nc\\u000d\\u001b[31md\\u009b\\u2028"
        );
    }
}
