//! The entries of an option that is a map, such as `compaction`.

use std::collections::BTreeMap;

use crate::error::{Result, config};

pub(super) type Entries = BTreeMap<String, String>;

pub(super) fn is_one_of(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Parses a text that consists only of decimal digits. `None` if the text is empty, contains another
/// character (such as a sign), or exceeds an `int` of Java.
pub(super) fn digits(text: &str) -> Option<i32> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

/// Returns the full name of a class. A class without a dot in its name is in Cassandra's package
/// `package`. If a class of this package is not in `known`, returns an error with the text that
/// `unknown` returns. A class of another package is accepted, because it may have been added to an
/// installation of Cassandra.
pub(super) fn full_class(
    package: &str,
    known: &[&str],
    class: &str,
    unknown: impl FnOnce(&str) -> String,
) -> Result<String> {
    let package = format!("org.apache.cassandra.{package}.");
    let full = if class.contains('.') {
        class.to_string()
    } else {
        format!("{package}{class}")
    };
    match full.strip_prefix(&package) {
        Some(own) if !known.contains(&own) => config(unknown(&full)),
        _ => Ok(full),
    }
}
