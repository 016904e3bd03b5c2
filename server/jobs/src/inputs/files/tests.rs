use std::fs;

use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::inputs::SPLIT_BYTES_MIN;
use crate::records::InvalidRow;

const CSV: FileKind = FileKind::csv(true);

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Reads an input. Returns the keys (without the directory) and the values, by split.
    fn read(&self, input: &FilesInput) -> Result<Vec<Vec<(String, String)>>, TaskError> {
        let directory = format!("{}/", self.dir.path().display());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut all = Vec::new();
        for split in input.splits()? {
            let mut records = Vec::new();
            input.read(&split, &mut |key, value| {
                records.push((text(key).replace(&directory, ""), text(value)));
                Ok(())
            })?;
            all.push(records);
        }
        Ok(all)
    }
}

fn values(splits: Vec<Vec<(String, String)>>) -> Vec<String> {
    let records = splits.into_iter().flatten();
    records.map(|(_, value)| value).collect()
}

#[test]
fn every_line_of_every_file_comes_once_whatever_the_splits() {
    let test = "every_line_of_every_file_comes_once_whatever_the_splits";
    for_seeds(test, 1, |seed| {
        let place = Place::new();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut expected = Vec::new();
        for file in 0..5 {
            let mut content = String::new();
            for line in 0..rng.random_range(0..4000) {
                let line = format!("{file} {line} {}", "x".repeat(rng.random_range(0..400)));
                content += &line;
                content += ["\n", "\r\n", "\r"][rng.random_range(0..3)];
                expected.push(line);
            }
            place.write(&format!("data/{file}.txt"), content);
        }
        let total_bytes: usize = expected.iter().map(String::len).sum();
        place.write("data/_SUCCESS", "");
        place.write("data/.hidden/f", "hidden");
        let paths = [place.dir.path().join("data")];
        for splits in [1, 3, 8, 10_000] {
            let input = FilesInput::open(&paths, FileKind::Text, splits).unwrap();
            let cut = input.splits().unwrap();
            assert!(cut.len() <= splits);
            let even = (total_bytes / splits).max(SPLIT_BYTES_MIN as usize) as u64;
            for split in &cut[..cut.len() - 1] {
                assert!(split.bytes >= even, "{} of {even}", split.bytes);
                assert!(
                    split.bytes < even + even / 8 + 1000,
                    "{} of {even}",
                    split.bytes
                );
            }
            assert_eq!(values(place.read(&input).unwrap()), expected);
        }
    });
}

#[test]
fn a_key_is_the_file_and_the_byte_offset() {
    let place = Place::new();
    let path = place.write("a.txt", "one\n\nthree");
    let input = FilesInput::open(&[path], FileKind::Text, 1).unwrap();
    let expected = [("0", "one"), ("4", ""), ("5", "three")];
    let expected = expected.map(|(at, value)| (format!("a.txt:{at:0>12}"), value.to_string()));
    assert_eq!(place.read(&input).unwrap(), [expected]);
    let mut key = b"f:".to_vec();
    set_offset(&mut key, 2, u64::MAX);
    assert_eq!(key, format!("f:{}", u64::MAX).into_bytes());
}

#[test]
fn json_lines_are_lines_that_are_not_empty() {
    let place = Place::new();
    let path = place.write("a.jsonl", "{\"a\":1}\n\n  \n{\"a\":2}\n");
    let input = FilesInput::open(&[path], FileKind::JsonLines, 1).unwrap();
    assert_eq!(
        values(place.read(&input).unwrap()),
        ["{\"a\":1}", "{\"a\":2}"]
    );
}

#[test]
fn the_first_line_of_each_csv_file_names_the_columns() {
    let place = Place::new();
    let a = place.write("a.csv", "id,\"the name\"\r\n1,x\r\n\r\n2,\"y,z\"\r\n");
    let b = place.write("b.csv", "id,the name\n3,w");
    let empty = place.write("c.csv", "");
    let input = FilesInput::open(&[a.clone(), b, empty], CSV, 4).unwrap();
    let columns = input.format(&[]).unwrap().columns().into_iter();
    let columns: Vec<_> = columns.map(|column| column.name).collect();
    assert_eq!(columns, ["id", "the name"]);
    assert_eq!(
        values(place.read(&input).unwrap()),
        ["1,x", "2,\"y,z\"", "3,w"]
    );
    let other = place.write("d.csv", "id,age\n");
    let error = FilesInput::open(&[a, other], CSV, 4)
        .unwrap_err()
        .to_string();
    assert!(error.contains("d.csv has other columns"), "{error}");
}

