//! What is wrong with a scenario, and where.

use std::fmt;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A scenario that cannot be used: which file, which line, which field, what is
/// wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ScenarioError {
    file: String,
    line: Option<usize>,
    field: Option<String>,
    what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ", {field}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl ScenarioError {
    /// Line of the file, from 1, where it is known.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// The field, as a path such as `nodes[0].count`, where it is known.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Of what is wrong with a field of a scenario that TOML could read.
    pub(super) fn of_field(file: &str, field: &str, what: String) -> Self {
        Self {
            file: file.into(),
            line: None,
            field: Some(field.into()),
            what,
        }
    }

    /// Of what the TOML parser or serde found.
    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span();
        Self {
            file: file.into(),
            line: span.as_ref().map(|span| line_of(text, span.start)),
            field: span.and_then(|span| field_at(text, span.start)),
            what: error.message().trim().replace('\n', "; "),
        }
    }
}

/// A field and what is wrong with it, before the line is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Complaint {
    /// As `nodes[0].count`.
    pub field: String,
    pub what: String,
}

impl Complaint {
    pub fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            what: what.into(),
        }
    }

    /// Finds the line: that of the field, or of the table it is missing from.
    pub fn locate(self, file: &str, text: &str) -> ScenarioError {
        let line = DeTable::parse(text).ok().and_then(|root| {
            let start = start_of(root.get_ref(), &self.field)?;
            Some(line_of(text, start))
        });
        ScenarioError {
            file: file.into(),
            line,
            field: Some(self.field),
            what: self.what,
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at.min(text.len())].matches('\n').count()
}

/// Where a field's value begins, or that of the innermost part of its path that
/// is there.
fn start_of(root: &DeTable<'_>, field: &str) -> Option<usize> {
    let mut table = root;
    let mut start = None;
    for part in field.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse().ok()),
            None => (part, None),
        };
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else {
            break;
        };
        start = Some(key.span().start);
        let mut value: &Spanned<DeValue<'_>> = value;
        if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
            let index: usize = index;
            let Some(item) = items.get(index) else { break };
            value = item;
            start = Some(value.span().start);
        }
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    start
}

/// The path of the field whose key or value is at `at`.
fn field_at(text: &str, at: usize) -> Option<String> {
    fn within(table: &DeTable<'_>, at: usize) -> Option<String> {
        for (key, value) in table {
            if key.span().contains(&at) {
                return Some(key.get_ref().to_string());
            }
            if let Some(inner) = inside(value, at) {
                return Some(format!("{}{inner}", key.get_ref()));
            }
        }
        None
    }
    fn inside(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
        let here = value.span().contains(&at);
        match value.get_ref() {
            DeValue::Table(table) => within(table, at)
                .map(|inner| format!(".{inner}"))
                .or_else(|| here.then(String::new)),
            DeValue::Array(items) => (0..)
                .zip(items.iter())
                .find_map(|(index, item): (usize, _)| {
                    inside(item, at).map(|inner| format!("[{index}]{inner}"))
                })
                .or_else(|| here.then(String::new)),
            _ => here.then(String::new),
        }
    }
    within(DeTable::parse(text).ok()?.get_ref(), at)
}
