//! Pages, batches, conditional writes, and errors.

use futures_util::TryStreamExt as _;
use scylla::client::Compression;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{Consistency, Statement};
use scylla::value::Counter;

use super::session::{
    KEYSPACE, all_rows, builder, connect_with, prepare, read, rows, run, with_server, write,
};

const ROWS: i32 = 1_000;
/// The number of rows of a page. The number of rows of a partition is no multiple of it, so that
/// the last page is short.
const PAGE_ROWS: i32 = 77;

/// Returns the value of the column `name` in the row with this number.
fn name_of(number: i32) -> String {
    format!("number {number}")
}

#[test]
fn the_pager_returns_every_row_in_order_over_many_compressed_pages() {
    with_server(|address| async move {
        let session = builder(address).compression(Some(Compression::Lz4));
        let session = session.build().await.expect("the driver connects");
        run(&session, KEYSPACE).await;
        let numbers = "CREATE TABLE ks.numbers (half int, number int, name text, \
                       PRIMARY KEY (half, number))";
        run(&session, numbers).await;
        let insert = "INSERT INTO ks.numbers (half, number, name) VALUES (?, ?, ?)";
        let insert = prepare(&session, insert).await;
        for first in (0..ROWS).step_by(100) {
            let mut batch = Batch::new(BatchType::Unlogged);
            let mut values = Vec::new();
            for number in first..first + 100 {
                batch.append_statement(insert.clone());
                values.push((number % 2, number, name_of(number)));
            }
            let result = session.batch(&batch, values).await;
            result.expect("the batch is applied");
        }
        let full_pages = (ROWS / 2 / PAGE_ROWS) as usize;

        let select = "SELECT number, name FROM ks.numbers WHERE half = ?";
        let mut select = prepare(&session, select).await;
        select.set_page_size(PAGE_ROWS);
        let pager = session.execute_iter(select, (1,)).await;
        let pager = pager.expect("the first page");
        let mut stream = pager.rows_stream::<(i32, String)>().expect("these types");
        let found: Vec<(i32, String)> = (&mut stream).try_collect().await.expect("all pages");
        let odd = (0..ROWS).filter(|number| number % 2 == 1);
        let expected: Vec<_> = odd.map(|number| (number, name_of(number))).collect();
        assert_eq!(found, expected);
        let pages = stream.request_coordinators().count();
        assert!(pages > full_pages, "{pages} pages");

        let select = "SELECT number FROM ks.numbers WHERE half = 0 ORDER BY number DESC";
        let select = Statement::new(select).with_page_size(PAGE_ROWS);
        let pager = session.query_iter(select, ()).await;
        let pager = pager.expect("the first page");
        let mut stream = pager.rows_stream::<(i32,)>().expect("these types");
        let found: Vec<(i32,)> = (&mut stream).try_collect().await.expect("all pages");
        let even = (0..ROWS).rev().filter(|number| number % 2 == 0);
        let expected: Vec<_> = even.map(|number| (number,)).collect();
        assert_eq!(found, expected);
        let pages = stream.request_coordinators().count();
        assert!(pages > full_pages, "{pages} pages");
    });
}

