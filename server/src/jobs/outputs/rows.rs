//! A row as a line of text, CSV or JSON.

use std::io::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::jobs::records::csv::{CsvFields, push_field, record};

/// What a file of rows looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RowFormat {
    /// `KEY<TAB>VALUE`, as they are: a tab or newline inside is not escaped.
    Text,
    /// CSV (RFC 4180) with a header.
    Csv,
    /// A JSON object per line.
    JsonLines,
}

impl RowFormat {
    /// What the end of a file's name says; text where it says nothing.
    pub fn of_name(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("csv") => Self::Csv,
            Some("jsonl" | "ndjson") => Self::JsonLines,
            _ => Self::Text,
        }
    }

    /// The end of a part's name.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Text => "tsv",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }
}

/// A column of a job's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// What it is called, in a header and in JSON.
    pub name: String,
    /// Whether it holds numbers: in JSON they stand without quotes.
    pub is_number: bool,
}

impl Column {
    /// Of any bytes.
    pub fn text(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_number: false,
        }
    }

    /// Of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_number: true,
        }
    }
}

/// Writes rows of some columns. The first column is the key. With two the value
/// is the second as it is; with more the value is a CSV record of all but the
/// first; with one it is left out.
#[derive(Debug)]
pub struct RowWriter {
    format: RowFormat,
    columns: Vec<Column>,
    fields: CsvFields,
    line: Vec<u8>,
}

impl Clone for RowWriter {
    fn clone(&self) -> Self {
        Self::new(self.format, self.columns.clone())
    }
}

impl RowWriter {
    /// Of rows with `columns`, at least one.
    pub fn new(format: RowFormat, columns: Vec<Column>) -> Self {
        assert!(!columns.is_empty(), "a row has a key");
        Self {
            format,
            columns,
            fields: CsvFields::default(),
            line: Vec::new(),
        }
    }

    /// What a file of rows looks like.
    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// What a file of rows begins with.
    pub fn header(&self) -> Vec<u8> {
        if self.format != RowFormat::Csv {
            return Vec::new();
        }
        let mut header = record(self.columns.iter().map(|column| &column.name));
        header.push(b'\n');
        header
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When writing fails, or the value is not a CSV record where it has to be
    /// one.
    pub fn write(&mut self, key: &[u8], value: &[u8], to: &mut impl Write) -> io::Result<()> {
        match (self.format, self.columns.len()) {
            (RowFormat::Text, 1) => {
                to.write_all(key)?;
                return to.write_all(b"\n");
            }
            (RowFormat::Text, _) => {
                to.write_all(key)?;
                to.write_all(b"\t")?;
                to.write_all(value)?;
                return to.write_all(b"\n");
            }
            (RowFormat::Csv, columns) => {
                self.line.clear();
                push_field(&mut self.line, key);
                match columns {
                    1 => {}
                    2 => push_field(&mut self.line, value),
                    _ => {
                        self.line.push(b',');
                        self.line.extend_from_slice(value);
                    }
                }
            }
            (RowFormat::JsonLines, _) => self.object(key, value)?,
        }
        self.line.push(b'\n');
        to.write_all(&self.line)
    }

    fn object(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let invalid = |e| io::Error::new(io::ErrorKind::InvalidData, e);
        let is_record = self.columns.len() > 2;
        if is_record {
            self.fields.parse(value).map_err(invalid)?;
        }
        self.line.clear();
        self.line.push(b'{');
        for (at, column) in self.columns.iter().enumerate() {
            let field = match at.checked_sub(1) {
                None => key,
                Some(at) if is_record => self.fields.get(at).unwrap_or_default(),
                Some(_) => value,
            };
            if at > 0 {
                self.line.push(b',');
            }
            push_member(&mut self.line, column, field)?;
        }
        self.line.push(b'}');
        Ok(())
    }
}

/// `"name":field`; `"name_hex":"..."` for what is not UTF-8, so that nothing is
/// lost; `null` for an empty number.
fn push_member(line: &mut Vec<u8>, column: &Column, field: &[u8]) -> io::Result<()> {
    let Ok(text) = std::str::from_utf8(field) else {
        let digits: String = field.iter().map(|byte| format!("{byte:02x}")).collect();
        serde_json::to_writer(&mut *line, &format!("{}_hex", column.name))?;
        line.push(b':');
        return Ok(serde_json::to_writer(line, &digits)?);
    };
    serde_json::to_writer(&mut *line, &column.name)?;
    line.push(b':');
    if column.is_number && text.is_empty() {
        line.extend_from_slice(b"null");
    } else if column.is_number && serde_json::Number::from_str(text).is_ok() {
        line.extend_from_slice(field);
    } else {
        serde_json::to_writer(line, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: RowFormat, columns: &[Column], rows: &[(&[u8], &[u8])]) -> String {
        let mut writer = RowWriter::new(format, columns.to_vec());
        let mut all = writer.header();
        for (key, value) in rows {
            writer.write(key, value, &mut all).unwrap();
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn text_has_the_key_a_tab_and_the_value_as_they_are() {
        let two = [Column::text("word"), Column::number("count")];
        assert_eq!(written(RowFormat::Text, &two, &[(b"a", b"1")]), "a\t1\n");
        assert_eq!(written(RowFormat::Text, &two[..1], &[(b"a", b"")]), "a\n");
    }

    #[test]
    fn csv_has_a_header_and_quotes_where_they_are_needed() {
        let columns = ["k", "a b", "c,d"].map(Column::text);
        assert_eq!(
            written(
                RowFormat::Csv,
                &columns[..2],
                &[(b"x", b"1,\"2"), (b"", b"")]
            ),
            "k,a b\nx,\"1,\"\"2\"\n\"\",\n"
        );
        let value = record(["1", "two,three"]);
        assert_eq!(
            written(RowFormat::Csv, &columns, &[(b"x", &value)]),
            "k,a b,\"c,d\"\nx,1,\"two,three\"\n"
        );
        assert_eq!(
            written(RowFormat::Csv, &columns[..1], &[(b"x", b"")]),
            "k\nx\n"
        );
    }

    #[test]
    fn json_has_a_member_per_column_and_numbers_without_quotes() {
        let columns = [Column::text("k"), Column::number("n"), Column::text("s")];
        let rows: [(&[u8], &[u8]); 4] = [
            (b"42", b"17,a\"b"),
            (b"x", b",\"\n\""),
            (b"y", b"inf,1"),
            (b"\xff", b"-1.5e3,"),
        ];
        let lines = written(RowFormat::JsonLines, &columns, &rows);
        let expected = [
            r#"{"k":"42","n":17,"s":"a\"b"}"#,
            r#"{"k":"x","n":null,"s":"\n"}"#,
            r#"{"k":"y","n":"inf","s":"1"}"#,
            r#"{"k_hex":"ff","n":-1.5e3,"s":""}"#,
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        for line in lines.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        assert_eq!(
            written(RowFormat::JsonLines, &columns[..2], &[(b"a,b", b"1")]),
            "{\"k\":\"a,b\",\"n\":1}\n"
        );
    }

    #[test]
    fn the_end_of_a_name_says_what_the_rows_look_like() {
        for (name, format) in [
            ("a.csv", RowFormat::Csv),
            ("a.b/c.jsonl", RowFormat::JsonLines),
            ("a.ndjson", RowFormat::JsonLines),
            ("a.tsv", RowFormat::Text),
            ("csv", RowFormat::Text),
        ] {
            assert_eq!(RowFormat::of_name(name), format, "{name}");
        }
    }
}
