//! The rows that ebb itself reads and writes: keys and values of text, CSV and JSON.

use ebb_text::counts::uneven;
use serde::{Deserialize, Serialize};

use super::column::set_apart;
use super::csv::record;
use super::double_name;
use super::json::{self, Form};
use super::{Column, CsvProblem, Fields, InvalidInput, UnknownColumn};

/// The name of the column that is the key of a row, if the format gives it no other name.
pub const KEY: &str = "key";

/// The name of the column that is the whole value of a row.
pub const VALUE: &str = "value";

/// The format of the keys and values of rows. Each input and each output has one, and the next job
/// reads rows in the format in which they were written.
///
/// Columns have names. Fields of CSV records also have numbers, from 1, and `key` and `value` are
/// the whole key and the whole value unless another column has that name. In JSON, `a.b` is the
/// member with the name `a.b`, or else the member `b` of the member `a`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFormat {
    key: KeyFormat,
    value: ValueFormat,
}

/// The format of the key of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeyFormat {
    /// One or more columns of the row: the key is a single column unchanged, or several as a CSV
    /// record.
    Columns(Vec<Column>),
    /// The row's file and byte offset. It is written as the column `key`, unless the job changes
    /// the order of rows, as sort and join do.
    Place,
    /// A key that is not written to the output.
    Unwritten,
}

/// The format of the value of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueFormat {
    /// The row has no value in the output.
    Nothing,
    /// The value is one column, unchanged.
    Text(Column),
    /// The value is a CSV record with exactly these fields.
    Csv(Vec<Column>),
    /// The value is a CSV record whose fields have numbers, but no names.
    UnnamedCsv,
    /// The value is a JSON object, whose members are the columns.
    Json,
}

impl ValueFormat {
    /// Returns the format of plain text.
    pub fn text() -> Self {
        Self::Text(Column::text(VALUE))
    }

    /// Returns the format of CSV records with fields of these names. With `None`, the fields have
    /// no names.
    ///
    /// # Errors
    /// When two names are equal.
    pub fn csv(names: Option<&[String]>) -> Result<Self, InvalidInput> {
        let Some(names) = names else {
            return Ok(Self::UnnamedCsv);
        };
        match double_name(names) {
            Some(name) => Err(InvalidInput(format!("two columns are called {name:?}"))),
            None => Ok(Self::Csv(names.iter().map(Column::text).collect())),
        }
    }

    fn columns(&self) -> Vec<Column> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Text(column) => vec![column.clone()],
            Self::Csv(columns) => columns.clone(),
            Self::UnnamedCsv => vec![Column::text(VALUE)],
            Self::Json => vec![Column::json(VALUE)],
        }
    }
}

/// The place of a column in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Key,
    KeyField(usize),
    Value,
    ValueField(usize),
    Member(String),
}

impl RecordFormat {
    /// Returns the format of rows that are lines of text files: the key is the place of the line in
    /// its file, and the value is the line.
    pub fn text() -> Self {
        Self {
            key: KeyFormat::Place,
            value: ValueFormat::text(),
        }
    }

    /// Returns the format of rows that are records of files, with values of the format `value`.
    /// The key of such a row, the place of the record in its file, is not written to the output.
    pub fn file(value: ValueFormat) -> Self {
        Self {
            key: KeyFormat::Unwritten,
            value,
        }
    }

    /// Returns the format of rows of a table: a key, and a value.
    ///
    /// # Errors
    /// When a column of the value has the name of the key.
    pub fn table(value: ValueFormat) -> Result<Self, InvalidInput> {
        if let ValueFormat::Csv(columns) = &value
            && columns.iter().any(|column| column.name == KEY)
        {
            let text = format!(
                "a column of the values is called {KEY:?}, as the row's key is: rename the column"
            );
            return Err(InvalidInput(text));
        }
        Ok(Self {
            key: KeyFormat::Columns(vec![Column::text(KEY)]),
            value,
        })
    }