#[test]
fn batches_of_every_kind_are_applied_whole() {
    with_server(|address| async move {
        let schema = [
            "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))",
            "CREATE TABLE ks.hits (page text PRIMARY KEY, n counter)",
        ];
        let session = connect_with(address, &schema).await;
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)";
        let prepared = prepare(&session, insert).await;

        // Texts with and without values, a prepared statement, and two partitions.
        let mut logged = Batch::new(BatchType::Logged);
        logged.append_statement("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a text')");
        logged.append_statement("INSERT INTO ks.t (k, c, v) VALUES (?, 2, 'with a value')");
        logged.append_statement(prepared.clone());
        let result = session.batch(&logged, ((), (1,), (2, 1, "prepared")));
        result.await.expect("the logged batch is applied");
        let first: Vec<(i32, String)> = rows(&session, "SELECT c, v FROM ks.t WHERE k = 1").await;
        let expected = [(1, "a text".to_owned()), (2, "with a value".to_owned())];
        assert_eq!(first, expected);
        let second: Vec<(i32, String)> = rows(&session, "SELECT c, v FROM ks.t WHERE k = 2").await;
        assert_eq!(second, [(1, "prepared".to_owned())]);

        // All statements of a batch are prepared at once.
        let mut unlogged = Batch::new(BatchType::Unlogged);
        let mut values = Vec::new();
        for c in 0..50 {
            unlogged.append_statement(insert);
            values.push((3, c, name_of(c)));
        }
        let unlogged = session.prepare_batch(&unlogged).await;
        let unlogged = unlogged.expect("the statements are prepared");
        let result = session.batch(&unlogged, values).await;
        result.expect("the unlogged batch is applied");
        let third: Vec<(i32, String)> = rows(&session, "SELECT c, v FROM ks.t WHERE k = 3").await;
        let expected: Vec<_> = (0..50).map(|c| (c, name_of(c))).collect();
        assert_eq!(third, expected);

        let add = prepare(&session, "UPDATE ks.hits SET n = n + ? WHERE page = ?").await;
        let mut counters = Batch::new(BatchType::Counter);
        counters.append_statement(add.clone());
        counters.append_statement(add);
        let result = session.batch(&counters, ((Counter(5), "home"), (Counter(-2), "home")));
        result.await.expect("the counter batch is applied");
        let hits: Vec<(Counter,)> =
            rows(&session, "SELECT n FROM ks.hits WHERE page = 'home'").await;
        assert_eq!(hits, [(Counter(3),)]);

        // A batch with an invalid statement changes nothing.
        let mut refused = Batch::new(BatchType::Logged);
        refused.append_statement("INSERT INTO ks.t (k, c, v) VALUES (4, 1, 'refused')");
        refused.append_statement("INSERT INTO ks.t (k, c, nothing) VALUES (4, 2, 'refused')");
        let result = session.batch(&refused, ((), ())).await;
        assert!(result.is_err(), "there is no such column");
        let fourth: Vec<(i32,)> = rows(&session, "SELECT c FROM ks.t WHERE k = 4").await;
        assert!(fourth.is_empty(), "{fourth:?}");
    });
}

/// Returns the names of the columns of a result.
fn columns(result: &QueryRowsResult) -> Vec<String> {
    let specs = result.column_specs().iter();
    specs.map(|spec| spec.name().to_owned()).collect()
}

/// Asserts that a result has only the column `[applied]`, and that its value is true.
#[track_caller]
fn assert_applied(result: &QueryRowsResult) {
    assert_eq!(columns(result), ["[applied]"]);
    assert_eq!(all_rows::<(bool,)>(result), [(true,)]);
}

#[test]
fn a_conditional_write_returns_whether_it_was_applied_and_if_not_the_row() {
    with_server(|address| async move {
        let users = "CREATE TABLE ks.users (name text PRIMARY KEY, age int, mail text)";
        let session = connect_with(address, &[users]).await;
        let insert = "INSERT INTO ks.users (name, age, mail) VALUES (?, ?, ?) IF NOT EXISTS";
        let insert = prepare(&session, insert).await;
        assert_applied(&read(&session, &insert, ("ada", 36, "a@b.c")).await);
        let refused = read(&session, &insert, ("ada", 1, "x@y.z")).await;
        assert_eq!(columns(&refused), ["[applied]", "name", "age", "mail"]);
        let found: Vec<(bool, String, i32, String)> = all_rows(&refused);
        let expected = (false, "ada".to_owned(), 36, "a@b.c".to_owned());
        assert_eq!(found, [expected]);

        let update = "UPDATE ks.users SET mail = ? WHERE name = ? IF age = ?";
        let update = prepare(&session, update).await;
        let refused = read(&session, &update, ("new", "ada", 35)).await;
        assert_eq!(columns(&refused), ["[applied]", "age"]);
        assert_eq!(all_rows::<(bool, i32)>(&refused), [(false, 36)]);
        assert_applied(&read(&session, &update, ("new", "ada", 36)).await);
        let mut serial = Statement::new("SELECT mail FROM ks.users WHERE name = 'ada'");
        serial.set_consistency(Consistency::Serial);
        let result = session.query_unpaged(serial, ()).await;
        let result = result.expect("a serial read").into_rows_result();
        let mails: Vec<(String,)> = all_rows(&result.expect("it returns rows"));
        assert_eq!(mails, [("new".to_owned(),)]);

        // Without a row, the result has only `[applied]`.
        let delete = "DELETE FROM ks.users WHERE name = 'bob' IF EXISTS";
        assert_eq!(rows::<(bool,)>(&session, delete).await, [(false,)]);
    });
}

