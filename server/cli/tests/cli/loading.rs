//! Loads of files into tables: their formats, and that each load is atomic.

use std::io::Write;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::place::{Place, Running, output};
use crate::signals;

const LOAD: &str = "load --table app.t";

pub fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_ref()).unwrap();
    packed.finish().unwrap()
}

impl Place {
    /// Checks that a load is refused with exit code 2, loads nothing and creates no database. Returns the
    /// error message.
    #[track_caller]
    fn load_refused(&self, arguments: &str) -> String {
        let said = self.ebb(&format!("{LOAD} {arguments}")).fails(2);
        assert!(said.contains("nothing was loaded"), "{said}");
        assert!(!self.path("ebb-data").exists());
        said
    }

    /// Returns the files of the database except for its manifest, which is written anew each time that the
    /// database is opened, under the next number.
    fn data_files(&self) -> Vec<String> {
        let mut files = self.files("ebb-data");
        files.retain(|name| !name.contains("MANIFEST-"));
        files
    }

    fn keys(&self) -> String {
        let keys = self.ebb("scan app.t --keys-only").ok();
        keys.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_log_that_grew_past_a_million_lines_is_not_loaded_twice() {
    // Line numbers once had the width of the last one: after a second load with one line more, every
    // row of a long log had two keys.
    let place = Place::new();
    let rows = |lines: usize| {
        place.write("a.log", "x\n".repeat(lines));
        place.ebb("load --table app.t a.log").ok();
        place.ebb("scan app.t --keys-only").ok().lines().count()
    };
    assert_eq!(rows(999_999), 999_999);
    assert_eq!(rows(1_000_001), 1_000_001);
}

#[test]
fn rows_by_a_key_column_come_from_csv_and_json_packed_or_not() {
    // CSV files could once be loaded as lines only, the header included.
    let place = Place::new();
    place.write("a.csv", "id,city\n7,\"Bonn, am Rhein\"\n3,Ulm\n");
    place.write("b.csv.gz", gzip("id,city\n5,\"two\nlines\"\n"));
    let said = place.ebb(&format!("{LOAD} --key id a.csv b.csv.gz")).ok();
    assert!(said.starts_with("loaded 3 rows"), "{said}");
    assert!(said.contains("--values csv --names id,city"), "{said}");
    assert_eq!(place.keys(), "3 5 7");
    assert_eq!(place.ebb("get app.t 7").ok(), "7,\"Bonn, am Rhein\"\n");
    let by_city = "run combine --table app.t --values csv --names id,city --by city --output -";
    assert!(place.ebb(by_city).ok().contains("Ulm\t"));

    place.write("c.jsonl", "{\"user\":{\"id\":9007199254740993},\"x\":1}\n");
    place.ebb(&format!("{LOAD} --key user.id c.jsonl")).ok();
    assert_eq!(place.keys(), "3 5 7 9007199254740993");

    place.write("d.txt", "8;x\n9;y\n");
    let report = place.ebb(&format!(
        "{LOAD} --key 1 --delimiter ; --no-header --json d.txt"
    ));
    let report = report.json();
    assert_eq!(report["rows"], 2);
    assert_eq!(report["columns"], serde_json::Value::Null);
    assert_eq!(place.ebb("get app.t 8").ok(), "8,x\n");
}

#[test]
fn a_folder_that_a_job_wrote_is_loaded() {
    // The load once failed for _SUCCESS, which has no column.
    let place = Place::new();
    place.write("in.csv", "id,city\n7,Bonn\n3,Ulm\n");
    let run = "run select --csv in.csv --output out/ --format csv";
    place.ebb(run).ok();
    let said = place.ebb(&format!("{LOAD} --key id out")).ok();
    assert!(said.starts_with("loaded 2 rows"), "{said}");
    assert_eq!(place.keys(), "3 7");
}

#[test]
fn standard_input_is_loaded_packed_or_not() {
    let place = Place::new();
    for (arguments, input, keys) in [
        (
            "-",
            "x\ny\n".as_bytes().to_vec(),
            "stdin:000000000001 stdin:000000000002",
        ),
        (
            "--key id --format csv -",
            gzip("id\na\n"),
            "a stdin:000000000001 stdin:000000000002",
        ),
    ] {
        let mut command = place.command(&format!("{LOAD} {arguments}"));
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut load = Running::start(&mut command);
        let mut stdin = load.child().stdin.take().unwrap();
        stdin.write_all(&input).unwrap();
        drop(stdin);
        assert!(load.output().status.success());
        assert_eq!(place.keys(), keys);
    }
}

#[test]
fn a_row_that_is_none_ends_the_load_with_its_line() {
    // Bad rows were once loaded, or their file was left out, with exit code 0.
    let place = Place::new();
    place.write("good.csv", "id,v\n1,a\n");
    for (name, content, told) in [
        (
            "ragged.csv",
            "id,v\n2,b\n3\n",
            "ragged.csv: line 3: it has 1 field",
        ),
        (
            "nameless.csv",
            "id,v\n2,b\n,c\n",
            "nameless.csv: line 3: column \"id\"",
        ),
        (
            "twice.csv",
            "id,v\n2,b\n1,c\n",
            "line 2 of good.csv and in line 3 of twice.csv",
        ),
        (
            "bad.jsonl",
            "{\"id\":8}\n{\n",
            "bad.jsonl: line 2: it is no JSON object",
        ),
        ("lines.txt", "2,b\n", "lines.txt: there is no column \"id\""),
    ] {
        place.write(name, content);
        let said = place.load_refused(&format!("--key id good.csv {name}"));
        assert!(said.contains(told), "{said}");
    }
    let said = place.ebb(&format!(
        "{LOAD} --key id --duplicates last good.csv twice.csv"
    ));
    assert!(said.ok().contains("left out 1 row"));
    assert_eq!(place.ebb("get app.t 1").ok(), "1,c\n");
}

#[test]
fn a_line_beyond_all_measure_is_too_long_and_a_file_that_is_no_text_ends_the_load() {
    // A long line was once called "not UTF-8 text", and its file left out with exit code 0.
    let place = Place::new();
    place.write(
        "in/long.txt",
        format!("a\n{}\n", "x".repeat((64 << 20) + 1)),
    );
    let said = place.load_refused("in");
    assert!(
        said.contains("in/long.txt: line 2: it is longer than 64 MiB"),
        "{said}"
    );
    place.write("in/picture.png", b"\x89PNG\0");
    let said = place.load_refused("in");
    let why = "in/picture.png is not UTF-8 text: line 1: it has a NUL byte";
    assert!(said.contains(why), "{said}");
    assert!(said.contains("--skip-bad"), "{said}");
    place.write("in/good.txt", "g\n");
    let done = place.ebb(&format!("{LOAD} in --skip-bad"));
    assert!(done.stderr.contains("left out 2 files"), "{}", done.stderr);
    assert!(done.ok().starts_with("loaded 1 row "));
    // The database is in this folder, too. Its files are not text, and the load must leave them out.
    place.ebb(&format!("{LOAD} . --skip-bad")).ok();
    std::fs::remove_dir_all(place.path("in")).unwrap();
    place.write("a", "a\n");
    place.ebb(&format!("{LOAD} .")).ok();
}

#[test]
fn threads_beyond_all_measure_are_refused() {
    // The process once panicked.
    let place = Place::new();
    place.write("a", "a\n");
    for threads in ["0", "99999", "x"] {
        let said = place
            .ebb(&format!("{LOAD} a --threads {threads}"))
            .refused();
        assert!(said.contains("--threads"), "{said}");
    }
    assert!(!place.path("ebb-data").exists());
    place.ebb(&format!("{LOAD} a --threads 1024")).ok();
}

/// Sends a signal to a load that waits for more of its input. Checks that the load reports that it was
/// cancelled and loaded nothing.
fn interrupted_load(place: &Place, signal: &str) {
    let mut command = place.command(&format!("{LOAD} --key id --format csv -"));
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut load = Running::start(&mut command);
    let mut stdin = load.child().stdin.take().unwrap();
    let rows: String = (0..200_000).map(|n| format!("new{n},x\n")).collect();
    stdin.write_all(b"id,v\n").unwrap();
    // The input is longer than the pipe: once it is written, the load reads and listens for signals.
    stdin.write_all(rows.as_bytes()).unwrap();
    let kill = format!("kill {signal} {}", load.id());
    let sent = std::process::Command::new("sh")
        .args(["-c", &kill])
        .status();
    assert!(sent.unwrap().success());
    let done = load.output();
    drop(stdin);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(6), "{said}");
    assert!(
        said.contains("the load was cancelled; nothing was loaded"),
        "{said}"
    );
}

#[test]
fn an_interrupted_load_leaves_nothing_behind() {
    // Rows that were loaded before Ctrl-C once stayed in the table.
    let place = Place::new();
    for signal in signals::heard() {
        interrupted_load(&place, signal);
        assert!(!place.path("ebb-data").exists());
    }
    place.write("a", "a\n");
    place.ebb(&format!("{LOAD} a")).ok();
    let (keys, files) = (place.keys(), place.data_files());
    interrupted_load(&place, "-TERM");
    assert_eq!(place.keys(), keys);
    assert_eq!(place.data_files(), files);
}

#[test]
fn a_load_that_finds_no_room_leaves_nothing_behind() {
    // Half of the rows once stayed in the table. A limit on the size of files stands for a
    // disk that is full.
    let place = Place::new();
    place.write("a", "a\n");
    place.ebb(&format!("{LOAD} a")).ok();
    let (keys, files) = (place.keys(), place.data_files());
    let mut random = 1u64;
    let lines = (0..100_000).map(|_| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("{random:016x}\n")
    });
    place.write("large", lines.collect::<String>());
    let ebb = env!("CARGO_BIN_EXE_ebb");
    for arguments in ["large", "--format csv --no-header --key 1 large"] {
        let limited = format!("ulimit -f 500; exec {ebb} {LOAD} {arguments}");
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &limited])
            .current_dir(place.dir.path())
            .env_remove("EBB_DATA");
        let done = output(&mut bash);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.starts_with("ebb: cannot "), "{said}");
        assert!(said.contains("File too large"), "{said}");
        place.until_unlocked();
        assert_eq!(place.keys(), keys);
        assert_eq!(place.data_files(), files);
    }
}

