//! JSON lines.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::BufRead;

use serde_json::value::RawValue;

use super::lines::Lines;
use super::{Key, Row, Rows, check_key, write_line_key};
use crate::error::Problem;

/// Every line that is not blank is a row.
pub(super) struct JsonRows<'a> {
    lines: Lines<'a>,
    key: Key,
}

impl<'a> JsonRows<'a> {
    pub(super) fn new(reader: Box<dyn BufRead + 'a>, key: Key) -> Self {
        let lines = Lines::new(reader);
        Self { lines, key }
    }
}

impl Rows for JsonRows<'_> {
    fn read(&mut self, row: &mut Row) -> Result<bool, Problem> {
        let mut blank_bytes = 0;
        loop {
            let Some(line) = self.lines.next()? else {
                return Ok(false);
            };
            if line.text.trim_ascii().is_empty() {
                blank_bytes += line.bytes;
                continue;
            }
            let bad = |what: String| Problem::bad(line.number, what);
            let object = Object::parse(line.text)
                .map_err(|error| bad(format!("it is no JSON object: {error}")))?;
            match &self.key {
                Key::Line(prefix) => write_line_key(&mut row.key, prefix, line.number)?,
                Key::Column(column) => {
                    let found = object
                        .member(column)
                        .map_err(|error| bad(format!("it is no JSON object: {error}")))?;
                    row.key = found.ok_or_else(|| {
                        bad(format!("it has no member {column:?}, which is the key"))
                    })?;
                    check_key(&row.key, column, line.number)?;
                }
            }
            row.value.clear();
            row.value.extend_from_slice(line.text);
            (row.line, row.text_bytes) = (line.number, line.bytes + blank_bytes);
            return Ok(true);
        }
    }
}

/// The members of an object, as they are written.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Object<'a>(#[serde(borrow)] HashMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Object<'a> {
    fn parse(text: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// What is at `path`, names of members of members with dots between them: the text of
    /// a string, other JSON as it is written, so that no digit of a number is lost.
    /// `None` where there is nothing, or null.
    fn member(&self, path: &str) -> serde_json::Result<Option<Vec<u8>>> {
        if let Some(value) = self.0.get(path) {
            return text_of(value);
        }
        let Some((first, rest)) = path.split_once('.') else {
            return Ok(None);
        };
        match self.0.get(first) {
            Some(value) if value.get().starts_with('{') => {
                Object::parse(value.get().as_bytes())?.member(rest)
            }
            _ => Ok(None),
        }
    }
}

fn text_of(value: &RawValue) -> serde_json::Result<Option<Vec<u8>>> {
    match value.get() {
        "null" => Ok(None),
        text if text.starts_with('"') => {
            Ok(Some(serde_json::from_str::<String>(text)?.into_bytes()))
        }
        other => Ok(Some(other.as_bytes().to_vec())),
    }
}