#[test]
fn a_conditional_batch_is_applied_whole_or_returns_the_conflicting_rows() {
    with_server(|address| async move {
        let pairs = "CREATE TABLE ks.pairs (k int, c int, v int, PRIMARY KEY (k, c))";
        let session = connect_with(address, &[pairs]).await;
        let insert = "INSERT INTO ks.pairs (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS";
        let insert = prepare(&session, insert).await;
        for (k, kind) in [(1, BatchType::Logged), (2, BatchType::Unlogged)] {
            let mut batch = Batch::new(kind);
            batch.append_statement(insert.clone());
            batch.append_statement(insert.clone());
            let result = session.batch(&batch, ((k, 1, 5), (k, 2, 6))).await;
            let result = result.expect("the batch is executed").into_rows_result();
            assert_applied(&result.expect("it returns rows"));
            let result = session.batch(&batch, ((k, 2, 7), (k, 3, 8))).await;
            let result = result.expect("the batch is executed").into_rows_result();
            let refused = result.expect("it returns rows");
            assert_eq!(columns(&refused), ["[applied]", "k", "c", "v"]);
            let found: Vec<(bool, i32, i32, i32)> = all_rows(&refused);
            assert_eq!(found, [(false, k, 2, 6)], "{kind:?}");
            let select = format!("SELECT c, v FROM ks.pairs WHERE k = {k}");
            let found: Vec<(i32, i32)> = rows(&session, &select).await;
            assert_eq!(found, [(1, 5), (2, 6)], "{kind:?}");
        }
    });
}

#[test]
fn errors_of_the_server_have_the_drivers_kinds() {
    with_server(|address| async move {
        let table = "CREATE TABLE ks.t (k int PRIMARY KEY)";
        let session = connect_with(address, &[table]).await;
        let exists = DbError::AlreadyExists {
            keyspace: "ks".to_owned(),
            table: "t".to_owned(),
        };
        let cases = [
            ("SELECT nothing FROM ks.t", DbError::Invalid),
            ("SELECT * FROM nowhere.t", DbError::Invalid),
            ("SELEKT * FROM ks.t", DbError::SyntaxError),
            (table, exists),
        ];
        for (text, expected) in cases {
            match session.query_unpaged(text, ()).await {
                Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(kind, _))) => {
                    assert_eq!(kind, expected, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    });
}

/// Regression: the server closed the connection at a request that was too long, and the driver had
/// no host for a second.
#[test]
fn an_insert_of_17_mib_is_rejected_as_invalid_and_the_session_goes_on() {
    with_server(|address| async move {
        let blobs = "CREATE TABLE ks.blobs (k int PRIMARY KEY, v blob)";
        drop(connect_with(address, &[blobs]).await);
        for compression in [None, Some(Compression::Lz4)] {
            let session = builder(address).compression(compression).build().await;
            let session = session.expect("the driver connects");
            let insert = "INSERT INTO ks.blobs (k, v) VALUES (?, ?)";
            let insert = prepare(&session, insert).await;
            let long = vec![0_u8; 17 << 20];
            match session.execute_unpaged(&insert, (1, long)).await {
                Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                    DbError::Invalid,
                    message,
                ))) => {
                    let start = "Request is too big: length 178";
                    assert!(message.starts_with(start), "{message}");
                    let end = "exceeds maximum allowed length 16777216.";
                    assert!(message.ends_with(end), "{message}");
                }
                other => panic!("{compression:?}: {other:?}"),
            }
            let short = vec![1_u8; 1 << 20];
            write(&session, &insert, (2, &short)).await;
            let found: Vec<(i32, Vec<u8>)> =
                rows(&session, "SELECT k, v FROM ks.blobs WHERE k = 2").await;
            assert!(found == [(2, short)], "{compression:?}");
        }
    });
}
