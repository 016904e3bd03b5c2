use std::fs;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const CSV: FileKind = FileKind::Csv {
    header: true,
    multiline: false,
};

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

    /// The keys without the directory, and the values, by split.
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
    let place = Place::new();
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut expected = Vec::new();
    for file in 0..5 {
        let mut content = String::new();
        for line in 0..rng.random_range(0..4000) {
            let line = format!("{file} {line} {}", "x".repeat(rng.random_range(0..400)));
            content += &line;
            content += ["\n", "\r\n"][rng.random_range(0..2)];
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
}

#[test]
fn a_key_tells_the_file_and_the_byte() {
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
    assert_eq!(input.columns().unwrap(), ["id", "the name"]);
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
fn records_over_several_lines_need_multiline_and_come_whole_then() {
    let place = Place::new();
    let content = "n,text\n1,\"two\nlines\"\n2,\"say \"\"no\"\"\n\nmore\"\n3,5\" disk\n4,\"\"\n";
    let path = [place.write("a.csv", content)];
    let input = FilesInput::open(&path, CSV, 4).unwrap();
    let error = place.read(&input).unwrap_err().to_string();
    assert!(
        error.contains("at byte 7 has a quote that is still open") && error.contains("--multiline"),
        "{error}"
    );
    let kind = FileKind::Csv {
        header: true,
        multiline: true,
    };
    let input = FilesInput::open(&path, kind, 4).unwrap();
    assert_eq!(
        values(place.read(&input).unwrap()),
        [
            "1,\"two\nlines\"",
            "2,\"say \"\"no\"\"\n\nmore\"",
            "3,5\" disk",
            "4,\"\""
        ]
    );
    let unclosed = [place.write("b.csv", "n\n\"1\n2\n")];
    let input = FilesInput::open(&unclosed, kind, 4).unwrap();
    let error = place.read(&input).unwrap_err().to_string();
    assert!(error.contains("at byte 2"), "{error}");
}

/// Each line was looked at again for every line after it: 20,000 lines took 49 s.
#[test]
fn a_quote_that_is_missing_is_found_in_one_pass_over_very_many_lines() {
    let place = Place::new();
    let kind = FileKind::Csv {
        header: false,
        multiline: true,
    };
    let lines = "she said \"\"no\"\", and so on\n".repeat(200_000);
    place.write("open.csv", format!("\"{lines}"));
    let input = FilesInput::open(&[place.dir.path().join("open.csv")], kind, 1).unwrap();
    let error = place.read(&input).unwrap_err().to_string();
    assert!(
        error.contains("at byte 0 has a quote that is still open"),
        "{error}"
    );
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
    let error = FilesInput::open(&[path], FileKind::Text, 1);
    assert!(error.unwrap_err().to_string().contains("a.txt"));
    let nothing = FilesInput::open(&[place.dir.path().into()], FileKind::Text, 1);
    assert!(nothing.unwrap_err().to_string().contains("no files"));
}