    /// Returns the format of rows whose key and value have these columns. A single column is the
    /// key or value unchanged; several are a CSV record. `key` must not be empty. A name that is
    /// already taken gets the prefix `row_`.
    pub fn rows(key: Vec<Column>, value: Vec<Column>) -> Self {
        assert!(!key.is_empty(), "a row has a key");
        let keys = key.len();
        let mut columns: Vec<Column> = key.into_iter().chain(value).collect();
        set_apart(&mut columns, "row_");
        let value = columns.split_off(keys);
        Self {
            key: KeyFormat::Columns(columns),
            value: Self::value_of(value),
        }
    }

    /// Returns the format of rows whose value has these columns, and whose key is not written to
    /// the output.
    pub fn values(columns: Vec<Column>) -> Self {
        Self::file(Self::value_of(columns))
    }

    fn value_of(mut columns: Vec<Column>) -> ValueFormat {
        match columns.len() {
            0 => ValueFormat::Nothing,
            1 => ValueFormat::Text(columns.remove(0)),
            _ => ValueFormat::Csv(columns),
        }
    }

    /// Returns the place of the field in a row, for each of the [`columns`](Self::columns), in
    /// their order.
    fn sources(&self) -> Vec<Source> {
        let mut sources: Vec<Source> = match &self.key {
            KeyFormat::Columns(columns) if columns.len() > 1 => {
                (0..columns.len()).map(Source::KeyField).collect()
            }
            KeyFormat::Columns(_) | KeyFormat::Place => vec![Source::Key],
            KeyFormat::Unwritten => Vec::new(),
        };
        match &self.value {
            ValueFormat::Nothing => {}
            ValueFormat::Csv(columns) => {
                sources.extend((0..columns.len()).map(Source::ValueField));
            }
            ValueFormat::Text(_) | ValueFormat::UnnamedCsv | ValueFormat::Json => {
                sources.push(Source::Value);
            }
        }
        sources
    }

    fn find(&self, name: &str) -> Result<Source, UnknownColumn> {
        let columns = self.columns();
        let is_json = self.value == ValueFormat::Json;
        let is_own = |column: &Column| column.name == name;
        // In JSON lines, `value` is a member like any other.
        let has_members_only = is_json && self.key == KeyFormat::Unwritten;
        if !has_members_only && let Some(at) = columns.iter().position(is_own) {
            return Ok(self.sources().swap_remove(at));
        }
        if is_json {
            let of_value = (name.strip_prefix(VALUE))
                .and_then(|rest| rest.strip_prefix('.'))
                .filter(|_| !has_members_only);
            return Ok(Source::Member(of_value.unwrap_or(name).to_string()));
        }
        let fields = match &self.value {
            ValueFormat::Csv(columns) => columns.len(),
            ValueFormat::UnnamedCsv => usize::MAX,
            _ => 0,
        };
        let number = name.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        match (name, number) {
            (_, Some(at)) if at < fields => Ok(Source::ValueField(at)),
            (KEY, _) => Ok(Source::Key),
            (VALUE, _) => Ok(Source::Value),
            _ => Err(self.unknown(name, &columns)),
        }
    }

    fn decoder_of(&self, sources: Vec<Source>) -> RowDecoder {
        let mut decoder = RowDecoder {
            count: sources.len(),
            key_fields: match &self.key {
                KeyFormat::Columns(columns) => columns.len(),
                KeyFormat::Place | KeyFormat::Unwritten => 1,
            },
            value: self.value.clone(),
            keys: Vec::new(),
            values: Vec::new(),
            of_key: Vec::new(),
            of_value: Vec::new(),
            members: Vec::new(),
            paths: Vec::new(),
            form: Form::Text,
        };
        for (at, source) in sources.into_iter().enumerate() {
            match source {
                Source::Key => decoder.keys.push(at),
                Source::Value => decoder.values.push(at),
                Source::KeyField(field) => decoder.of_key.push((at, field)),
                Source::ValueField(field) => decoder.of_value.push((at, field)),
                Source::Member(path) => {
                    decoder.members.push(at);
                    decoder.paths.push(path);
                }
            }
        }
        decoder
    }

