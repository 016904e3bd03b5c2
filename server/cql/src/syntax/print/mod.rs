//! Parts of statements to text, for messages: names, types, values, selectors and relations. Each reads as
//! the same tree.

mod select;
#[cfg(any(test, feature = "fuzzing"))]
mod statement;
mod term;

use std::fmt::{Display, Formatter, Result};

use ebb_model::types::identifier::Quoted;

use super::ast::{Name, QualifiedName};

/// As CQL writes it: in quotes where it is not small letters, digits and `_`, or where it
/// is a reserved word.
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

/// A name in quotes, needed or not.
fn quoted(name: &Name) -> String {
    format!("\"{}\"", name.as_str().replace('"', "\"\""))
}

/// Items with something between them.
struct Joined<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for Joined<'_, T> {
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

/// `a: b, c: d`.
struct Pairs<'a, K, V>(&'a [(K, V)]);

impl<K: Display, V: Display> Display for Pairs<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            // A marker's colon must not follow the key's.
            write!(f, "{comma}{key}: {value}")?;
        }
        Ok(())
    }
}

fn comma<T>(items: &[T]) -> Joined<'_, T> {
    Joined(items, ", ")
}
