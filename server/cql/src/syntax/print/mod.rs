//! Printing of parts of statements, for messages: names, types, values, selectors and relations. The text
//! parses to an equal tree.

mod select;
#[cfg(any(test, feature = "fuzzing"))]
mod statement;
mod term;

use std::fmt::{Display, Formatter, Result};

use ebb_model::types::identifier::Quoted;

use super::ast::{Name, QualifiedName};

/// Prints the name as in CQL. It is in quotes unless it begins with a small letter, contains only
/// small letters, digits and `_`, and is no word that the parser or Cassandra requires in quotes.
impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Quoted(self.as_str()).fmt(f)
    }
}

impl Display for QualifiedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        self.name.fmt(f)
    }
}

/// Returns a name in quotes, even if it needs none.
fn quoted(name: &Name) -> String {
    format!("\"{}\"", name.as_str().replace('"', "\"\""))
}

/// Prints items with a separator between them.
struct JoinedItems<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for JoinedItems<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, item) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// Prints `a: b, c: d`.
struct Pairs<'a, K, V>(&'a [(K, V)]);

impl<K: Display, V: Display> Display for Pairs<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            // The space separates the key's colon from that of a marker.
            write!(f, "{comma}{key}: {value}")?;
        }
        Ok(())
    }
}

fn comma<T>(items: &[T]) -> JoinedItems<'_, T> {
    JoinedItems(items, ", ")
}
