use super::*;
use crate::error::Cause;

fn options(key: Option<&str>) -> LoadOptions {
    LoadOptions {
        key: key.map(str::to_string),
        ..LoadOptions::default()
    }
}

fn read_as(
    format: TextFormat,
    options: &LoadOptions,
    content: &[u8],
) -> Result<Vec<(String, String)>, (u64, String)> {
    let file = TextFile::new("f".into(), content.len() as u64);
    let line_and_message = |problem: Problem| match problem.what {
        Cause::Bad(what) => (problem.line, what),
        other => panic!("{other:?}"),
    };
    let mut rows = rows(&file, format, options, content).map_err(line_and_message)?;
    let (mut row, mut all, mut bytes) = (Row::default(), Vec::new(), 0);
    while rows.read(&mut row).map_err(line_and_message)? {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        all.push((text(&row.key), text(&row.value)));
        bytes += row.text_bytes;
    }
    if format == TextFormat::Text {
        assert_eq!(bytes, file.bytes);
    }
    Ok(all)
}

fn text(content: &[u8]) -> Result<Vec<(String, String)>, (u64, String)> {
    read_as(TextFormat::Text, &options(None), content)
}

fn csv(key: Option<&str>, content: &str) -> Result<Vec<(String, String)>, (u64, String)> {
    read_as(TextFormat::Csv, &options(key), content.as_bytes())
}

fn json(key: Option<&str>, content: &str) -> Result<Vec<(String, String)>, (u64, String)> {
    read_as(TextFormat::JsonLines, &options(key), content.as_bytes())
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
    expected.iter().map(owned).collect()
}

#[test]
fn every_line_is_a_row_without_its_end() {
    let expected = pairs(&[
        ("f:000000000001", "one"),
        ("f:000000000002", ""),
        ("f:000000000003", "two\u{e4}"),
        ("f:000000000004", "last"),
    ]);
    assert_eq!(text(b"one\r\n\ntwo\xc3\xa4\nlast").unwrap(), expected);
    assert_eq!(text(b"").unwrap(), []);
}

#[test]
fn a_line_keeps_its_key_when_its_file_grows_past_a_million_lines() {
    // Line numbers once had as many digits as the last one: a log that was loaded again after it
    // had grown past 999,999 lines had its lines twice.
    let before = text(&b"\n".repeat(999_999)).unwrap();
    let after = text(&b"\n".repeat(1_000_001)).unwrap();
    assert!(after.is_sorted());
    assert_eq!(before, after[..999_999]);
    assert_eq!(after[1_000_000].0, "f:000001000001");
}

#[test]
fn bytes_that_are_no_text_are_reported_with_their_line() {
    let good = b"line\n".repeat(10_000);
    let (line, what) = text(&[&good[..], b"ab\xff"].concat()).unwrap_err();
    assert_eq!(line, 10_001);
    assert!(what.contains("byte 3 is not UTF-8"), "{what}");
    let (line, what) = text(b"a\0\n").unwrap_err();
    assert!(line == 1 && what.contains("NUL"), "{what}");
}

#[test]
fn csv_records_are_rows_whose_key_is_a_column_or_their_line() {
    let content = "id,name\n7,\"a,\"\"b\"\"\"\n\n8,\"x\ny\"\n9,\n";
    let keyed = csv(Some("id"), content).unwrap();
    let expected = [("7", "7,\"a,\"\"b\"\"\""), ("8", "8,\"x\ny\""), ("9", "9,")];
    assert_eq!(keyed, pairs(&expected));
    assert_eq!(csv(Some("1"), content).unwrap(), keyed);
    let by_line = csv(None, content).unwrap();
    assert_eq!(by_line[0].0, "f:000000000002");
    assert_eq!(by_line[2].1, "9,");
}

#[test]
fn csv_of_other_forms_is_read_and_written_with_commas() {
    let semicolons = LoadOptions {
        delimiter: Some(b';'),
        header: false,
        ..options(Some("2"))
    };
    let rows = read_as(TextFormat::Csv, &semicolons, b"a,b;k\r\n;l\r\n").unwrap();
    assert_eq!(rows, pairs(&[("k", "\"a,b\",k"), ("l", ",l")]));
    let one = LoadOptions {
        header: false,
        ..options(None)
    };
    let rows = read_as(TextFormat::Csv, &one, b"\"\"\n").unwrap();
    assert_eq!(rows, pairs(&[("f:000000000001", "\"\"")]));
    // A byte order mark, which spreadsheets write, is not part of a name.
    let rows = csv(Some("id"), "\u{feff}id,b\n1,2\n").unwrap();
    assert_eq!(rows, pairs(&[("1", "1,2")]));
}

