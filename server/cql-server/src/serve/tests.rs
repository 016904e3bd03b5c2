//! A server over sockets, with a service whose statements the tests control.

mod certificates;
mod client;
mod conflicts;
mod connections;
mod events;
mod fake;
mod hostile;
mod login;
mod overload;
mod queries;
mod scans;
mod slow;
mod stages;
mod statements;
mod stopping;
mod tls;
mod too_large;
mod version5;
mod writes;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use ebb_cql::protocol::{
    Answer, Batch, BatchKind, Columns, Compression, Consistency, ErrorKind, ErrorResponse,
    EventTypes, QueryParameters, Request, Response, SchemaChange, SchemaChangeKind, SchemaTarget,
    Segments, Startup, StatementRef, Values, Version, WriteType,
};
use ebb_test_support::seed::for_seeds;
use ebb_test_support::wait::{self, HANG};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use self::client::{Client, encoded, parameters};
use self::fake::{Fake, FakeStatement, Gate, synced};
use self::statements::{batch_of, is_prepared, prepare, prepared};
use super::{CqlServer, ServeOptions};
use crate::access::Login;
use crate::call::{Lane, Service, Statement};
use crate::interrupt;

/// Returns the options of tests that are not about overload and time limits. The server never
/// rejects a request as overloaded, closes no connection because the machine is slow, and reads
/// ranges in the normal scheduling class.
fn options() -> ServeOptions {
    ServeOptions {
        idle_class: false,
        overload_wait: Duration::ZERO,
        startup_timeout: HANG,
        login_timeout: HANG,
        request_timeout: HANG,
        write_timeout: HANG,
        ..ServeOptions::default()
    }
}

/// Waits until `server` has at most `most` connections.
#[track_caller]
fn until_connections(server: &CqlServer, most: u64) {
    let counters = server.counters();
    wait::until("connections to end", || {
        counters.counts().connections <= most
    });
}

/// A server over a [`Fake`]. When this is dropped, the gates are opened first: the drop of a
/// [`CqlServer`] waits for its threads, and a thread that waits at a gate would hang a test that
/// failed before it opened the gate.
struct Served {
    // Fields are dropped in order, so the gates are opened before the server is dropped.
    _gates: OpenedOnDrop,
    server: CqlServer,
}

impl Served {
    /// Drains the server like [`CqlServer::drain`]. Afterwards opens the gates at which statements
    /// and syncs of the [`Fake`] service wait, so that their threads end.
    fn drain(self, patience: Duration) -> bool {
        let Self { _gates, server } = self;
        server.drain(patience)
    }
}

impl Deref for Served {
    type Target = CqlServer;

    fn deref(&self) -> &CqlServer {
        &self.server
    }
}

/// Opens the gates of the service when it is dropped, so that the statements and syncs which wait
/// there end.
struct OpenedOnDrop(Arc<Fake>);

impl Drop for OpenedOnDrop {
    fn drop(&mut self) {
        self.0.gate.open();
        self.0.sync_gate.open();
    }
}

fn server(options: ServeOptions) -> (Arc<Fake>, Served) {
    serving(Fake::default(), options)
}

fn serving(fake: Fake, options: ServeOptions) -> (Arc<Fake>, Served) {
    let fake = Arc::new(fake);
    let options = ServeOptions {
        address: ([127, 0, 0, 1], 0).into(),
        threads: 2,
        ..options
    };
    let server = CqlServer::start(fake.clone(), None, options).unwrap();
    let _gates = OpenedOnDrop(fake.clone());
    (fake, Served { _gates, server })
}
