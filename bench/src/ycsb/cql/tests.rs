//! Tests of the built-in client against a server in this process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use bytes::BytesMut;
use ebb_cql::client::Client;
use ebb_cql::protocol::{
    BODY_BYTES_MAX_DEFAULT, Compression, Consistency, Direction, ErrorKind, ErrorResponse,
    FrameDecoder, Head, QueryParameters, Request, Response, WriteType,
};
use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions};
use ebb_cql_server::system::LocalNode;
use ebb_storage::{Db, Options, SystemClock};
use ebb_tables::{Catalog, GracePeriods, with_cql_tables};
use ebb_test_support::wait::{HANG, until};

use super::connection::Connection;
use super::records::Records;
use super::socket::Socket;
use super::statements::Statements;
use super::worker::Worker;
use super::*;
use crate::ycsb::{Distribution, Operation, Pace, Workload};

const RECORDS: u64 = 2000;

struct TestServer {
    // Declared before the database, so that it is dropped before it.
    server: CqlServer,
    _db: Db,
    _dir: tempfile::TempDir,
}

impl TestServer {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let grace = GracePeriods::default();
        let options = with_cql_tables(Options::default(), &grace);
        let db = Db::open(dir.path(), options).unwrap();
        let catalog = Catalog::open(&db, &grace, Arc::new(SystemClock)).unwrap();
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let cluster_name = "ebb".to_string();
        let node = LocalNode {
            address,
            cluster_name,
        };
        // Pages must not depend on the load of the machine.
        let limits = Limits {
            empty_page: Duration::MAX,
            page_time: Duration::MAX,
            ..Limits::default()
        };
        let executor = Executor::at_normal_priority(Arc::new(catalog), node, limits);
        let options = ServeOptions {
            address,
            overload_wait: Duration::ZERO,
            idle_class: false,
            request_timeout: HANG,
            ..ServeOptions::default()
        };
        let server = CqlServer::start(Arc::new(executor), None, options).unwrap();
        Self {
            server,
            _db: db,
            _dir: dir,
        }
    }

    fn loaded(&self, connections: usize, threads: usize) -> RawClient {
        let mut client =
            RawClient::connect(self.server.address(), None, connections, threads).unwrap();
        let load = Plan {
            in_flight: 4,
            value_bytes: 100,
            ..Plan::new(Operations::Load(0..RECORDS))
        };
        let loaded = client.run(&load, |_| ()).unwrap();
        assert_eq!(loaded.operations, RECORDS);
        assert_eq!(client.records(), RECORDS);
        client
    }

    fn execute(&self, text: &str) -> Response {
        let mut client = Client::connect(self.server.address(), Compression::None).unwrap();
        let parameters = QueryParameters::default();
        client
            .request(&Request::Query { text, parameters })
            .unwrap()
    }
}

fn plan(workload: &str) -> Plan {
    let workload: Workload = workload.parse().unwrap();
    Plan {
        value_bytes: 100,
        operations_max: Some(3000),
        ..Plan::new(Operations::Run(workload, None))
    }
}

#[test]
fn every_workload_reads_what_it_wrote() {
    let served = TestServer::start();
    let mut client = served.loaded(6, 2);
    for workload in ["a", "b", "c", "d", "e", "f"] {
        for in_flight in [1, 3] {
            let plan = Plan {
                in_flight,
                ..plan(workload)
            };
            let tally = client.run(&plan, |_| ()).unwrap();
            assert_eq!(tally.operations, 3000, "{workload}");
            assert_eq!((tally.mismatches, tally.not_found), (0, 0), "{workload}");
            assert_eq!(tally.all().len(), 3000, "{workload}");
            assert_eq!(tally.records_scanned > 0, workload == "e");
        }
    }
    // The next client counts the records that workloads d and e inserted.
    let inserted = client.records() - RECORDS;
    assert!(inserted > 0);
    let again = RawClient::connect(served.server.address(), None, 1, 1).unwrap();
    assert_eq!(again.records(), RECORDS + inserted);
}

#[test]
fn an_open_loop_keeps_its_rate_and_its_lead_is_in_no_latency() {
    let served = TestServer::start();
    let mut client = served.loaded(8, 1);
    for tick in [Duration::ZERO, Duration::from_millis(3)] {
        let plan = Plan {
            pace: Pace::steady(1000.0),
            tick,
            operations_max: None,
            duration: Some(Duration::from_millis(600)),
            lead: Duration::from_millis(200),
            ..plan("a")
        };
        let tally = client.run(&plan, |_| ()).unwrap();
        // 600 are due, and each is completed or counted as unserved; 400 of them are due after the
        // lead.
        assert_eq!(tally.operations + tally.unserved, 600);
        assert!(tally.all().len() <= 400);
        assert!(tally.all().len() + 200 >= tally.operations);
        assert_eq!(tally.mismatches, 0);
    }
}