#[test]
fn malformed_csv_is_reported_with_its_line() {
    for (key, content, line, expected) in [
        ("id", "id,a\n1,2\n3\n", 3, "1 field"),
        ("id", "id,a\n1,2\n3,4,5\n", 3, "3 fields"),
        ("id", "id,a\n1,\"x\ny\"\n,2\n", 4, "is empty"),
        ("id", "a,b\n1,2\n", 1, "there are: a, b"),
        ("9", "a,b\n1,2\n", 1, "there are: a, b"),
        ("a", "a,b,a\n1,2,3\n", 1, "two columns are called \"a\""),
        ("a", "a,b\n1,\0\n", 2, "NUL"),
    ] {
        let (at, what) = csv(Some(key), content).unwrap_err();
        assert!(at == line && what.contains(expected), "{at}: {what}");
    }
    let (at, what) = csv(Some("a"), "a\n1\n\"x\ny\n").unwrap_err();
    assert!(
        at == 3 && what.contains("a quote is still open"),
        "{at}: {what}"
    );
    let long = "k".repeat(ebb_storage::MAX_KEY_BYTES + 1);
    let (at, what) = csv(Some("a"), &format!("a\n1\n{long}\n")).unwrap_err();
    assert!(at == 3 && what.contains("262145 bytes"), "{at}: {what}");
}

#[test]
fn malformed_quotes_are_text_only_on_request_and_well_formed_in_the_table() {
    let content = b"id,v\n1,5\" disk\n2,\"x\"y\n";
    let lenient = LoadOptions {
        lenient_quotes: true,
        ..options(Some("id"))
    };
    let rows = read_as(TextFormat::Csv, &lenient, content).unwrap();
    assert_eq!(rows, pairs(&[("1", "1,\"5\"\" disk\""), ("2", "2,xy")]));
    let strict = options(Some("id"));
    let (line, what) = read_as(TextFormat::Csv, &strict, content).unwrap_err();
    assert!(line == 2 && what.contains("inside field 2"), "{what}");
}

#[test]
fn a_csv_file_without_records_has_no_rows_and_a_column_may_have_no_name() {
    for content in ["", "\n\r\n", "\u{feff}", "id,v\n"] {
        assert_eq!(csv(Some("id"), content).unwrap(), [], "{content:?}");
    }
    let (line, what) = csv(Some("id"), "\n\nv\n").unwrap_err();
    assert!(line == 3 && what.contains("there are: v"), "{what}");
    // Programs that number rows write this.
    let rows = csv(Some("1"), ",v\n0,a\n").unwrap();
    assert_eq!(rows, pairs(&[("0", "0,a")]));
    let (_, what) = csv(Some("1"), ",v,\n0,a,b\n").unwrap_err();
    assert!(what.contains("two columns have no name"), "{what}");
    let no_header = LoadOptions {
        header: false,
        ..options(Some("3"))
    };
    let (line, what) = read_as(TextFormat::Csv, &no_header, b"a,b\n").unwrap_err();
    assert!(
        line == 1 && what.contains("there is no column \"3\""),
        "{what}"
    );
}

#[test]
fn json_lines_are_rows_whose_key_is_a_member_or_their_line() {
    let content = "{\"id\":\"\\u00e4\",\"n\":{\"x\":12345678901234567890.10}}\n \n{ \"id\" : 7 }\n";
    let values: Vec<&str> = content.lines().filter(|line| *line != " ").collect();
    let rows = json(Some("id"), content).unwrap();
    assert_eq!(rows, pairs(&[("\u{e4}", values[0]), ("7", values[1])]));
    let rows = json(None, content).unwrap();
    assert_eq!(rows[1].0, "f:000000000003");
    // Numbers keep all digits.
    let first = content.lines().next().unwrap();
    let rows = json(Some("n.x"), first).unwrap();
    assert_eq!(rows[0].0, "12345678901234567890.10");
}

#[test]
fn malformed_json_is_reported_with_its_line() {
    for (content, line, told) in [
        ("{\"id\":1}\n{\"id\":\n", 2, "no JSON object"),
        ("[1]\n", 1, "no JSON object"),
        ("{\"id\":1} x\n", 1, "no JSON object"),
        (
            "{\"ID\":1}\n",
            1,
            "member \"id\", which is the key, is missing",
        ),
        ("{\"id\":null}\n", 1, "is missing or null"),
        ("{\"id\":\"\"}\n", 1, "is empty"),
    ] {
        let (at, what) = json(Some("id"), content).unwrap_err();
        assert!(at == line && what.contains(told), "{at}: {what}");
    }
    let (_, what) = json(Some("id.x"), "{\"id\":7}\n").unwrap_err();
    assert!(what.contains("is missing or null"), "{what}");
}
