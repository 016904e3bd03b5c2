//! Validation of a JSON line: it must be an object by RFC 8259 that every JSON reader in ebb
//! accepts.

use memchr::memchr2;
use serde::de::IgnoredAny;

/// The maximal nesting of objects and lists, the object of the line included: the limit of
/// `serde_json` for values.
pub(super) const NESTING_MAX: usize = 127;

/// Checks that `text`, which is UTF-8, is one JSON object. Several members may have the same name: all
/// readers in ebb take the last of them.
///
/// # Errors
/// A message about the problem.
pub(super) fn check_object(text: &[u8]) -> Result<(), String> {
    let no_object = |why: &str| format!("it is no JSON object: {why}");
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(no_object("expected an object, as in {\"id\": 1}"));
    }
    // Checks the grammar in one pass without recursion, and parses no number.
    serde_json::from_slice::<IgnoredAny>(text).map_err(|error| no_object(&message_of(&error)))?;
    check_depth_and_strings(text).map_err(|why| no_object(&why))
}

/// Returns the message of `error` with the place as "at byte N", without the line, which is always 1.
fn message_of(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(what) => format!("{what} at byte {}", error.column()),
        None => message,
    }
}

/// Checks two rules that `serde_json` does not enforce for ignored values: the nesting has at most
/// [`NESTING_MAX`] levels, and no string has half of a surrogate pair. `text` is JSON.
fn check_depth_and_strings(text: &[u8]) -> Result<(), String> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > NESTING_MAX {
                    return Err(format!("it nests more than {NESTING_MAX} levels deep"));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = string_end(text, at + 1)?,
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Returns the index of the closing quote of the string whose text begins at `at`. Returns a message if
/// an escape in it is half of a surrogate pair.
fn string_end(text: &[u8], mut at: usize) -> Result<usize, String> {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(found) = memchr2(b'"', b'\\', rest) else {
            return Ok(text.len());
        };
        at += found;
        if text[at] == b'"' {
            return Ok(at);
        }
        at += match (escaped_unit(text, at), escaped_unit(text, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(unit @ 0xd800..=0xdfff), _) => {
                return Err(format!("\\u{unit:04x} is half of a character"));
            }
            (Some(_), _) => 6,
            // An escape of two bytes, such as \n.
            (None, _) => 2,
        };
    }
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at `at`; `None` if no such escape begins there.
fn escaped_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..)?.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!("{{\"a\":{open}{close}}}")
    }

    #[test]
    fn objects_are_accepted_with_every_digit_and_double_members() {
        for text in [
            "{}",
            " {\"a\" : 1} ",
            "{\"n\":12345678901234567890.10e400}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":\"\\ud83d\\ude00 \\u00e4 \\\\ud800 \\\"\"}",
            "{\"\u{20ac}\":[{},[],null,true]}",
            &nested(NESTING_MAX),
        ] {
            assert_eq!(check_object(text.as_bytes()), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_deepest_object_that_is_accepted_can_be_read_into_a_value() {
        let value = |levels| serde_json::from_str::<serde_json::Value>(&nested(levels));
        assert!(value(NESTING_MAX).is_ok());
        assert!(value(NESTING_MAX + 1).is_err());
    }

    #[test]
    fn anything_else_is_an_error_that_names_the_reason() {
        for (text, why) in [
            ("[1]", "expected an object"),
            ("7", "expected an object"),
            ("{\"a\":", "EOF while parsing a value at byte 5"),
            ("{\"a\":1} x", "trailing characters at byte 9"),
            ("{\"a\":01}", "invalid number"),
            ("{\"a\":NaN}", "expected value"),
            ("{\"a\":1,}", "key must be a string"),
            ("{'a':1}", "key must be a string"),
            ("{\"a\":\"\t\"}", "control character"),
            ("{\"a\":\"\\x\"}", "invalid escape"),
            ("{\"a\":\"\\ud800\"}", "\\ud800 is half of a character"),
            ("{\"a\":[\"\\ud800\\u0041\"]}", "\\ud800 is half"),
            ("{\"\\uDC00\":1}", "\\udc00 is half"),
            (&nested(NESTING_MAX + 1), "more than 127 levels deep"),
            (&"{\"a\":".repeat(100_000), "EOF"),
        ] {
            let error = check_object(text.as_bytes()).unwrap_err();
            assert!(error.starts_with("it is no JSON object: "), "{error}");
            assert!(error.contains(why), "{text:.60}: {error}");
        }
    }
}