    fn unknown(&self, name: &str, columns: &[Column]) -> UnknownColumn {
        let name = name.to_string();
        match self.value {
            ValueFormat::UnnamedCsv => UnknownColumn::Unnamed(name),
            ValueFormat::Text(_) => UnknownColumn::Text(name),
            _ => {
                let mut known: Vec<&str> = columns.iter().map(|column| &column.name[..]).collect();
                for any in [KEY, VALUE] {
                    if !known.contains(&any) {
                        known.push(any);
                    }
                }
                let known = known.join(", ");
                UnknownColumn::Named { name, known }
            }
        }
    }

    /// Returns the columns with which a row is written, in their order; no two have the same name.
    /// Rows may have more columns that can be selected by name: members of JSON, or the place in a
    /// file.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let mut columns = match &self.key {
            KeyFormat::Columns(columns) => columns.clone(),
            KeyFormat::Place => vec![Column::text(KEY)],
            KeyFormat::Unwritten => Vec::new(),
        };
        columns.extend(self.value.columns());
        columns
    }

    /// Returns a decoder of the columns with these names. Fails if the format shows that a column
    /// does not exist. Whether a JSON member exists is seen only in the rows.
    pub(super) fn decoder(&self, names: &[&str]) -> Result<RowDecoder, UnknownColumn> {
        let sources = names.iter().map(|name| self.find(name));
        Ok(self.decoder_of(sources.collect::<Result<_, _>>()?))
    }

    /// Returns a decoder of the columns with these names, and the columns with their kinds; `None`
    /// if the values are not JSON objects. Members of the objects are decoded as they are written,
    /// strings with their quotes.
    pub(super) fn json_decoder(&self, names: &[&str]) -> Option<(Vec<Column>, RowDecoder)> {
        if self.value != ValueFormat::Json {
            return None;
        }
        let sources = names.iter().map(|name| self.find(name).ok());
        let sources: Vec<Source> = sources.collect::<Option<_>>()?;
        let column = |(name, source): (&&str, &Source)| match source {
            Source::Value | Source::Member(_) => Column::member(*name),
            Source::Key | Source::KeyField(_) | Source::ValueField(_) => Column::text(*name),
        };
        let columns = names.iter().zip(&sources).map(column).collect();
        let decoder = RowDecoder {
            form: Form::Json,
            ..self.decoder_of(sources)
        };
        Some((columns, decoder))
    }

    /// Returns the decoder of all [`columns`](Self::columns).
    pub(crate) fn whole(&self) -> RowDecoder {
        self.decoder_of(self.sources())
    }

    /// Returns how many of the [`columns`](Self::columns), from the first one on, are the key of a
    /// row; 0 if the key is not written, or is only the file and byte offset of the row.
    pub(crate) fn key_columns(&self) -> usize {
        match &self.key {
            KeyFormat::Columns(columns) => columns.len(),
            KeyFormat::Place | KeyFormat::Unwritten => 0,
        }
    }

    /// Returns the index in [`columns`](Self::columns) of the column that `name` stands for; `None`
    /// if there is none. Besides its own name, a column may have another one, such as its number.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let found = self.find(name).ok()?;
        self.sources().iter().position(|source| *source == found)
    }

    /// Checks that the value of a row has this format, with `fields` as a buffer. The error
    /// describes the fault of the value.
    pub(super) fn check(&self, value: &[u8], fields: &mut Fields) -> Result<(), String> {
        match &self.value {
            ValueFormat::Csv(_) | ValueFormat::UnnamedCsv => {
                parse_value(&self.value, value, fields)
            }
            ValueFormat::Json => json::members(value, &[], &[], fields, Form::Text),
            ValueFormat::Nothing | ValueFormat::Text(_) => Ok(()),
        }
    }

    /// Appends a row as text in one line: its key, a tab and its value. If the format writes only
    /// one of the two, appends that one alone.
    pub(crate) fn push_text(&self, key: &[u8], value: &[u8], line: &mut Vec<u8>) {
        let has_key = self.key != KeyFormat::Unwritten;
        let has_value = self.value != ValueFormat::Nothing;
        if has_key {
            line.extend_from_slice(key);
        }
        if has_key && has_value {
            line.push(b'\t');
        }
        if has_value {
            line.extend_from_slice(value);
        }
    }

    /// Returns the names of the columns in one line, as [`push_text`](Self::push_text) writes their
    /// fields. The line is empty if a row is only a JSON object, whose members have names
    /// themselves.
    pub(crate) fn text_header(&self) -> Vec<u8> {
        let mut line = Vec::new();
        if self.value == ValueFormat::Json && self.key == KeyFormat::Unwritten {
            return line;
        }
        let mut keys = self.columns();
        let values = keys.split_off(keys.len() - self.value.columns().len());
        let names = |columns: &[Column]| record(columns.iter().map(|column| &column.name));
        self.push_text(&names(&keys), &names(&values), &mut line);
        line
    }

    /// Returns the format of the same rows without their keys, if a key is only the file and byte
    /// offset of a row; `None` if the key is part of the row.
    pub(crate) fn without_place(&self) -> Option<Self> {
        match self.key {
            KeyFormat::Columns(_) => None,
            KeyFormat::Place | KeyFormat::Unwritten => Some(Self::file(self.value.clone())),
        }
    }
}

