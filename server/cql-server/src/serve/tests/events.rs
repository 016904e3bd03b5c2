//! Events for the operator's log, and entries in the audit log.

use std::sync::mpsc::Receiver;

use super::login::{server, token};
use super::*;
use crate::serve::{
    Audit, AuditEnd, AuditedStatement, AuditedWrite, ServerEvent, ServerEvents, WriteAudit,
};

#[test]
fn logins_and_administrative_statements_are_reported() {
    let (sender, events) = std::sync::mpsc::channel();
    let report = move |event: ServerEvent<'_>| {
        let (user, what) = match event {
            ServerEvent::LoggedIn { user, .. } => (Some(user), "logged in".to_owned()),
            ServerEvent::LoginRefused { user, cause, .. } => (user, cause.to_owned()),
            ServerEvent::Administered {
                user, statement, ..
            } => (user, statement.to_string()),
            other => panic!("{other:?}"),
        };
        drop(sender.send(format!("{}: {what}", user.unwrap_or("nobody"))));
    };
    let (_, server) = server(ServeOptions {
        events: ServerEvents::new(report),
        ..options()
    });
    let reported = || events.try_iter().collect::<Vec<_>>();
    let made = [
        "root: logged in",
        "root: CREATE KEYSPACE ks WITH replication = {?: ?, ?: ?}",
        "root: CREATE TABLE ks.t (k int PRIMARY KEY)",
        "root: CREATE ROLE ada WITH PASSWORD = ? AND LOGIN = ?",
    ];
    assert_eq!(reported(), made);
    let mut client = Client::raw(&server).expect_authenticate();
    for bad in [token("ada", "root"), token("bob", "bob"), Vec::new()] {
        client.log_in(&bad);
    }
    let refused = [
        "ada: Provided username ada and/or password are incorrect",
        "bob: Provided username bob and/or password are incorrect",
        "nobody: Password must not be null",
    ];
    assert_eq!(reported(), refused);
    // Other statements and rejected ones are not reported.
    let mut root = Client::logged_in(&server, "root");
    for text in [
        "LIST ROLES",
        "LIST SNAPSHOTS",
        "INSERT INTO ks.t (k) VALUES (1)",
    ] {
        root.run(text);
    }
    Client::logged_in(&server, "ada").refused("DROP TABLE ks.t");
    assert_eq!(reported(), ["root: logged in", "ada: logged in"]);
    for text in ["TRUNCATE ks.t", "CREATE SNAPSHOT s ON KEYSPACE ks"] {
        root.run(text);
        assert_eq!(reported(), [format!("root: {text}")]);
    }
}

/// Regression: an operator's log had no line about reads that failed because of a damaged file.
#[test]
fn a_failure_of_the_server_is_reported_and_a_mistake_of_a_client_is_not() {
    let (sender, events) = std::sync::mpsc::channel();
    let report = move |event: ServerEvent<'_>| {
        if let ServerEvent::Failed { cause, .. } = event {
            drop(sender.send(cause.to_owned()));
        }
    };
    let (_, server) = super::server(ServeOptions {
        events: ServerEvents::new(report),
        ..options()
    });
    let mut client = Client::new(&server);
    for (text, kind) in [
        ("nonsense", ErrorKind::Syntax),
        ("fail in vain", ErrorKind::Invalid),
        ("panic", ErrorKind::Server),
    ] {
        client.query(1, text);
        let error = client.error();
        assert_eq!(error.kind, kind, "{text}");
        let expected = (kind == ErrorKind::Server).then_some(error.message);
        let reported: Vec<String> = events.try_iter().collect();
        assert_eq!(reported, Vec::from_iter(expected), "{text}");
    }
}

#[test]
fn administrative_statements_are_executed_between_their_entries_or_not_at_all() {
    let (sender, entries) = std::sync::mpsc::channel();
    let fails = Arc::new(AtomicBool::default());
    let begin_fails = fails.clone();
    let begin = move |audited: AuditedStatement<'_>| {
        if begin_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the file is gone"));
        }
        let user = audited.user.unwrap_or("nobody");
        let entry = format!("{user}: {}", audited.statement);
        let of = audited.administration;
        let keyspace = of.keyspace.unwrap_or("-");
        let flags = (of.superuser, of.frees_space);
        let begun = format!("{keyspace} {:?} {flags:?}", of.roles);
        drop(sender.send(format!("{entry} {begun}")));
        let sender = sender.clone();
        let end: AuditEnd = Box::new(move |result| drop(sender.send(format!("{entry} {result}"))));
        Ok(end)
    };
    let (_, server) = server(ServeOptions {
        audit: Audit::new(begin),
        ..options()
    });
    let written = || entries.try_iter().collect::<Vec<_>>();
    assert_eq!(written().len(), 6, "two for each statement of the set-up");
    let mut root = Client::logged_in(&server, "root");
    let text = "CREATE ROLE 'eve' WITH SUPERUSER = true";
    let masked = "root: CREATE ROLE ? WITH SUPERUSER = ?";
    fails.store(true, Ordering::SeqCst);
    let error = root.refused(text);
    assert_eq!(error.kind, ErrorKind::Server);
    assert!(error.message.ends_with("the file is gone"), "{error}");
    fails.store(false, Ordering::SeqCst);
    // The failed statement has not created the role.
    root.run(text);
    let made = [
        format!("{masked} - [\"eve\"] (Some(true), false)"),
        format!("{masked} done"),
    ];
    assert_eq!(written(), made);
    root.refused(text);
    assert_eq!(written()[1], format!("{masked} invalid"));
    root.run("GRANT SELECT ON ks.t TO 'ada'");
    let granted = "root: GRANT SELECT ON ks.t TO ? - [\"ada\"] (None, false)";
    assert_eq!(written()[0], granted);
    let mut ada = Client::logged_in(&server, "ada");
    ada.refused("TRUNCATE ks.t");
    let refused = [
        "ada: TRUNCATE ks.t - [] (None, true)",
        "ada: TRUNCATE ks.t unauthorized",
    ];
    assert_eq!(written(), refused);
    ada.run("SELECT * FROM ks.t");
    root.run("LIST ROLES");
    assert_eq!(written(), [""; 0]);
    // Names are resolved in the keyspace in use at PREPARE.
    root.run("USE ks");
    let id = prepared(&mut root, "TRUNCATE t");
    root.run("USE system");
    assert!(is_prepared(&mut root, &id));
    let truncated = [
        "root: TRUNCATE t ks [] (None, true)",
        "root: TRUNCATE t done",
    ];
    assert_eq!(written(), truncated);
}