#[test]
fn records_without_a_key_column_are_lines_with_a_warning() {
    let place = Place::new();
    place.write("a.csv", "id,v\n1,a\n");
    let done = place.ebb(&format!("{LOAD} a.csv"));
    assert!(
        done.stderr.contains("loaded as lines of text"),
        "{}",
        done.stderr
    );
    done.ok();
    let done = place.ebb(&format!("{LOAD} --format csv a.csv"));
    assert_eq!(done.stderr, "");
    assert_eq!(place.keys(), "a.csv:000000000001 a.csv:000000000002");
    assert_eq!(place.ebb("get app.t a.csv:000000000002").ok(), "1,a\n");
    for nonsense in [
        "--format text --key id a.csv",
        "--format text --delimiter ; a.csv",
        "--format json-lines --no-header a.csv",
        "--delimiter ab a.csv",
    ] {
        place.ebb(&format!("{LOAD} {nonsense}")).refused();
    }
}

#[test]
fn many_rows_in_no_order_are_sorted_on_disk() {
    // The rows have 80 MB, more than are sorted in memory at once.
    let place = Place::new();
    let row = |n: u64| format!("{},{}\n", n * 7_919 % 100_003, "v".repeat(800));
    let rows: String = (0..100_003).map(row).collect();
    place.write("a.csv", format!("id,v\n{rows}"));
    place.ebb(&format!("{LOAD} --key id a.csv")).ok();
    assert_eq!(
        place
            .files("ebb-data")
            .iter()
            .filter(|f| f.contains("spill"))
            .count(),
        0
    );
    let count = place.ebb("scan app.t --keys-only").ok();
    assert_eq!(count.lines().count(), 100_003);
    assert!(count.lines().is_sorted());
}
