//! Errors of scenario files, with file, line and field.

use std::fmt;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The reason why a scenario cannot be used, with its place: the file, the line and the field.
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
    /// Returns the line of the file, from 1, if it is known.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the field, as a path such as `nodes[0].count`, if it is known.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Converts an error of the TOML parser or of serde.
    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span();
        Self {
            file: file.into(),
            line: span.as_ref().map(|span| line_of(text, span.start)),
            // The table of the whole file has the empty span at the start, where a field may begin.
            field: (span.filter(|span| *span != (0..0)))
                .and_then(|span| field_at(text, span.start)),
            what: error.message().trim().replace('\n', "; "),
        }
    }
}

/// An invalid field and the reason, before the line is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldError {
    /// Path of the field, such as `nodes[0].count`.
    pub field: String,
    pub what: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            what: what.into(),
        }
    }

    /// Converts the error into one without a line, for a value that is not from the file.
    pub fn without_line(self, file: &str) -> ScenarioError {
        ScenarioError {
            file: file.into(),
            line: None,
            field: Some(self.field),
            what: self.what,
        }
    }

    /// Finds the line of the field, or of the table in which it is missing.
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

/// Returns the offset at which a field begins; if it is missing, the offset of the innermost part
/// of its path that exists; `None` if no part exists.
fn start_of(root: &DeTable<'_>, field: &str) -> Option<usize> {
    let (mut table, mut path) = (root, field);
    let mut start = None;
    loop {
        // A name may contain dots and brackets itself, so the longest name with which the path
        // begins wins.
        let candidates = (table.iter())
            .filter_map(|(key, value)| Some((key, value, behind_name(path, key.get_ref())?)));
        let Some((key, mut value, mut rest)) = candidates.min_by_key(|(_, _, behind)| behind.len())
        else {
            return start;
        };
        start = Some(key.span().start);
        while let Some((index, behind)) = index_of(rest) {
            let DeValue::Array(items) = value.get_ref() else {
                return start;
            };
            let Some(item) = items.get(index) else {
                return start;
            };
            (value, rest) = (item, behind);
            start = Some(item.span().start);
        }
        match (rest.strip_prefix('.'), value.get_ref()) {
            (Some(behind), DeValue::Table(inner)) => (table, path) = (inner, behind),
            _ => return start,
        }
    }
}

/// Returns what follows `name` in a path: nothing, `.field` or `[index]`. `None` if the path does
/// not begin with this name.
fn behind_name<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let behind = path.strip_prefix(name)?;
    (behind.is_empty() || behind.starts_with(['.', '['])).then_some(behind)
}

/// Parses an index such as `[0]` at the start of a path; returns the index and the rest of the
/// path, or `None` if the path does not begin with an index.
fn index_of(path: &str) -> Option<(usize, &str)> {
    let (index, behind) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, behind))
}

/// Returns the path of the field whose key or value contains the byte of `text` at the offset `at`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_errors_find_their_line_even_if_names_contain_dots() {
        let text = "[run]\ncycle_s = 1\n[applications.\"a.b\"]\nmap_s = 1\n[sweep]\n\"job[0].maps\" = [1]\n[[job]]\nmaps = [[1], [2]]\n";
        for (field, line) in [
            ("run.cycle_s", 2),
            ("run.horizon_s", 1),
            ("applications.a.b.map_s", 4),
            ("applications.a.b.map.cpu_hundredths", 3),
            ("sweep.job[0].maps", 6),
            ("job[0].maps[1][0]", 8),
            ("job[0].name", 7),
            ("job[9].name", 7),
        ] {
            let error = FieldError::new(field, "no").locate("x.toml", text);
            assert_eq!(error.line(), Some(line), "{field}");
        }
        let nowhere = FieldError::new("nodes", "no").locate("x.toml", text);
        assert_eq!(nowhere.to_string(), "x.toml, nodes: no");
    }
}
