//! JSON in error messages, printed as Java prints the object that Cassandra's parser returns.

use std::fmt::{self, Write};

use super::printed;

/// A well-formed JSON value, which is displayed as Java prints it.
#[derive(Debug, Clone, Copy)]
pub struct ParsedJson<'t>(pub &'t str);

impl ParsedJson<'_> {
    /// Returns the simple name of the Java class to which Cassandra's parser would decode the
    /// value.
    pub fn class(self) -> &'static str {
        let json = self.0;
        match json.as_bytes().first() {
            Some(b'{') => "LinkedHashMap",
            Some(b'[') => "ArrayList",
            Some(b'"') => "String",
            Some(b't' | b'f') => "Boolean",
            Some(b'n') => "null",
            _ if json.contains(['.', 'e', 'E']) => "Double",
            _ if json.parse::<i32>().is_ok() => "Integer",
            _ if json.parse::<i64>().is_ok() => "Long",
            _ => "BigInteger",
        }
    }

    pub fn is_number(self) -> bool {
        self.0.starts_with(is_first_of_number)
    }
}

/// Prints token by token, without recursion: the values of a client may be nested so deep that a
/// recursion would overflow the stack.
impl fmt::Display for ParsedJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(first) = rest.chars().next() {
            let end = match first {
                '"' => end_of_string(rest),
                _ if is_first_of_number(first) => end_of_number(rest),
                _ => first.len_utf8(),
            };
            let (token, after) = rest.split_at(end);
            rest = after;
            match first {
                '"' => match serde_json::from_str::<String>(token) {
                    Ok(text) => f.write_str(&text)?,
                    Err(_) => f.write_str(token)?,
                },
                _ if is_first_of_number(first) => write_number(token, f)?,
                ':' => f.write_char('=')?,
                ',' => f.write_str(", ")?,
                ' ' | '\t' | '\n' | '\r' => {}
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

fn is_first_of_number(c: char) -> bool {
    c == '-' || c.is_ascii_digit()
}

/// Returns the index behind the JSON string at the start of `text`.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the index behind the number at the start of `text`.
fn end_of_number(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    text.find(|c: char| !is_part(c)).unwrap_or(text.len())
}

/// Writes a number: with a point or an exponent, it is written as Java prints a `Double`; an
/// integer is written in plain digits.
fn write_number(json: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (json.parse::<i64>(), json.parse::<f64>()) {
        (Ok(number), _) => write!(f, "{number}"),
        (_, Ok(number)) if ParsedJson(json).class() == "Double" => {
            f.write_str(&printed::double(number))
        }
        _ => f.write_str(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_messages_is_printed_as_by_java() {
        for (json, class, printed) in [
            ("12", "Integer", "12"),
            ("-0", "Integer", "0"),
            ("2147483648", "Long", "2147483648"),
            ("9223372036854775808", "BigInteger", "9223372036854775808"),
            ("1.50", "Double", "1.5"),
            ("1e10", "Double", "1.0E10"),
            ("true", "Boolean", "true"),
            (r#""a\u0041\n""#, "String", "aA\n"),
            ("[ 1 ,2.0, null,[] ]", "ArrayList", "[1, 2.0, null, []]"),
            (
                r#"{"a" : "x\"y", "b":{"c":[false]}}"#,
                "LinkedHashMap",
                "{a=x\"y, b={c=[false]}}",
            ),
        ] {
            assert_eq!(ParsedJson(json).class(), class, "{json}");
            assert_eq!(ParsedJson(json).to_string(), printed, "{json}");
        }
    }

    #[test]
    fn json_of_a_hundred_thousand_levels_is_printed() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(ParsedJson(&deep).to_string(), deep);
    }
}
