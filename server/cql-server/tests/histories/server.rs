//! A server on sockets over a disk in memory that can lose its power.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions};
use ebb_cql_server::system::{CLUSTER_NAME, LocalNode};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Options, SystemClock};
use ebb_tables::{Catalog, GracePeriods, with_cql_tables};
use ebb_test_support::wait::{self, HANG};

use super::clients::run;

/// A server that runs until it is stopped or loses its power.
pub struct Server {
    executor: Arc<Executor>,
    server: CqlServer,
}

impl Server {
    /// Starts a server over the contents of a disk. If `waits` is true, writes are acknowledged
    /// only once they are durable.
    pub fn start(disk: &MemDisk, waits: bool) -> Self {
        let grace_periods = GracePeriods::default();
        let options = Options {
            disk: Arc::new(disk.clone()),
            // Small, so that flushes and merges run during the requests.
            memtable_bytes: 64 << 10,
            file_bytes: 16 << 10,
            wal_segment_bytes: 64 << 10,
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
        let executor =
            Executor::at_normal_priority(catalog, node, Limits::default()).waiting_for_sync(waits);
        let executor = Arc::new(executor);
        let options = ServeOptions {
            address: "127.0.0.1:0".parse().expect("an address"),
            threads: 4,
            // No request fails because the machine is slow, and none waits for an idle core.
            idle_class: false,
            overload_wait: Duration::ZERO,
            startup_timeout: HANG,
            request_timeout: HANG,
            write_timeout: HANG,
            ..ServeOptions::default()
        };
        let server = CqlServer::start(executor.clone(), None, options);
        Self {
            server: server.expect("the server starts"),
            executor,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address(), Compression::None).expect("the server listens")
    }

    /// Executes statements, which must succeed.
    pub fn run(&self, statements: &[&str]) {
        let mut client = self.client();
        for text in statements {
            run(&mut client, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    /// Stops the server, and drops everything that uses the database.
    pub fn stop(self) {
        let Self {
            mut executor,
            server,
        } = self;
        server.drain(HANG);
        wait::until("the threads of the server to drop the executor", || {
            Arc::get_mut(&mut executor).is_some()
        });
    }
}

/// Returns the statement that creates a keyspace.
pub fn keyspace(name: &str) -> String {
    format!(
        "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}}"
    )
}
