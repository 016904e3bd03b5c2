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