/// A decoder of some columns of rows. It parses each part of a row at most once, and only if a
/// column needs it.
#[derive(Debug, Clone)]
pub(crate) struct RowDecoder {
    count: usize,
    /// The indexes, among the decoded fields, of those that get the bytes of the row's key
    /// unchanged.
    keys: Vec<usize>,
    /// The indexes, among the decoded fields, of those that get the bytes of the row's value
    /// unchanged.
    values: Vec<usize>,
    /// The fields that come from a CSV record in the key. A pair has the index of the field among
    /// the decoded ones, and its index in that record.
    of_key: Vec<(usize, usize)>,
    /// The fields that come from a CSV record in the value, as pairs like those of `of_key`.
    of_value: Vec<(usize, usize)>,
    /// The indexes of the fields that are members of the JSON object in the value.
    members: Vec<usize>,
    /// The path of each member in `members`: its name, or the names of nested members with dots
    /// between them.
    paths: Vec<String>,
    /// The form of those members that are JSON strings.
    form: Form,
    key_fields: usize,
    value: ValueFormat,
}

impl RowDecoder {
    /// Decodes a row into `fields`, in the order of the columns. A member that is a JSON string
    /// becomes its text, unless the decoder keeps members as they are written; other JSON keeps its
    /// original form. The error describes the fault of the row.
    pub(crate) fn decode(
        &self,
        key: &[u8],
        value: &[u8],
        fields: &mut Fields,
    ) -> Result<(), String> {
        fields.reset(self.count);
        for &at in &self.keys {
            fields.set(at, key);
        }
        for &at in &self.values {
            fields.set(at, value);
        }
        if !self.of_key.is_empty() {
            let parsed = fields.csv.parse(key);
            parsed.map_err(|problem| format!("its key: {problem}"))?;
            expect_fields(fields.csv.len(), self.key_fields, "its key")?;
            for &(at, field) in &self.of_key {
                fields.set_from_csv(at, field);
            }
        }
        if !self.of_value.is_empty() {
            parse_value(&self.value, value, fields)?;
            for &(at, field) in &self.of_value {
                fields.set_from_csv(at, field);
            }
        }
        if !self.members.is_empty() {
            json::members(value, &self.paths, &self.members, fields, self.form)?;
        }
        Ok(())
    }
}

fn parse_value(format: &ValueFormat, value: &[u8], fields: &mut Fields) -> Result<(), String> {
    fields.csv.parse(value).map_err(|problem| match problem {
        CsvProblem::Several => problem.to_string(),
        CsvProblem::OpenQuote | CsvProblem::QuoteInField(_) | CsvProblem::TextAfterQuote(_) => {
            format!("{problem}; --lenient-quotes reads such quotes as text")
        }
    })?;
    match format {
        ValueFormat::Csv(columns) => expect_fields(fields.csv.len(), columns.len(), "it"),
        _ => Ok(()),
    }
}

fn expect_fields(found: usize, expected: usize, what: &str) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(uneven(what, found, expected))
    }
}

#[cfg(test)]
mod tests;