#[test]
fn records_over_several_lines_come_whole_and_as_they_are_written() {
    let place = Place::new();
    let content =
        "n,text\n1,\"two\r\nlines\"\r\n2,\"say \"\"no\"\"\n\nmore\"\n3,\"5\"\" disk\"\n4,\"\"\n";
    let path = [place.write("a.csv", content)];
    let input = FilesInput::open(&path, CSV, 4).unwrap();
    let expected = [
        "1,\"two\r\nlines\"",
        "2,\"say \"\"no\"\"\n\nmore\"",
        "3,\"5\"\" disk\"",
        "4,\"\"",
    ];
    assert_eq!(values(place.read(&input).unwrap()), expected);
    let unclosed = [place.write("b.csv", "n\n1\n\"1\n2\n")];
    let input = FilesInput::open(&unclosed, CSV, 4).unwrap();
    let error = place.read(&input).unwrap_err().to_string();
    assert!(
        error.contains("b.csv, line 3: a quote is still open"),
        "{error}"
    );
}

/// Reads the records with their keys (file and byte offset), in parts of about `bytes` bytes. If
/// parts fail, returns the error of the first of them.
fn by_parts(input: &FilesInput, bytes: u64) -> Result<Vec<(String, String)>, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Vec::new();
    let splits = input.cut_by(bytes).map_err(|error| error.to_string())?;
    for part in splits.iter().flatten() {
        let read = input.read_part(part, &mut |key, value| {
            all.push((text(key), text(value)));
            Ok(())
        });
        read.map_err(|error| error.to_string())?;
    }
    Ok(all)
}

/// Draws a CSV file of two columns: some fields have quotes, line ends of all kinds occur in fields
/// and between records, and sometimes a place is malformed.
fn drawn_csv(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut text = b"a,b\n".to_vec();
    for _ in 0..rng.random_range(0..14) {
        let field: String = (0..rng.random_range(0..8))
            .map(|_| ["\"\"", ",", "\n", "\r", "\r\n", "x"][rng.random_range(0..6)])
            .collect();
        let end = ["\n", "\r\n", "\r", "\n\n"][rng.random_range(0..4)];
        let record = match rng.random_range(0..60) {
            0 => format!("x\"{end}"),
            1 => format!("1,\"x\"y{end}"),
            2 => format!("1,\"x{end}"),
            3 => format!("1{end}"),
            4..20 => format!("1,x{end}"),
            _ => format!("1,\"{field}\"{end}"),
        };
        text.extend_from_slice(record.as_bytes());
    }
    text
}

#[test]
fn every_size_of_the_splits_has_the_records_or_the_error_of_the_whole_file() {
    let test = "every_size_of_the_splits_has_the_records_or_the_error_of_the_whole_file";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let place = Place::new();
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..60 {
            let text = drawn_csv(&mut rng);
            let path = [place.write("a.csv", &text)];
            let input = FilesInput::open(&path, CSV, 1).unwrap();
            let whole = by_parts(&input, u64::MAX);
            for bytes in 1..text.len() as u64 {
                let parts = by_parts(&input, bytes);
                assert_eq!(parts, whole, "{} by {bytes}", text.escape_ascii());
            }
            if whole.is_ok() {
                accepted += 1;
            } else {
                refused += 1;
            }
        }
        assert!(accepted > 5 && refused > 5, "{accepted} and {refused}");
    });
}

