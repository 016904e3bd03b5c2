//! Events for the log of the operator, and entries in the audit log.

use super::login::{server, token};
use super::*;
use crate::serve::{Audit, AuditEnd, AuditedStatement, ServerEvent, ServerEvents};

#[test]
fn logins_and_statements_of_administration_are_reported() {
    let (sender, events) = std::sync::mpsc::channel();
    let tell = move |event: ServerEvent<'_>| {
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
        events: ServerEvents::new(tell),
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
    let mut client = Client::raw(&server).was_asked();
    for bad in [token("ada", "root"), token("bob", "bob"), Vec::new()] {
        client.log_in(&bad);
    }
    let refused = [
        "ada: Provided username ada and/or password are incorrect",
        "bob: Provided username bob and/or password are incorrect",
        "nobody: Password must not be null",
    ];
    assert_eq!(reported(), refused);
    // What changes nothing, and what is refused, is not reported.
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

#[test]
fn statements_of_administration_are_executed_between_their_entries_or_not_at_all() {
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
    // The role was not made before.
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
    // Names belong to the keyspace in which the statement was prepared.
    root.run("USE ks");
    let (text, keyspace) = ("TRUNCATE t", None);
    root.send(3, &Request::Prepare { text, keyspace });
    let Response::Prepared(prepared) = root.receive().1.response else {
        panic!("it can be prepared");
    };
    root.run("USE system");
    let (id, parameters) = (&*prepared.id, parameters());
    root.send(4, &Request::Execute { id, parameters });
    root.receive();
    let truncated = [
        "root: TRUNCATE t ks [] (None, true)",
        "root: TRUNCATE t done",
    ];
    assert_eq!(written(), truncated);
}
