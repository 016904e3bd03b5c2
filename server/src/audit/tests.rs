use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::*;

fn entry(action: &str) -> Entry {
    Entry {
        action: action.to_owned(),
        ..Entry::default()
    }
}

/// Returns the lines of the log in `data`, without their times and ids.
fn lines(data: &Path) -> Vec<Value> {
    let text = fs::read_to_string(data.join(FILE)).unwrap();
    let line = |line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        assert!(fields.remove("at_unix_ms").is_some() && fields.remove("id").is_some());
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn a_change_has_an_entry_before_it_is_made_and_one_with_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(AuditLog::of(dir.path()));
    log.note_login(Entry {
        kind: EntryKind::Login,
        role: Some("ada".to_owned()),
        ..Entry::default()
    });
    let begun = log.begin(entry("DROP TABLE t"), true).unwrap();
    let login = json!({"kind": "login", "role": "ada", "result": "done"});
    let statement =
        |result| json!({"kind": "statement", "action": "DROP TABLE t", "result": result});
    assert_eq!(lines(dir.path()), [login.clone(), statement("begun")]);
    begun.end("invalid");
    let all = [login, statement("begun"), statement("invalid")];
    assert_eq!(lines(dir.path()), all);
    assert_eq!(log.lost(), 0);
}

#[test]
fn a_change_that_panics_or_is_given_up_has_a_second_entry_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(AuditLog::of(dir.path()));
    let change = || {
        let _begun = log.begin(entry("DROP TABLE t"), true).unwrap();
        assert!(!dir.path().exists(), "a panic on purpose");
    };
    thread::scope(|scope| assert!(scope.spawn(change).join().is_err()));
    drop(log.begin(entry("DROP TABLE u"), true).unwrap());
    let statement =
        |action, result| json!({"kind": "statement", "action": action, "result": result});
    let expected = [
        statement("DROP TABLE t", "begun"),
        statement("DROP TABLE t", "panicked"),
        statement("DROP TABLE u", "begun"),
        statement("DROP TABLE u", "unknown"),
    ];
    assert_eq!(lines(dir.path()), expected);
}

#[test]
fn writes_of_rows_have_a_file_of_their_own_and_are_dropped_rather_than_stop_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let write = || Entry {
        kind: EntryKind::Write,
        object: Some("ks.t".to_owned()),
        count: Some(3),
        ..entry("BATCH")
    };
    // Without a thread, nothing makes room in the queue.
    let log = AuditLog::named(dir.path(), WRITES_FILE);
    for _ in 0..QUEUED_BYTES_MAX / 100 {
        log.note_write(write(), "done");
    }
    let lost = usize::try_from(log.lost()).unwrap();
    assert!(lost > 0);
    log.flush();
    assert!(!dir.path().join(FILE).exists());
    let text = fs::read_to_string(dir.path().join(WRITES_FILE)).unwrap();
    assert_eq!(text.lines().count() + lost, QUEUED_BYTES_MAX / 100);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let fields = ["kind", "action", "object", "count", "result"].map(|name| &first[name]);
    let expected = json!(["write", "BATCH", "ks.t", 3, "done"]);
    assert_eq!(json!(fields), expected);
}

#[test]
fn clients_fill_the_file_neither_with_refused_logins_nor_with_long_names() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::of(dir.path());
    for _ in 0..10_000 {
        log.note_refusal(entry(&"é".repeat(10_000)));
    }
    log.flush();
    let lines = lines(dir.path());
    assert!((100..1000).contains(&lines.len()), "{}", lines.len());
    assert_eq!(lines[0]["action"].as_str().unwrap().len(), 128);
}

#[test]
fn on_a_full_disk_only_changes_that_free_space_are_made() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/dev/full", dir.path().join(FILE)).unwrap();
    let log = Arc::new(AuditLog::of(dir.path()));
    let error = log.begin(entry("CREATE TABLE t"), false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().contains(FILE), "{error}");
    assert_eq!(log.lost(), 0);
    log.begin(entry("TRUNCATE t"), true).unwrap().end("done");
    assert_eq!(log.lost(), 2);
    log.note_login(entry("login"));
    log.flush();
    assert_eq!(log.lost(), 3);
    fs::remove_file(dir.path().join(FILE)).unwrap();
    log.begin(entry("CREATE TABLE t"), false)
        .unwrap()
        .end("done");
    assert_eq!(lines(dir.path()).len(), 2);
    // Another failure than a full disk stops all changes.
    fs::remove_file(dir.path().join(FILE)).unwrap();
    fs::create_dir(dir.path().join(FILE)).unwrap();
    log.begin(entry("TRUNCATE t"), true).unwrap_err();
}