/// Regression: if a split ended among blank lines before the header, the header was read as a
/// record.
#[test]
fn a_header_behind_blank_lines_is_no_record_whatever_the_splits() {
    let place = Place::new();
    for start in ["\n\n", "\r\n\r", "\u{feff}\n"] {
        let text = format!("{start}a,b\n1,x\n2,\"y\n\"\n");
        let input = FilesInput::open(&[place.write("a.csv", &text)], CSV, 1).unwrap();
        for bytes in 1..text.len() as u64 {
            let rows = by_parts(&input, bytes).unwrap();
            let values: Vec<&str> = rows.iter().map(|(_, value)| &value[..]).collect();
            assert_eq!(values, ["1,x", "2,\"y\n\""], "{start:?} by {bytes}");
        }
    }
}

#[test]
fn files_with_cr_line_ends_have_their_records() {
    // A regression: such files had no rows, and no error.
    let place = Place::new();
    let csv = [place.write("a.csv", "a,b\r1,2\r3,4\r")];
    let input = FilesInput::open(&csv, CSV, 4).unwrap();
    assert_eq!(values(place.read(&input).unwrap()), ["1,2", "3,4"]);
    let lines = [place.write("a.jsonl", "{\"a\":1}\r\r{\"a\":2}\r")];
    let input = FilesInput::open(&lines, FileKind::JsonLines, 4).unwrap();
    let read = values(place.read(&input).unwrap());
    assert_eq!(read, ["{\"a\":1}", "{\"a\":2}"]);
    let large: String = (0..40_000).map(|n| format!("{n}\r")).collect();
    let text = [place.write("a.txt", large)];
    let input = FilesInput::open(&text, FileKind::Text, 4).unwrap();
    let read = place.read(&input).unwrap();
    assert!(read.len() > 1);
    let expected: Vec<String> = (0..40_000).map(|n| n.to_string()).collect();
    assert_eq!(values(read), expected);
}

#[test]
fn the_byte_order_mark_of_each_file_is_dropped_also_of_a_compressed_one() {
    let place = Place::new();
    let path = [
        place.write("a.csv", "\u{feff}id,v\n1,a\n"),
        place.write("b.csv.gz", gzip("\u{feff}id,v\n2,b\n")),
        place.write("c.csv", "id,v\n3,c\n"),
    ];
    let input = FilesInput::open(&path, CSV, 1).unwrap();
    assert_eq!(values(place.read(&input).unwrap()), ["1,a", "2,b", "3,c"]);
    let columns = input.format(&[]).unwrap().columns();
    assert_eq!(columns[0].name, "id");
    let text = [place.write("a.txt", "\u{feff}word\n")];
    let input = FilesInput::open(&text, FileKind::Text, 1).unwrap();
    assert_eq!(values(place.read(&input).unwrap()), ["word"]);
}