#[cfg(feature = "scylla")]
#[test]
fn a_driver_reads_what_it_wrote() {
    let served = TestServer::start();
    let mut client = served.loaded(1, 1);
    let mut driver = client.driver(3, 2).unwrap();
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let plan = Plan {
            in_flight: 2,
            ..plan(workload)
        };
        let tally = client.run_by(&mut driver, &plan, |_| ()).unwrap();
        assert_eq!(tally.operations, 3000, "{workload}");
        assert_eq!((tally.mismatches, tally.not_found), (0, 0), "{workload}");
        assert_eq!(tally.all().len(), 3000, "{workload}");
        assert_eq!(tally.records_scanned > 0, workload == "e");
    }
    let plan = Plan {
        pace: Pace::steady(1000.0),
        operations_max: None,
        duration: Some(Duration::from_millis(600)),
        lead: Duration::from_millis(200),
        ..plan("a")
    };
    let tally = client.run_by(&mut driver, &plan, |_| ()).unwrap();
    assert_eq!(tally.operations + tally.unserved, 600);
    assert!(tally.all().len() <= 400);
    assert_eq!(tally.mismatches, 0);
}

#[cfg(feature = "scylla")]
#[test]
fn a_driver_reads_a_snapshot_and_detects_wrong_values() {
    let served = TestServer::start();
    let mut client = served.loaded(1, 1);
    let (name, form) = ("Monday".to_string(), SnapshotForm::Statement);
    client.read_from(Some(SnapshotRead { name, form })).unwrap();
    let mut of_snapshot = client.driver(2, 1).unwrap();
    let tally = client.run_by(&mut of_snapshot, &plan("a"), |_| ()).unwrap();
    assert_eq!((tally.mismatches, tally.not_found), (0, 0));
    client.read_from(None).unwrap();
    served.execute("TRUNCATE ycsb.usertable");
    let mut live = client.driver(2, 1).unwrap();
    let tally = client.run_by(&mut live, &plan("c"), |_| ()).unwrap();
    assert_eq!(tally.not_found, 3000);
}

#[test]
fn reads_of_a_snapshot_see_no_later_write_in_both_forms() {
    let served = TestServer::start();
    let mut client = served.loaded(4, 1);
    for (number, form) in [SnapshotForm::Statement, SnapshotForm::Keyspace]
        .into_iter()
        .enumerate()
    {
        let name = format!("Monday{number}");
        client.read_from(Some(SnapshotRead { name, form })).unwrap();
        for workload in ["a", "e"] {
            let tally = client.run(&plan(workload), |_| ()).unwrap();
            assert_eq!((tally.mismatches, tally.not_found), (0, 0), "{form:?}");
        }
    }
}

#[test]
fn wrong_and_missing_values_are_detected() {
    let served = TestServer::start();
    let mut client = served.loaded(2, 1);
    let table = "ycsb.usertable";
    let key = |number| String::from_utf8(crate::ycsb::key(number).to_vec()).unwrap();
    let text = format!("UPDATE {table} SET field0 = 0xff WHERE y_id = '{}'", key(7));
    served.execute(&text);
    for number in 100..600 {
        let text = format!("DELETE FROM {table} WHERE y_id = '{}'", key(number));
        served.execute(&text);
    }
    let uniform = "uniform".parse().unwrap();
    let workload = "c".parse().unwrap();
    let plan = Plan {
        operations_max: Some(20_000),
        ..Plan::new(Operations::Run(workload, Some(uniform)))
    };
    let tally = client.run(&plan, |_| ()).unwrap();
    assert!(tally.mismatches > 0 && tally.not_found > 1000, "{tally:?}");
    let read = tally.of(Operation::Read).unwrap();
    assert_eq!(read.count, 20_000);
}

