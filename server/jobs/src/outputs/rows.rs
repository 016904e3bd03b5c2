//! A row as a line of text, CSV or JSON.

use std::sync::Arc;

use ebb_scheduler::runtime::TaskError;
use serde_json::value::RawValue;

use crate::records::csv::{push_field, record};
use crate::records::{Column, ColumnKind, Fields, InvalidRow, RecordFormat, RowDecoder, RowFormat};

/// A writer of rows as lines of text, CSV or JSON.
#[derive(Debug, Clone)]
pub struct RowWriter {
    format: RowFormat,
    names_columns: bool,
    schema: Arc<RecordFormat>,
    columns: Vec<Column>,
    decoder: RowDecoder,
    fields: Fields,
    line: Vec<u8>,
}

impl RowWriter {
    /// Creates a writer for rows with the columns of `schema`.
    pub fn new(format: RowFormat, schema: Arc<RecordFormat>) -> Self {
        Self {
            format,
            names_columns: false,
            columns: schema.columns(),
            decoder: schema.whole(),
            schema,
            fields: Fields::default(),
            line: Vec::new(),
        }
    }

    /// Sets whether output in the format text begins with a line of the columns' names. CSV always
    /// does.
    #[must_use]
    pub fn naming_columns(self, names_columns: bool) -> Self {
        Self {
            names_columns,
            ..self
        }
    }

    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// Returns the first line of a file, with the columns' names and the line end; empty if the
    /// file has no such line.
    pub fn header(&self) -> Vec<u8> {
        let mut header = match self.format {
            RowFormat::Csv => record(self.columns.iter().map(|column| &column.name)),
            RowFormat::Text if self.names_columns => self.schema.text_header(),
            RowFormat::Text | RowFormat::JsonLines => Vec::new(),
        };
        if !header.is_empty() {
            header.push(b'\n');
        }
        header
    }

    /// Returns a row as a line, with the line end. The next call replaces it.
    ///
    /// # Errors
    /// When the row does not match its schema.
    pub fn line(&mut self, key: &[u8], value: &[u8]) -> Result<&[u8], TaskError> {
        self.line.clear();
        if self.format == RowFormat::Text {
            self.schema.push_text(key, value, &mut self.line);
        } else {
            let decoded = self.decoder.decode(key, value, &mut self.fields);
            decoded.map_err(|problem| InvalidRow::error(key, problem))?;
            match self.format {
                RowFormat::Csv => self.push_record(),
                _ => self.push_object(key)?,
            }
        }
        self.line.push(b'\n');
        Ok(&self.line)
    }

    fn push_record(&mut self) {
        for field in self.fields.iter() {
            push_field(&mut self.line, field.unwrap_or_default());
        }
    }

    fn push_object(&mut self, key: &[u8]) -> Result<(), TaskError> {
        let invalid = |problem: serde_json::Error| {
            InvalidRow::error(key, format!("it is no JSON: {problem}"))
        };
        // A row that consists of JSON only is the object itself.
        if let ([column], Some(field)) = (&self.columns[..], self.fields.get(0))
            && column.kind == ColumnKind::Json
        {
            return push_json(&mut self.line, field).map_err(invalid);
        }
        self.line.push(b'{');
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                self.line.push(b',');
            }
            let field = self.fields.get(at).unwrap_or_default();
            push_member(&mut self.line, column, field).map_err(invalid)?;
        }
        self.line.push(b'}');
        Ok(())
    }
}

/// Appends `json` as one line: line ends between its tokens, also a single CR, become blanks.
/// Strings of valid JSON contain no line ends.
fn push_json(line: &mut Vec<u8>, json: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<&RawValue>(json)?;
    let blank = |&byte: &u8| match byte {
        b'\n' | b'\r' => b' ',
        byte => byte,
    };
    line.extend(json.trim_ascii().iter().map(blank));
    Ok(())
}

/// Appends a member of a JSON object, `"name":field`. A field that is not UTF-8 becomes
/// `"name_hex":"..."`, so that no byte is lost; an empty number or an empty field of JSON becomes
/// `null`.
fn push_member(line: &mut Vec<u8>, column: &Column, field: &[u8]) -> serde_json::Result<()> {
    let Ok(text) = std::str::from_utf8(field) else {
        let digits: String = field.iter().map(|byte| format!("{byte:02x}")).collect();
        serde_json::to_writer(&mut *line, &format!("{}_hex", column.name))?;
        line.push(b':');
        return serde_json::to_writer(line, &digits);
    };
    serde_json::to_writer(&mut *line, &column.name)?;
    line.push(b':');
    match column.kind {
        ColumnKind::Number | ColumnKind::Json | ColumnKind::Member if text.is_empty() => {
            line.extend(b"null")
        }
        ColumnKind::Number if is_json_number(text) => line.extend_from_slice(field),
        ColumnKind::Json | ColumnKind::Member => push_json(line, field)?,
        ColumnKind::Number | ColumnKind::Text => serde_json::to_writer(line, text)?,
    }
    Ok(())
}