#[test]
fn other_delimiters_and_malformed_quotes_are_rewritten_by_the_rules() {
    let place = Place::new();
    let tabs = [place.write("a.tsv", "id\tv\n1\ta,b\n2\t\"c\td\"\n")];
    let input = FilesInput::open(&tabs, CSV, 1).unwrap();
    let records = ["1,\"a,b\"", "2,c\td"];
    assert_eq!(values(place.read(&input).unwrap()), records);
    let content = "id,v\n1,5\" disk\n2,\"a\"b\n3,\"open\n4\n";
    let path = [place.write("a.csv", content)];
    let lenient = FileKind::Csv {
        header: true,
        delimiter: None,
        lenient_quotes: true,
    };
    let input = FilesInput::open(&path, lenient, 4).unwrap();
    let records = ["1,\"5\"\" disk\"", "2,ab", "3,\"open\n4\n\""];
    assert_eq!(values(place.read(&input).unwrap()), records);
    let splits = by_parts(&input, 1).unwrap();
    assert_eq!(splits.len(), 3);
    let input = FilesInput::open(&path, CSV, 4).unwrap();
    let error = place.read(&input).unwrap_err().to_string();
    assert!(
        error.contains("a.csv, line 2: a quote stands inside"),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_when_they_are_at_the_start_else_when_they_are_read() {
    let place = Place::new();
    let late = [&b"word\n".repeat(5000)[..], b"caf\xe9\n"].concat();
    let late = [place.write("late.txt", late)];
    let input = FilesInput::open(&late, FileKind::Text, 1).unwrap();
    let error = place.read(&input).unwrap_err();
    assert!(matches!(error, TaskError::Invalid(_)), "{error:?}");
    let error = error.to_string();
    assert!(
        error.contains("late.txt, line 5001: byte 4 is not UTF-8"),
        "{error}"
    );
    for (content, why) in [
        (&b"caf\xe9\n"[..], "a.txt, line 1: byte 4 is not UTF-8"),
        (b"a\n\0", "a.txt, line 2: it has a NUL byte"),
        (b"\xff\xfea\0", "a.txt is UTF-16: convert it"),
    ] {
        let path = [place.write("a.txt", content)];
        let error = FilesInput::open(&path, FileKind::Text, 1).unwrap_err();
        assert!(matches!(error, TaskError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// Regression: each line was examined again for every line after it, so 20,000 lines took 49 s.
#[test]
fn a_quote_that_is_missing_is_found_in_one_pass_over_very_many_lines() {
    let place = Place::new();
    let kind = UNNAMED;
    let lines = "she said \"\"no\"\", and so on\n".repeat(200_000);
    place.write("open.csv", format!("\"{lines}"));
    let open = FilesInput::open(&[place.dir.path().join("open.csv")], kind, 1);
    let error = open.unwrap_err().to_string();
    assert!(error.contains("line 1: a quote is still open"), "{error}");
    place.write("closed.csv", format!("\"{lines}\"\nnext\n"));
    let input = FilesInput::open(&[place.dir.path().join("closed.csv")], kind, 1).unwrap();
    let records = values(place.read(&input).unwrap());
    assert_eq!((records.len(), &records[1][..]), (2, "next"));
    assert_eq!(records[0].len(), lines.len() + 2);
}

#[test]
fn a_file_that_changes_or_is_not_there_is_an_error() {
    let place = Place::new();
    let path = place.write("a.txt", "one\ntwo\n");
    let input = FilesInput::open(std::slice::from_ref(&path), FileKind::Text, 1).unwrap();
    place.write("a.txt", "one\ntwo\nthree\n");
    let error = place.read(&input).unwrap_err().to_string();
    assert!(
        error.contains("changed") || error.contains("reading"),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    let error = FilesInput::open(std::slice::from_ref(&path), FileKind::Text, 1);
    let error = error.unwrap_err().to_string();
    assert_eq!(error, format!("no such file: {}", path.display()));
    let nothing = FilesInput::open(&[place.dir.path().into()], FileKind::Text, 1);
    assert!(nothing.unwrap_err().to_string().contains("no files"));
}

/// Regression: the file was checked only before a part was read, so the job succeeded with a
/// mixture of the old and the new content.
#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    let place = Place::new();
    let path = place.write("a.txt", "one\ntwo\n");
    let input = FilesInput::open(&[path], FileKind::Text, 1).unwrap();
    let splits = input.splits().unwrap();
    let read = input.read(&splits[0], &mut |_, _| {
        place.write("a.txt", "one\ntwo\nthree\n");
        Ok(())
    });
    let error = read.unwrap_err().to_string();
    assert!(error.contains("it has changed"), "{error}");
}

/// Regression: new content that looked malformed, or that the application refused, was reported as
/// a malformed line.
#[test]
fn a_file_that_is_rewritten_while_it_is_read_is_not_called_malformed() {
    for is_refused in [false, true] {
        let place = Place::new();
        let path = place.write("a.csv", "1,2\n".repeat(300_000));
        let input = FilesInput::open(&[path], UNNAMED, 1).unwrap();
        let splits = input.splits().unwrap();
        let mut is_rewritten = false;
        let read = input.read(&splits[0], &mut |key, _| {
            if !std::mem::replace(&mut is_rewritten, true) {
                place.write("a.csv", "1\"2,\n".repeat(300_000));
            }
            if is_refused {
                Err(InvalidRow::error(key, "it is bad"))
            } else {
                Ok(())
            }
        });
        let error = read.unwrap_err().to_string();
        assert!(error.contains("it has changed"), "{error}");
    }
}

const UNNAMED: FileKind = FileKind::csv(false);

#[test]
fn columns_without_a_header_have_the_names_given_or_numbers() {
    let place = Place::new();
    let path = [place.write("a.csv", "7,8\n9,10\n")];
    let input = FilesInput::open(&path, UNNAMED, 1).unwrap();
    let columns = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let format = input.format(&names)?;
        let columns = format.columns().into_iter().map(|column| column.name);
        Ok(columns.collect::<Vec<_>>().join(","))
    };
    assert_eq!(columns(&[]).unwrap(), "1,2");
    assert_eq!(columns(&["a", "b"]).unwrap(), "a,b");
    let error: InvalidInput = columns(&["a"]).unwrap_err();
    assert!(
        error.to_string().contains("1 name for the 2 columns"),
        "{error}"
    );
    assert!(columns(&["a", "a"]).is_err());
    let double = place.write("b.csv", "a,b,a\n1,2,3\n");
    let error = FilesInput::open(&[double], CSV, 1).unwrap_err().to_string();
    assert!(
        error.contains("b.csv, line 1: two columns are called \"a\""),
        "{error}"
    );
}

#[test]
fn the_error_of_a_refused_row_names_its_line() {
    let place = Place::new();
    let lines = "x\n".repeat(100_000);
    let path = [place.write("a.txt", format!("{lines}bad\n{lines}"))];
    let input = FilesInput::open(&path, FileKind::Text, 4).unwrap();
    let splits = input.splits().unwrap();
    let read = |split: &Split| {
        input.read(split, &mut |key, value| match value {
            b"bad" => Err(InvalidRow::error(key, "it is bad")),
            _ => Ok(()),
        })
    };
    let errors: Vec<_> = splits
        .iter()
        .filter_map(|split| read(split).err())
        .collect();
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].ends_with("a.txt, line 100001: it is bad"),
        "{errors:?}"
    );
}

fn gzip(content: &str) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(content.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn files_compressed_by_gzip_are_read_as_their_text_in_one_part() {
    let place = Place::new();
    let rows: Vec<String> = (0..30_000).map(|n| format!("{n},{}", n * n)).collect();
    let content = format!("n,square\n{}\n", rows.join("\n"));
    let (head, tail) = content.split_at(content.len() / 2);
    // Two such files in one are one text, as with gunzip.
    let compressed = [gzip(head), gzip(tail)].concat();
    let path = [
        place.write("a.csv.gz", &compressed),
        place.write("b.csv", "n,square\n1,1\n"),
    ];
    let input = FilesInput::open(&path, CSV, 8).unwrap();
    let read = place.read(&input).unwrap();
    assert_eq!(read[0][1].0, "a.csv.gz:000000000013");
    let mut expected = rows.clone();
    expected.push("1,1".to_string());
    assert_eq!(values(read), expected);
    let mut sampled = 0;
    for split in input.splits().unwrap() {
        let mut count = |_: &[u8], _: &[u8]| {
            sampled += 1;
            Ok(())
        };
        let read = input.sample(&split, 40, &mut count, &|| Ok(()));
        read.unwrap();
    }
    assert!((40..100).contains(&sampled), "{sampled}");
    let cut = [place.write("cut.csv.gz", &compressed[..compressed.len() / 2])];
    let input = FilesInput::open(&cut, CSV, 1).unwrap();
    let error = place.read(&input).unwrap_err().to_string();
    assert!(
        error.contains("cut.csv.gz, line ") && error.contains("cut off"),
        "{error}"
    );
    let bad = format!("{}\nbad\n", "x\n".repeat(5));
    let bad = [place.write("bad.gz", gzip(&bad))];
    let input = FilesInput::open(&bad, FileKind::Text, 1).unwrap();
    let split = &input.splits().unwrap()[0];
    let error = input.read(split, &mut |key, value| match value {
        b"bad" => Err(InvalidRow::error(key, "it is bad")),
        _ => Ok(()),
    });
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("bad.gz, line 7: it is bad"), "{error}");
}

#[test]
fn files_of_formats_that_are_not_read_are_refused_as_what_they_are() {
    let place = Place::new();
    for (content, name) in [
        (&b"PAR1\x15\x04rows PAR1"[..], "Parquet"),
        (b"BZh91AY&SY and so on", "bzip2"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"PK\x03\x04", "zip"),
    ] {
        let path = place.write("data/a.csv", content);
        let error = FilesInput::open(&[place.dir.path().join("data")], CSV, 1).unwrap_err();
        let error = error.to_string();
        let (path, name) = (path.display().to_string(), format!("format {name}"));
        assert!(error.contains(&path) && error.contains(&name), "{error}");
    }
    // Text that begins like the magic bytes of other formats.
    for content in ["PAR1 of the text", "BZhar", "PAR", ""] {
        let path = place.write("a.txt", content);
        FilesInput::open(&[path], FileKind::Text, 1).unwrap();
    }
}

/// Regression: at each place, a sample read up to 64 MiB to find the start of a record, and it
/// failed at a malformed record.
#[test]
fn a_sample_of_csv_passes_over_what_is_malformed_and_leaves_it_to_the_reader() {
    let place = Place::new();
    let rows =
        |numbers: Range<u32>| -> String { numbers.map(|n| format!("{n},row {n}\n")).collect() };
    let (head, tail) = (rows(0..10_000), rows(10_000..20_000));
    let malformed = "stray\" quote,x\n".repeat(4000);
    let path = [place.write("a.csv", format!("n,text\n{head}{malformed}{tail}"))];
    let input = FilesInput::open(&path, CSV, 1).unwrap();
    let split = &input.splits().unwrap()[0];
    let mut sampled = Vec::new();
    let mut keep = |_: &[u8], value: &[u8]| {
        sampled.push(String::from_utf8_lossy(value).into_owned());
        if sampled.len() % 100 == 99 {
            return Err(InvalidRow::error(b"k", "it is refused"));
        }
        Ok(())
    };
    let sampled_all = input.sample(split, 640, &mut keep, &|| Ok(()));
    sampled_all.unwrap();
    assert!((100..640).contains(&sampled.len()), "{}", sampled.len());
    let number = |row: &String| row.split(',').next().unwrap().parse::<u32>();
    let numbers: Vec<u32> = sampled.iter().filter_map(|row| number(row).ok()).collect();
    assert!(numbers.is_sorted() && numbers.first() < Some(&100));
    assert!(numbers.last() > Some(&15_000), "{:?}", numbers.last());
    let error = place.read(&input).unwrap_err().to_string();
    assert!(error.contains("a quote stands inside"), "{error}");
}

#[test]
fn bad_files_are_left_out_on_request_wherever_they_are_bad() {
    // A regression: one picture in a folder failed the job, and no option helped.
    let place = Place::new();
    place.write("data/a.png", b"\x89PNG\r\n\x1a\n\0");
    place.write("data/b.csv", "n,text\n1,\"open\n");
    place.write("data/c.csv", "n,text\n1,x\n");
    place.write("data/d.csv", "n,other\n2,x\n");
    place.write("data/e.csv", "n,text\n3,y\n");
    place.write(
        "data/f.csv",
        format!("n,text\n{}4\n", "4,z\n".repeat(20_000)),
    );
    let data = place.dir.path().join("data");
    let refused = FilesInput::open(std::slice::from_ref(&data), CSV, 1).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("a.png, line 3"), "{refused}");
    assert!(
        refused.ends_with("--skip-bad leaves such files out"),
        "{refused}"
    );
    let paths = [(data.clone(), data.as_path())];
    let (input, skipped) = FilesInput::open_good(&paths, CSV, 1).unwrap();
    assert_eq!(values(place.read(&input).unwrap()), ["1,x", "3,y"]);
    let skipped: Vec<_> = skipped.iter().map(ToString::to_string).collect();
    let expected = [
        "a.png, line 3: it has a NUL byte",
        "b.csv, line 2: a quote is still open",
        "d.csv has other columns than the files before it: n,other against n,text",
        "f.csv, line 20002: it has 1 field",
    ];
    assert_eq!(skipped.len(), expected.len(), "{skipped:?}");
    for (problem, part) in skipped.iter().zip(expected) {
        assert!(problem.contains(part), "{problem}");
    }
    let png = data.join("a.png");
    let only = FilesInput::open_good(&[(png.clone(), png.as_path())], FileKind::Text, 1);
    let only = only.unwrap_err().to_string();
    assert!(only.contains("a.png, line 3"), "{only}");
}
