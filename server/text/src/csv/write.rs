//! Writing of CSV records, with commas, and with quotes only where they are needed.

use super::CsvFields;

/// The byte order mark of UTF-8. Readers drop it at the start of a file, unless it is in quotes.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Appends a field to a record, in quotes if it needs them, and a comma before it unless the record
/// is empty. An empty first field is written as `""`: if it stays the only field, the line of the record
/// must not be empty.
pub fn push_field(record: &mut Vec<u8>, field: &[u8]) {
    if record.is_empty() && field.is_empty() {
        record.extend_from_slice(b"\"\"");
        return;
    }
    if !record.is_empty() {
        record.push(b',');
    }
    push_escaped(record, field);
}

/// Appends fields in the form of a row's key or value: a single field without quoting, several as a
/// CSV record. A field that is `None` is written as an empty one.
pub fn push_fields<'f>(to: &mut Vec<u8>, fields: impl ExactSizeIterator<Item = Option<&'f [u8]>>) {
    let is_record = fields.len() > 1;
    for field in fields {
        let field = field.unwrap_or_default();
        if is_record {
            push_field(to, field);
        } else {
            to.extend_from_slice(field);
        }
    }
}

/// Appends the record of `fields` to `to`. A single empty field is written as `""`, so that its
/// line is not empty; other empty fields are written without quotes, as other programs do.
pub fn push_record(to: &mut Vec<u8>, fields: &CsvFields) {
    if let (1, Some(b"")) = (fields.len(), fields.get(0)) {
        to.extend_from_slice(b"\"\"");
        return;
    }
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            to.push(b',');
        }
        push_escaped(to, field);
    }
}

/// Returns the CSV record of these fields, as [`push_field`] writes them.
pub fn record<F: AsRef<[u8]>>(fields: impl IntoIterator<Item = F>) -> Vec<u8> {
    let mut record = Vec::new();
    for field in fields {
        push_field(&mut record, field.as_ref());
    }
    record
}

fn push_escaped(record: &mut Vec<u8>, field: &[u8]) {
    let needs_quotes = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !field.starts_with(MARK) && !field.iter().any(needs_quotes) {
        record.extend_from_slice(field);
        return;
    }
    record.push(b'"');
    for &byte in field {
        if byte == b'"' {
            record.push(b'"');
        }
        record.push(byte);
    }
    record.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_quotes_only_where_they_need_them() {
        assert_eq!(record(["a b", "c,d", "\""]), b"a b,\"c,d\",\"\"\"\"");
        assert_eq!(record([""]), b"\"\"");
        assert_eq!(record(["", "x"]), b"\"\",x");
        // The first name of a header lost the mark, and no reader found the column.
        let marked = record(["\u{feff}a", "b\u{feff}"]);
        assert_eq!(marked, "\"\u{feff}a\",b\u{feff}".as_bytes());
        let rewritten = |record: &[u8]| {
            let mut fields = CsvFields::default();
            fields.parse(record).unwrap();
            let mut again = Vec::new();
            push_record(&mut again, &fields);
            String::from_utf8(again).unwrap()
        };
        assert_eq!(rewritten(b"\"\",\"x\",\"y,z\""), ",x,\"y,z\"");
        assert_eq!(rewritten(b""), "\"\"");
        assert_eq!(rewritten(b","), ",");
    }
}
