//! Events for the log of the operator.

use super::login::{server, token};
use super::*;
use crate::serve::{ServerEvent, ServerEvents};

#[test]
fn refused_logins_and_statements_of_administration_are_reported() {
    let (sender, events) = std::sync::mpsc::channel();
    let tell = move |event: ServerEvent<'_>| {
        let (user, what) = match event {
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
    assert_eq!(reported(), [""; 0]);
    for text in ["TRUNCATE ks.t", "CREATE SNAPSHOT s ON KEYSPACE ks"] {
        root.run(text);
        assert_eq!(reported(), [format!("root: {text}")]);
    }
}
