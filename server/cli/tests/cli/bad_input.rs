//! Mistakes of new users: commands refuse them with a clear message, and do not panic.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use ebb_storage::{Db, Options};
use ebb_test_support::cases::parse_cases;

use crate::place::{Done, Place, output};

#[test]
fn a_goal_lies_in_the_future() {
    let place = Place::new();
    place.write("a.txt", "a\n");
    for goal in [
        "--goal 0s",
        "--goal -5s",
        "--goal=-5s",
        "--goal 0s --dry-run",
    ] {
        let said = place.ebb(&format!("run wordcount --text a.txt --output x.tsv {goal}"));
        let said = said.refused();
        assert!(said.contains("must lie in the future"), "{goal}: {said}");
    }
    for (goal, remedy) in [("soon", "as in 30s"), ("90", "write 90s")] {
        let said = place.ebb(&format!(
            "run wordcount --text a.txt --output x.tsv --goal {goal}"
        ));
        let said = said.refused();
        assert!(said.contains(remedy), "{goal}: {said}");
    }
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn the_error_of_an_unknown_application_suggests_a_known_one() {
    let said = Place::new().ebb("run wordcout --text a.txt --output -");
    let said = said.refused();
    assert!(
        said.contains("'wordcout'") && said.contains("'wordcount'"),
        "{said}"
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_anything_is_read() {
    let place = Place::new();
    // The input is malformed: if it were read first, the error would be another one.
    place.write("a.csv", "a\n\"\n");
    let run = "run wordcount --csv a.csv --output";
    let cases = "
        no/such/x.tsv => no such folder: no/such; make it first (mkdir -p no/such)
        a.csv/x.tsv => a.csv is not a directory
        a.csv => a.csv exists already; remove it or choose another name
        . => . exists and is a folder; write ./FILE
        // The advice was once to remove it.
        /dev/null => /dev/null exists and is no file, but a device
        ./ => exists
        // No user can write here, not even root.
        /proc/x.tsv => creating a folder for unfinished files in /proc
        /proc/x/ => creating a folder for unfinished files in /proc
    ";
    for [output, why] in parse_cases(cases) {
        for dry in ["", "--dry-run"] {
            let said = place.ebb(&format!("{run} {output} {dry}")).fails(1);
            assert!(said.contains(why), "{output}: {said}");
        }
    }
    let mut command = place.command(run);
    let said = output(command.arg(""));
    assert_eq!(said.status.code(), Some(2));
    let left = std::fs::read_dir(place.dir.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a.csv"]);
}

#[test]
fn a_path_that_is_no_file_is_refused_and_a_missing_one_is_reported_once() {
    let place = Place::new();
    std::fs::create_dir(place.path("nothing")).unwrap();
    let made = Command::new("mkfifo").arg(place.path("pipe")).status();
    assert!(made.unwrap().success());
    for (path, why) in [
        ("missing", "ebb: no such file: missing\n"),
        ("nothing", "there are no files in nothing"),
        ("pipe", "neither a file nor a directory"),
        ("pipe/below", "ebb: no such file: pipe/below\n"),
        (".", "reading ./pipe: it is neither"),
        ("/dev/zero", "neither a file nor a directory"),
        ("/proc/version", "has content although its size is 0"),
    ] {
        let run = format!("run wordcount --output x.tsv --text {path}");
        let said = place.ebb(&run).fails(1);
        assert!(said.contains(why), "{path}: {said}");
    }
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn a_file_for_a_command_that_is_malformed_is_exit_code_2() {
    let place = Place::new();
    place.write("a.toml", b"\xff\xfea\0");
    place.write("a.json", "{");
    let cases = "
        config check a.toml => ebb: a.toml: it is UTF-16
        serve --config a.toml => ebb: a.toml: it is UTF-16
        sim run a.toml => ebb: a.toml: it is UTF-16
        forecast a.toml => ebb: a.toml: it is UTF-16
        jobs submit a.json => ebb: the job request a.json is no JSON: EOF
        what-if --request a.json => ebb: the job request a.json is no JSON: EOF
    ";
    for [line, why] in parse_cases(cases) {
        let said = place.ebb(line).fails(2);
        assert!(said.starts_with(why), "{line}: {said}");
    }
}

#[test]
fn an_empty_input_has_an_empty_result() {
    let place = Place::new();
    place.write("empty", "");
    for application in [
        "wordcount",
        "sort --reduces 3",
        "grep --pattern x",
        "index",
        "combine",
        "select",
        "pagerank --iterations 2",
        "join --with empty",
    ] {
        let run = format!("run {application} --text empty --output -");
        assert_eq!(place.ebb(&run).rows(), "", "{application}");
    }
    let all = place.ebb("run aggregate --json-lines empty --of ms --output -");
    assert_eq!(all.rows(), "");
    let said = place
        .ebb("run aggregate --csv empty --by city --output -")
        .fails(2);
    assert!(said.contains("no header and no names"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_refused_in_files_and_hexadecimal_in_json() {
    // Jobs once counted the words of such files, while loads refused them.
    let place = Place::new();
    place.write("bad.txt", b"ok\n\xff\xfe ok \x80\n");
    let said = place
        .ebb("run wordcount --text bad.txt --output counts.tsv")
        .fails(2);
    let why = "bad.txt, line 2: byte 1 is not UTF-8";
    assert!(said.contains(why) && said.contains("iconv"), "{said}");
    assert!(!place.path("counts.tsv").exists());
    // These values are not UTF-8, as programs may write them.
    place.write("a.txt", "x\n");
    place.ebb("load --table app.t a.txt").ok();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let app = db.existing_keyspace("app").unwrap();
        let table = app.existing_table("t").unwrap();
        table.put(b"k", b"\xff\xfe ok \x80").unwrap();
        db.sync().unwrap();
    }
    place.until_unlocked();
    let run = "run wordcount --table app.t --output";
    place.ebb(&format!("{run} counts.tsv")).ok();
    let counts = std::fs::read(place.path("counts.tsv")).unwrap();
    assert_eq!(counts, b"ok\t1\nx\t1\n\x80\t1\n\xff\xfe\t1\n");
    place.ebb(&format!("{run} counts.jsonl")).ok();
    let counts = place.read("counts.jsonl");
    assert!(
        counts.contains("{\"word_hex\":\"fffe\",\"count\":1}\n"),
        "{counts}"
    );
}

#[test]
fn malformed_records_fail_their_job_with_file_and_line() {
    let place = Place::new();
    let run = "run aggregate --by city --of fare --output -";
    for (name, content, why) in [
        (
            "open.csv",
            "city,fare\n\"Bonn,7\n",
            "line 2: a quote is still open at the end of the file",
        ),
        (
            "word.csv",
            "city,fare\nBonn,dear\n",
            "line 2: column fare is \"dear\", which is no number",
        ),
    ] {
        place.write(name, content);
        let said = place.ebb(&format!("{run} --csv {name}")).fails(2);
        assert!(said.contains(name) && said.contains(why), "{said}");
    }
    for (line, why) in [
        ("Bonn 7", "it is no JSON object"),
        ("{\"city\":", "is no JSON"),
        ("[\"Bonn\", 7]", "expected an object"),
        (
            "{\"city\":\"Bonn\",\"fare\":\"dear\"}",
            "\"dear\", which is no number",
        ),
        (&"[".repeat(100_000), "is no JSON"),
    ] {
        place.write(
            "bad.jsonl",
            format!("{{\"city\":\"Rome\",\"fare\":1}}\n{line}\n"),
        );
        let said = place.ebb(&format!("{run} --json-lines bad.jsonl")).fails(2);
        let place = "bad.jsonl, line 2: ";
        assert!(said.contains(place) && said.contains(why), "{said}");
    }
}

#[test]
fn a_line_beyond_all_measure_fails_its_job_on_threads_and_in_processes() {
    let place = Place::new();
    place.write("long.txt", vec![b'x'; (64 << 20) + 100_000]);
    for how in ["thread", "process"] {
        let run = format!("run wordcount --text long.txt --output x.tsv --isolate {how}");
        let said = place.ebb(&run).fails(2);
        let why = "long.txt, line 1: it is longer than 64 MiB";
        assert!(said.contains(why), "{said}");
    }
    let said = place.ebb("load --table app.t long.txt").fails(2);
    assert!(
        said.contains("long.txt: line 1: it is longer than 64 MiB"),
        "{said}"
    );
    assert!(!place.path("x.tsv").exists());
    // A shorter line is read, but does not fit into the memory for sorting.
    place.write("long.txt", vec![b'x'; 5 << 20]);
    let sort = "run sort --text long.txt --output x.tsv --cores 1";
    let said = place.ebb(&format!("{sort} --memory 1MiB")).fails(6);
    assert!(said.contains("give tasks more memory"), "{said}");
    place.ebb(&format!("{sort} --memory 64MiB")).ok();
    assert_eq!(place.read("x.tsv").len(), (5 << 20) + 1);
}

/// Regression: `run` and `config show` panicked, and a load was reported as failed although its rows were there.
#[test]
fn a_path_that_is_not_utf_8_is_refused_or_shown() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::create_dir(place.path("in")).unwrap();
    std::fs::write(place.path("in").join(name), b"\0").unwrap();
    place.write("in/a.txt", "a\n");
    let report = place.ebb("load --table app.t in --skip-bad --json").json();
    assert_eq!(report["rows"], 1);
    assert_eq!(report["skipped"][0]["path"], "in/caf\u{fffd}.txt");
    for line in ["run wordcount --output x.tsv --text", "config show --data"] {
        let path = place.path("in").join(name);
        let said = Done::of(place.command(line).arg(path)).fails(2);
        assert!(said.contains("UTF-8"), "{said}");
    }
}
