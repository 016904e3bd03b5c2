//! Commands whose process may have few files open.

use std::process::Command;

use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use ebb_storage::{Db, Options, TableOptions};
use ebb_test_support::wait::until;

use crate::place::{Done, Place, UNPACED};
use crate::serving::{KEYSPACE, Server, query};

/// Limits the open files by the shell's command `ulimit` with the arguments `ulimit`, then runs
/// `ebb` with the words of `line` as arguments. The standard streams are three of the files, and
/// the lock of the database is one.
#[track_caller]
fn limited(place: &Place, ulimit: &str, line: &str) -> Done {
    let ebb = env!("CARGO_BIN_EXE_ebb");
    // The test runner may have left files open.
    let close = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
    let script = format!("{close}; ulimit {ulimit} && exec {ebb} {line}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(place.dir.path())
        .env_remove("EBB_DATA")
        .env(UNPACED, "1");
    Done::of(&mut bash)
}

/// Regression: a backup of a database of 400 tables failed under a soft limit of 256 files.
#[test]
fn every_command_raises_the_limit_of_open_files() {
    let place = Place::with_corpus();
    for line in [
        "stats",
        "scan app.lines --limit 1",
        "verify",
        "snapshot list",
        "put --create app.pairs k v",
        "backup copy",
        "run grep --table app.lines --snapshot s --pattern Ebb --output x.tsv",
    ] {
        let done = limited(&place, "-Sn 4", line);
        assert_eq!(done.code, 0, "{line}: {}", done.stderr);
    }
}

#[test]
fn a_command_that_may_open_no_more_files_names_the_limit_to_raise() {
    let place = Place::with_corpus();
    let said = limited(&place, "-n 4", "scan app.lines").fails(1);
    assert!(said.contains("Too many open files"), "{said}");
    assert!(said.contains("ulimit -n"), "{said}");
}

/// Regression: 1,100 clients of a server with a limit of 1,024 files took its last descriptor. The log
/// then failed, and the server rejected all writes until it was restarted.
#[test]
fn a_server_with_few_files_accepts_no_more_clients_than_fit_and_goes_on_writing() {
    let place = Place::new();
    // More SSTables than the server may have open.
    let options = Options {
        max_open_files: Some(16),
        ..Options::default()
    };
    let db = Db::open(place.path("ebb-data"), options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    for number in 0..120 {
        let name = format!("t{number}");
        let table = keyspace.table(&name, TableOptions::default()).unwrap();
        table.put(b"key", b"value").unwrap();
    }
    db.flush().unwrap();
    drop((keyspace, db));
    place.until_unlocked();

    let mut server = Server::start_after(&place, "ulimit -n 256", "--connections-max 500");
    let shares = server.error_line_with("open files: of 256 ");
    let (before, _) = shares.split_once(" are connections for CQL").unwrap();
    let count: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((64..128).contains(&count), "{shares}");
    let warning = server.error_line_with("connections-max is 500");
    assert!(warning.contains("ulimit -n"), "{warning}");

    let mut clients: Vec<Client> = (0..count).map(|_| server.client()).collect();
    for _ in 0..20 {
        assert!(Client::connect(server.address(), Compression::None).is_err());
    }
    let table = "CREATE TABLE shop.orders (id int PRIMARY KEY)";
    for statement in [KEYSPACE, table] {
        query(&mut clients[0], statement).unwrap();
    }
    for (id, client) in clients.iter_mut().enumerate() {
        let insert = format!("INSERT INTO shop.orders (id) VALUES ({id})");
        query(client, &insert).unwrap();
    }
    drop(clients.pop());
    until("a place for another client", || {
        Client::connect(server.address(), Compression::None).is_ok()
    });
    // The exit code is 0 only if the memtables could be flushed.
    assert_eq!(server.stop(), Some(0));
}
