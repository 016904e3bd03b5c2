//! A server in this process, and sessions of the driver that are connected to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions};
use ebb_cql_server::system::{CLUSTER_NAME, LocalNode};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Options, SystemClock};
use ebb_tables::{Catalog, GracePeriods, with_cql_tables};
use ebb_test_support::wait::HANG;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Builder;

/// The statement that creates the keyspace of all tests.
pub(crate) const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Runs `test` with the address of a new server. The tasks of the driver have threads of their own,
/// so `test` may block.
pub(crate) fn with_server<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr) -> F) {
    let server = start();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the runtime starts");
    runtime.block_on(test(server.address()));
}

/// Starts a server over a disk in memory. The server rejects nothing for overload, ends no page
/// because of its reading time, and lets no request wait for an idle core. Its time limits are so
/// long that only a hanging test reaches them.
fn start() -> CqlServer {
    let grace_periods = GracePeriods::default();
    let options = Options {
        disk: Arc::new(MemDisk::new()),
        ..Options::default()
    };
    let options = with_cql_tables(options, &grace_periods);
    let db = Db::open("/db", options).expect("the database opens");
    let catalog = Catalog::open(&db, &grace_periods, Arc::new(SystemClock));
    let catalog = Arc::new(catalog.expect("the catalog opens"));
    let node = LocalNode {
        address: "127.0.0.1:9042".parse().expect("an address"),
        cluster_name: CLUSTER_NAME.to_owned(),
    };
    let limits = Limits {
        empty_page: Duration::MAX,
        page_time: Duration::MAX,
        ..Limits::default()
    };
    let executor = Arc::new(Executor::at_normal_priority(catalog, node, limits));
    let options = ServeOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        threads: 2,
        idle_class: false,
        startup_timeout: HANG,
        request_timeout: HANG,
        write_timeout: HANG,
        overload_wait: Duration::ZERO,
        ..ServeOptions::default()
    };
    CqlServer::start(executor, None, options).expect("the server starts")
}

/// Returns the builder of a session that never retries a request, and whose timeouts are so long
/// that only a hanging test reaches them.
pub(crate) fn builder(address: SocketAddr) -> SessionBuilder {
    let profile = ExecutionProfile::builder()
        .request_timeout(Some(HANG))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build();
    SessionBuilder::new()
        .known_node_addr(address)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(HANG)
        .keepalive_timeout(HANG)
        .metadata_request_clientside_timeout(HANG)
        .schema_agreement_timeout(HANG)
}

/// Connects a session to the server.
pub(crate) async fn connect(address: SocketAddr) -> Session {
    let session = builder(address).build().await;
    session.expect("the driver connects")
}

/// Connects a session, creates the keyspace, and executes `statements`.
pub(crate) async fn connect_with(address: SocketAddr, statements: &[&str]) -> Session {
    let session = connect(address).await;
    run(&session, KEYSPACE).await;
    for text in statements {
        run(&session, text).await;
    }
    session
}

/// Executes a statement without values that returns no rows. After a change of the schema the
/// driver refreshes the metadata of this session.
pub(crate) async fn run(session: &Session, text: &str) {
    let result = session.query_unpaged(text, ()).await;
    let result = result.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(!result.is_rows(), "{text} returns rows");
}

/// Returns the rows of a statement without values.
pub(crate) async fn rows<R>(session: &Session, text: &str) -> Vec<R>
where
    R: for<'frame> DeserializeRow<'frame, 'frame>,
{
    let result = session.query_unpaged(text, ()).await;
    let result = result.unwrap_or_else(|error| panic!("{text}: {error}"));
    all_rows(&result.into_rows_result().expect("it returns rows"))
}

/// Returns the rows of a result.
pub(crate) fn all_rows<R>(result: &QueryRowsResult) -> Vec<R>
where
    R: for<'frame> DeserializeRow<'frame, 'frame>,
{
    let rows = result.rows::<R>().expect("the columns have these types");
    rows.map(|row| row.expect("a row")).collect()
}

pub(crate) async fn prepare(session: &Session, text: &str) -> PreparedStatement {
    let prepared = session.prepare(text).await;
    prepared.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Executes a prepared statement that returns no rows.
pub(crate) async fn write(
    session: &Session,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) {
    let result = session.execute_unpaged(statement, values).await;
    let result = result.unwrap_or_else(|error| panic!("{}: {error}", statement.get_statement()));
    assert!(!result.is_rows(), "{}", statement.get_statement());
}

/// Executes a prepared statement, and returns its rows.
pub(crate) async fn read(
    session: &Session,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> QueryRowsResult {
    let result = session.execute_unpaged(statement, values).await;
    let result = result.unwrap_or_else(|error| panic!("{}: {error}", statement.get_statement()));
    result.into_rows_result().expect("it returns rows")
}