/// Returns options that audit writes to `tables` (`ks.t`, separated by commas), and the channel
/// that receives the audit entries.
fn auditing(tables: &str) -> (ServeOptions, Receiver<String>) {
    let (sender, notes) = std::sync::mpsc::channel();
    let note = move |write: AuditedWrite<'_>| {
        let user = write.user.unwrap_or("nobody");
        let (kind, keyspace, table) = (write.kind.name(), write.keyspace, write.table);
        let (statements, result) = (write.statements, write.result);
        let note = format!("{user}: {kind} {keyspace}.{table} {statements} {result}");
        drop(sender.send(note));
    };
    let options = ServeOptions {
        audit_writes: WriteAudit::new(tables.parse().unwrap(), note),
        ..options()
    };
    (options, notes)
}

#[test]
fn writes_to_audited_tables_are_noted_with_their_results() {
    let (options, notes) = auditing("ks.t,ks.u");
    let (_, server) = server(options);
    let noted = || notes.try_iter().collect::<Vec<_>>();
    let mut root = Client::logged_in(&server, "root");
    for text in [
        "CREATE TABLE ks.u (k int PRIMARY KEY, v int)",
        "CREATE TABLE ks.other (k int PRIMARY KEY)",
        "INSERT INTO ks.other (k) VALUES (1)",
        "SELECT * FROM ks.t",
    ] {
        root.run(text);
    }
    assert_eq!(noted(), [""; 0]);
    for (text, expected) in [
        (
            "INSERT INTO ks.t (k) VALUES (1)",
            vec!["root: INSERT ks.t 1 done"],
        ),
        // A condition that does not hold is no failure.
        (
            "UPDATE ks.u SET v = 2 WHERE k = 1 IF v = 1",
            vec!["root: UPDATE ks.u 1 done"],
        ),
        (
            "BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); INSERT INTO ks.u (k) VALUES (1); DELETE \
             FROM ks.t WHERE k = 2; INSERT INTO ks.other (k) VALUES (1); APPLY BATCH",
            vec!["root: BATCH ks.t 2 done", "root: BATCH ks.u 1 done"],
        ),
    ] {
        root.run(text);
        assert_eq!(noted(), expected, "{text}");
    }
    root.run("USE ks");
    let part = StatementRef::Text("DELETE FROM t WHERE k = 1");
    root.send(3, &Request::Batch(batch_of(&[part, part])));
    assert_eq!(root.response(), Response::Void);
    assert_eq!(noted(), ["root: BATCH ks.t 2 done"]);
    Client::logged_in(&server, "ada").refused("INSERT INTO ks.t (k) VALUES (1)");
    assert_eq!(noted(), ["ada: INSERT ks.t 1 unauthorized"]);
}

#[test]
fn a_write_that_panics_is_noted_with_an_unknown_result() {
    let (options, notes) = auditing("all");
    let fake = synced();
    fake.sync_gate.open();
    let (_, server) = serving(fake, options);
    let mut client = Client::new(&server);
    for (text, expected) in [
        ("explode", "nobody: UPDATE fake.explode 1 unknown"),
        ("put", "nobody: UPDATE fake.put 1 done"),
        // The write computes for long, and goes on in another lane.
        ("compute-put", "nobody: UPDATE fake.compute-put 1 done"),
    ] {
        client.query(1, text);
        client.receive();
        assert_eq!(notes.try_iter().collect::<Vec<_>>(), [expected]);
    }
}

/// Regression: a write that was rejected before it began had an unknown result.
#[test]
fn a_write_that_is_rejected_for_lack_of_memory_is_noted_as_failed() {
    let (options, notes) = auditing("all");
    let fake = synced();
    let options = ServeOptions {
        body_bytes_max: 1 << 20,
        request_bytes_max: 0,
        ..options
    };
    let (fake, server) = serving(fake, options);
    let mut client = Client::new(&server);
    // Text and statement have the same length, and there are 2 MiB of memory.
    let text = format!("put {}", "x".repeat(900_000));
    client.query(1, &text);
    client.query(2, &text);
    assert_eq!(client.error().kind, ErrorKind::Overloaded);
    let noted = || {
        let results = notes.try_iter().map(|note| {
            let result = note.rsplit(' ').next();
            result.unwrap_or_default().to_owned()
        });
        results.collect::<Vec<_>>()
    };
    assert_eq!(noted(), ["failed"]);
    fake.sync_gate.open();
    assert_eq!(client.receive().0, 1);
    assert_eq!(noted(), ["done"]);
}