/// Returns whether `text` is a JSON number, of any size.
fn is_json_number(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    begins && serde_json::from_str::<&RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ValueFormat;

    fn written(format: RowFormat, columns: &[Column], rows: &[(&[u8], &[u8])]) -> String {
        let (key, value) = columns.split_at(1);
        let schema = RecordFormat::rows(key.to_vec(), value.to_vec());
        written_as(format, schema, rows)
    }

    fn written_as(format: RowFormat, schema: RecordFormat, rows: &[(&[u8], &[u8])]) -> String {
        let mut writer = RowWriter::new(format, Arc::new(schema));
        let mut all = writer.header();
        for (key, value) in rows {
            all.extend_from_slice(writer.line(key, value).unwrap());
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
    fn text_names_its_columns_on_request_as_it_writes_their_fields() {
        let columns =
            |names: &[&str]| -> Vec<Column> { names.iter().copied().map(Column::text).collect() };
        let rows = |key: &[&str], value: &[&str]| RecordFormat::rows(columns(key), columns(value));
        let json = RecordFormat::table(ValueFormat::Json).unwrap();
        for (schema, header) in [
            (rows(&["word"], &["count"]), "word\tcount\n"),
            (rows(&["a", "b"], &["c,d", "e"]), "a,b\t\"c,d\",e\n"),
            (rows(&["a"], &[]), "a\n"),
            (RecordFormat::values(columns(&["b", "a"])), "b,a\n"),
            (RecordFormat::text(), "key\tvalue\n"),
            (json, "key\tvalue\n"),
            (RecordFormat::file(ValueFormat::Json), ""),
        ] {
            let writer = |format| RowWriter::new(format, Arc::new(schema.clone()));
            let text = writer(RowFormat::Text).naming_columns(true).header();
            assert_eq!(String::from_utf8(text).unwrap(), header);
            assert_eq!(writer(RowFormat::Text).header(), b"");
            let json = writer(RowFormat::JsonLines).naming_columns(true);
            assert_eq!(json.header(), b"");
        }
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
            (b"42", b"17,\"a\"\"b\""),
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
    fn numbers_of_any_size_are_numbers_in_json() {
        let columns = [Column::number("n"), Column::number("m")];
        let rows: [(&[u8], &[u8]); 2] = [(b"1e400", b"007"), (b"12345678901234567890123", b"-")];
        let lines = written(RowFormat::JsonLines, &columns, &rows);
        let expected = "{\"n\":1e400,\"m\":\"007\"}\n\
                        {\"n\":12345678901234567890123,\"m\":\"-\"}\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn rows_of_json_are_their_objects_and_a_column_of_json_is_json() {
        let lines = RecordFormat::file(ValueFormat::Json);
        // Readers of JSON lines, ebb too, take a CR alone for the end of a line.
        let object = b"{\"a\":\n\r12345678901234567890123}";
        let rows: [(&[u8], &[u8]); 1] = [(b"place", object)];
        let written = |format, schema: &RecordFormat| written_as(format, schema.clone(), &rows);
        assert_eq!(
            written(RowFormat::JsonLines, &lines),
            "{\"a\":  12345678901234567890123}\n"
        );
        let table = RecordFormat::table(ValueFormat::Json).unwrap();
        assert_eq!(
            written(RowFormat::JsonLines, &table),
            "{\"key\":\"place\",\"value\":{\"a\":  12345678901234567890123}}\n"
        );
        let mut writer = RowWriter::new(RowFormat::JsonLines, Arc::new(table));
        let error = writer.line(b"row7", b"{").unwrap_err();
        assert!(error.to_string().contains("row7"), "{error}");
    }

    #[test]
    fn a_key_of_several_columns_comes_apart_and_one_that_is_a_place_is_left_out() {
        let two = ["a", "b"].map(Column::text).to_vec();
        let schema = RecordFormat::rows(two.clone(), vec![Column::number("n")]);
        let rows: [(&[u8], &[u8]); 1] = [(b"\"x,y\",z", b"1")];
        assert_eq!(
            written_as(RowFormat::Csv, schema, &rows),
            "a,b,n\n\"x,y\",z,1\n"
        );
        let schema = RecordFormat::values(two);
        let rows: [(&[u8], &[u8]); 1] = [(b"f.csv:12", b"1,2")];
        assert_eq!(
            written_as(RowFormat::Csv, schema.clone(), &rows),
            "a,b\n1,2\n"
        );
        assert_eq!(written_as(RowFormat::Text, schema, &rows), "1,2\n");
    }

    #[test]
    fn the_extension_of_a_file_decides_the_format() {
        for (name, format) in [
            ("a.csv", RowFormat::Csv),
            ("A.CSV", RowFormat::Csv),
            ("a.b/c.jsonl", RowFormat::JsonLines),
            ("a.ndjson", RowFormat::JsonLines),
            ("a.tsv", RowFormat::Text),
            ("csv", RowFormat::Text),
        ] {
            assert_eq!(RowFormat::of_name(name), format, "{name}");
        }
    }
}