/// Starts a server of one connection, which ends with it. The server answers each second request with
/// `error`, and the others as writes that succeed. Returns the client's end of the connection.
fn failing_server(error: ErrorKind) -> (TcpStream, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let answers = [
        Response::Void,
        Response::Error(ErrorResponse::new(error, "on purpose")),
    ];
    let serve = move || {
        let mut answers = answers.iter().cycle();
        let decoder = FrameDecoder::new(Direction::Request, BODY_BYTES_MAX_DEFAULT);
        let (mut received, mut buffer) = (BytesMut::new(), [0; 4096]);
        // An error, too, is the end of the client.
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            received.extend_from_slice(&buffer[..read]);
            let mut out = BytesMut::new();
            while let Some(frame) = decoder.decode(&mut received).unwrap() {
                let answer = answers.next().unwrap();
                answer.encode(&mut out, frame.stream, &Head::default(), frame.version);
            }
            if stream.write_all(&out).is_err() {
                break;
            }
        }
    };
    (client, thread::spawn(serve))
}

/// Regression: one request that timed out on a stalled machine ended a measurement of many minutes.
#[test]
fn timeouts_are_counted_with_their_latency_and_other_errors_end_the_run() {
    let served = TestServer::start();
    served.loaded(1, 1);
    let mut control = Client::connect(served.server.address(), Compression::None).unwrap();
    let statements = Statements::prepare(&mut control, None, 100).unwrap();
    let run_against = |error: ErrorKind, takes_timeouts: bool| -> Result<Tally> {
        let (stream, server) = failing_server(error);
        stream.set_nonblocking(true).unwrap();
        let mut connections = [Connection::new(Socket::Plain(stream))];
        let writes = Workload {
            name: "writes",
            mix: &[(100, Operation::Update)],
            distribution: Distribution::Uniform,
        };
        let plan = Plan {
            operations_max: Some(100),
            value_bytes: 100,
            takes_timeouts,
            ..Plan::new(Operations::Run(writes, None))
        };
        let records = Records::new(RECORDS, None, 0);
        let parts = [&mut connections[..]].into_iter();
        let ran = run::run(&plan, &records, parts, |shared, index, connections| {
            Worker::new(shared, &statements, connections, index)?.run(&|_| ())
        });
        drop(connections);
        server.join().unwrap();
        ran
    };
    let consistency = Consistency::One;
    let write_timeout = || ErrorKind::WriteTimeout {
        consistency,
        write_type: WriteType::Simple,
    };
    for timeout in [write_timeout(), ErrorKind::ReadTimeout { consistency }] {
        let tally = run_against(timeout, true).unwrap();
        assert_eq!((tally.operations, tally.timed_out), (50, 50));
        assert_eq!(tally.all().len(), 100);
    }
    for (error, takes_timeouts) in [(write_timeout(), false), (ErrorKind::Server, true)] {
        let error = run_against(error, takes_timeouts).unwrap_err();
        assert_eq!(error.to_string(), "the server: on purpose");
    }
}

#[test]
fn a_missing_table_and_a_missing_server_are_errors() {
    let served = TestServer::start();
    let mut client = served.loaded(2, 1);
    served.execute("DROP TABLE ycsb.usertable");
    let error = client.run(&plan("c"), |_| ()).unwrap_err();
    assert!(error.to_string().contains("prepare"), "{error:#}");
    assert!(RawClient::connect(([127, 0, 0, 1], 1).into(), None, 1, 1).is_err());
}

#[test]
fn the_process_behind_an_address_is_found() {
    let served = TestServer::start();
    let process = ServerProcess::listening_on(served.server.address()).unwrap();
    assert_eq!(process.pid(), std::process::id() as i32);
    until("CPU time to be counted", || {
        process.usage().unwrap().cpu_s() > 0.0
    });
    // Other tests of this process allocate and free memory meanwhile.
    let this = procfs::process::Process::myself().unwrap();
    until(
        "the memory to be about as many bytes as procfs has pages",
        || {
            let bytes = this.statm().unwrap().resident * procfs::page_size();
            (bytes / 2..=bytes * 2).contains(&process.memory_bytes().unwrap())
        },
    );
    let sessions = Sessions::of(Some(&process));
    assert_eq!(sessions.same_session, Some(true));
    assert!(sessions.to_string().contains("the server's"));
    drop(served);
    assert!(ServerProcess::listening_on(([127, 0, 0, 1], 1).into()).is_none());
}

#[test]
fn a_whole_table_is_paged() {
    let served = TestServer::start();
    served.loaded(2, 1);
    let mut client = Client::connect(served.server.address(), Compression::None).unwrap();
    assert_eq!(pages(&mut client, 300, || true).unwrap(), RECORDS);
    let mut asked = 0;
    let two_pages = || {
        asked += 1;
        asked <= 2
    };
    assert_eq!(pages(&mut client, 300, two_pages).unwrap(), 600);
}
