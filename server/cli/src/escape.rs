//! Text that clients chose, for the lines of a terminal or of a log.

use std::fmt::Write as _;

/// Returns a text with an escape in place of each control character, unless `stays` returns true for it: a
/// name must not begin a line that looks like another one, nor move the cursor.
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
