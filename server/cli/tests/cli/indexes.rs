//! Indexes of a server that is killed.

use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, QueryParameters, Request, Response};
use ebb_storage::{Db, SystemClock};
use ebb_tables::{Catalog, GracePeriods, database_options};
use ebb_test_support::wait::until;

use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

const PARTITIONS: i32 = 300;
const ROWS: i32 = 100;
/// The number of rows with each of the three values of the indexed column.
const OF_ONE: i32 = PARTITIONS * ROWS / 3;
/// The query for the index builds under way.
const BUILDS: &str = "SELECT index_name FROM system_views.index_builds";
/// The greatest number of new databases in which the test tries to kill the server during the build of an
/// index.
const TRIES: usize = 20;

fn count(client: &mut Client, text: &str) -> usize {
    match query(client, text) {
        Ok(Response::Rows(rows)) => rows.len(),
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns whether the table `shop.built` has an index that is not completely built. Opens a copy of the
/// files, so that the killed server's database stays as it is.
fn is_unbuilt(place: &Place) -> bool {
    let copy = place.path("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(place.path("ebb-data")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let db = Db::open(copy, database_options()).unwrap();
    let catalog = Catalog::open(&db, &GracePeriods::default(), Arc::new(SystemClock)).unwrap();
    let state = catalog.state();
    let table = state.table("shop", "built").unwrap();
    let mut indexes = table.schema().indexes().iter();
    indexes.any(|index| index.is_building)
}

/// Creates an index of `shop.built` in a new database, and kills the server while it builds. Returns
/// `None` if the index was built before the kill.
fn kill_while_building() -> Option<Place> {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    let table = "CREATE TABLE shop.built (k int, n int, v int, PRIMARY KEY (k, n))";
    query(&mut client, table).unwrap();
    for k in 0..PARTITIONS {
        let mut text = "BEGIN UNLOGGED BATCH ".to_owned();
        for n in 0..ROWS {
            let v = (k * ROWS + n) % 3;
            text += &format!("INSERT INTO shop.built (k, n, v) VALUES ({k}, {n}, {v}); ");
        }
        query(&mut client, &(text + "APPLY BATCH")).unwrap();
    }
    // The response comes when the index is built.
    let mut creator = server.client();
    let mut create = BytesMut::new();
    let text = "CREATE INDEX of_v ON shop.built (v)";
    let parameters = QueryParameters::default();
    Request::Query { text, parameters }.encode(&mut create, 0, Compression::None);
    creator.send(&create).unwrap();
    creator.socket().set_nonblocking(true).unwrap();
    until("the build to begin", || {
        count(&mut client, BUILDS) == 1 || creator.socket().peek(&mut [0]).is_ok()
    });
    server.kill();
    is_unbuilt(&place).then_some(place)
}

/// After a kill during a build, the next start finishes the index, which then has every row.
#[test]
fn an_index_whose_build_is_killed_is_built_after_the_next_start() {
    let place = (0..TRIES)
        .find_map(|_| kill_while_building())
        .expect("every build ended before the kill");
    let server = Server::start(&place, "");
    let mut client = server.client();
    until("the index to be built", || count(&mut client, BUILDS) == 0);
    for v in 0..3 {
        let select = format!("SELECT k, n FROM shop.built WHERE v = {v}");
        assert_eq!(count(&mut client, &select), OF_ONE as usize, "{select}");
    }
    assert_eq!(server.stop(), Some(0));
}
