//! Messages and exit codes of refused commands.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use ebb_storage::{Db, Options};

use crate::place::{Done, Place, Running, closed};

#[test]
fn commands_that_read_make_no_database_and_neither_does_a_load_of_nothing() {
    let place = Place::new();
    for line in [
        "get app.t k",
        "scan app.t",
        "stats",
        "snapshot list",
        "snapshot create --keyspace app s",
        "snapshot delete --keyspace app s",
        "run wordcount --table app.t --snapshot s --output x.tsv",
    ] {
        let said = place.ebb(line).fails(3);
        assert!(said.contains("no database in ./ebb-data"), "{said}");
    }
    let said = place.ebb("load --table app.t missing").fails(1);
    assert_eq!(said, "ebb: no such file: missing\n");
    place.write("binary", b"\0\0");
    place.ebb("load --table app.t binary").fails(2);
    assert!(!place.path("ebb-data").exists());
}

#[test]
fn a_missing_thing_is_exit_code_3_and_its_error_lists_the_existing_ones() {
    let place = Place::with_corpus();
    let fails = |line: &str| place.ebb(line).fails(3);
    let run = "run wordcount --output x.tsv";
    let said = fails(&format!("{run} --table app.lines --snapshot t"));
    assert!(
        said.contains("\"t\"") && said.contains("there are: s"),
        "{said}"
    );
    let said = fails(&format!("{run} --table app.rows --snapshot s"));
    assert!(said.contains("there are: lines"), "{said}");
    let said = fails("scan web.lines");
    assert!(said.contains("there are: app"), "{said}");
    let said = fails("get app.lines nothing --snapshot s");
    assert!(said.contains("app.lines at snapshot s"), "{said}");
    fails("snapshot delete --keyspace app t");
    fails("snapshot create --table app.rows t");
    fails("snapshot list --keyspace web");
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn requests_that_make_no_sense_are_exit_code_2() {
    let place = Place::with_corpus();
    let run = "run grep --table app.lines --snapshot s --output x.tsv";
    for line in [
        "scan lines",
        "scan app.lines --prefix a --from b",
        "load --table a/b.t corpus",
        "snapshot create --keyspace app a.b",
        &format!("{run} --pattern x --policy lottery"),
        &format!("{run} --pattern x --goal soon"),
        &format!("{run} --pattern x --goal 0s"),
        &format!("{run} --pattern x --splits 0"),
        &format!("{run} --pattern ( --regex"),
    ] {
        let done = place.ebb(line);
        assert_eq!(done.code, 2, "{line}: {}", done.stderr);
        assert!(!done.stderr.is_empty());
    }
    place.ebb("snapshot create --keyspace app s").fails(1);
    // Regression: with a server, the error named a path of its interface, such as /v1/jobs/.
    for line in [
        "jobs",
        "jobs cancel",
        "jobs show",
        "snapshot delete --keyspace app",
    ] {
        let done = Done::of(place.command(line).arg(""));
        let told = done.refused();
        assert!(told.contains("a value is required"), "{line}: {told}");
    }
}

#[test]
fn the_error_of_a_locked_database_names_the_process_that_holds_it() {
    let place = Place::with_corpus();
    let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
    let me = format!("process {}", std::process::id());
    // Regression: once the lock file was removed, other processes read and wrote beside this one.
    for removes_the_file in [false, true] {
        if removes_the_file {
            std::fs::remove_file(place.path("ebb-data").join("LOCK")).unwrap();
        }
        for (line, told) in [
            ("stats", "open for writing in another process"),
            ("scan app.lines", "open for writing in another process"),
            ("put app.lines a b", "in use by another process"),
        ] {
            let said = place.ebb(line).fails(4);
            assert!(said.contains("ebb-data") && said.contains(told), "{said}");
            assert!(said.contains(&me), "{said}");
        }
    }
    place.ebb("verify").fails(4);
    // This process gets the error too, and its attempt does not disturb the holder.
    assert!(Db::open(place.path("ebb-data"), Options::default()).is_err());
    db.sync().unwrap();
    drop(db);
    place.until_unlocked();
    place.ebb("stats").ok();
}

#[test]
fn many_read_a_database_at_once_and_change_nothing() {
    // Two readers once excluded each other, and a read-only directory could not be read.
    let place = Place::with_corpus();
    let data = place.path("ebb-data");
    let before = place.files("ebb-data");
    let mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&data, permissions).unwrap();
    };
    mode(0o555);
    let reader = Db::open_read_only(&data, Options::default()).unwrap();
    for line in [
        "get app.lines corpus/d0/00.txt:000000000001",
        "scan app.lines --limit 1",
        "scan app.lines --snapshot s --limit 1",
        "stats",
        "snapshot list --pinned",
        "jobs",
    ] {
        place.ebb(line).ok();
    }
    mode(0o755);
    assert_eq!(place.files("ebb-data"), before);
    let said = place.ebb("put app.lines a b").fails(4);
    assert!(said.contains("writes or reads it"), "{said}");
    drop(reader);
    place.until_unlocked();
    place.ebb("put app.lines a b").ok();
}

/// Regression: a job that failed or was late had exit code 0 if the reader of its report had gone, and each message
/// to a stderr whose reader had gone was a panic, with exit code 101.
#[test]
fn an_output_without_a_reader_does_not_change_the_exit_code() {
    let place = Place::with_corpus();
    let code = |line: &str, stdout: Stdio, stderr: Stdio| {
        let mut command = place.command(line);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        Running::start(&mut command).output().status.code()
    };
    let late = "run wordcount --table app.lines --goal 1us --output";
    let report = format!("{late} late.tsv --json");
    assert_eq!(code(&report, closed(), Stdio::null()), Some(7));
    let rows = format!("{late} -");
    assert_eq!(code(&rows, closed(), closed()), Some(7));
    let missing = "get app.lines nothing";
    assert_eq!(code(missing, Stdio::null(), closed()), Some(3));
    assert_eq!(code("scan app.lines", closed(), closed()), Some(0));
}
