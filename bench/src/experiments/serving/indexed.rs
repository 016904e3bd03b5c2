//! The cost of an index: writes to a table with an index compared with writes to a table without,
//! and rows found by the index compared with rows found by their keys.
//!
//! A write changes the indexed column of its row, so it leaves a stale index entry behind. Reads by
//! the index meet stale entries too. In turns, all connections send one request each, and then all
//! responses are read. The result is CPU time of the server, so the waits of a connection for the
//! others do not count.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use ebb_cql::client::Client;
use ebb_cql::protocol::{
    Answer, Compression, QueryParameters, Request, Response, Value, ValuesBuf,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::args::ServingArgs;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use crate::console::progress_bar;
use crate::experiments::statistics::median;
use crate::ycsb::cql::{prepare, query};

/// The number of rows with the same value of the indexed column, when the table is loaded.
const ROWS_OF_VALUE: u64 = 10;
/// The length of a value of the column without an index, in bytes.
const TEXT_BYTES: usize = 100;
/// The seed by which the rows to read and write are drawn.
const SEED: u64 = 19;

/// The result of the part: CPU time of the server in microseconds, with a value for each round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Indexed {
    /// CPU time of a write to the table without an index.
    pub plain_write_us: Vec<f64>,
    /// CPU time of a write that changes the indexed column of the table with an index, in
    /// microseconds, for each round.
    pub indexed_write_us: Vec<f64>,
    /// CPU time of ten reads by key, each of one row, in microseconds, for each round.
    pub ten_reads_us: Vec<f64>,
    /// CPU time of reads by the index, for every ten rows found (a read finds about ten), in
    /// microseconds, for each round.
    pub ten_found_us: Vec<f64>,
}

impl PartResult for Indexed {
    fn lines(&self) -> Vec<String> {
        let cost = |name: &str, values: &[f64], of: &str, than: &[f64]| {
            let (value, other) = (median(values), median(than));
            let ratio = value / other;
            format!("{name} {value:.1} us of CPU, {ratio:.2} of the {other:.1} us of {of}")
        };
        let costs = [
            cost(
                "a write with an index",
                &self.indexed_write_us,
                "one without",
                &self.plain_write_us,
            ),
            cost(
                "ten rows by the index",
                &self.ten_found_us,
                "ten reads by key",
                &self.ten_reads_us,
            ),
        ];
        vec![format!("an index: {}", costs.join("; "))]
    }
}

/// The table without an index.
pub(super) const PLAIN: &str = "ix.plain";
/// The statement that writes a row: the numbers `k` (the key) and `g`, and the text `v`.
const WRITE: &str = "INSERT INTO ix.plain (k, g, v) VALUES (?, ?, ?)";

const SCHEMA: [&str; 4] = [
    "CREATE KEYSPACE ix WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ix.plain (k int PRIMARY KEY, g int, v text)",
    "CREATE TABLE ix.indexed (k int PRIMARY KEY, g int, v text)",
    "CREATE INDEX by_g ON ix.indexed (g)",
];

/// A prepared statement.
#[derive(Debug, Clone)]
struct Statement {
    id: Bytes,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    ReadByKey,
    ReadByIndex,
}

pub fn measure(setting: &Setting<'_>) -> Result<Indexed> {
    let args = setting.args;
    let server = setting.start("indexed", &[])?;
    let mut callers = Callers::connect(&server, args)?;
    let plain = callers.prepare(Kind::Write, WRITE)?;
    let indexed = callers.prepare(Kind::Write, &WRITE.replace("plain", "indexed"))?;
    let by_key = "SELECT k, g, v FROM ix.indexed WHERE k = ?";
    let by_key = callers.prepare(Kind::ReadByKey, by_key)?;
    let by_index = "SELECT k, g, v FROM ix.indexed WHERE g = ?";
    let by_index = callers.prepare(Kind::ReadByIndex, by_index)?;
    for statement in [&plain, &indexed] {
        callers.load(statement)?;
    }
    server.settle()?;
    let mut found = Indexed::default();
    let bar = progress_bar("serving: indexed", u64::from(args.rounds));
    for round in 0..=args.rounds {
        // Returns the CPU time of the server for each row, in microseconds.
        let mut run = |statement: &Statement| -> Result<f64> {
            setting.check_interrupt()?;
            let used_s = server.process.usage()?.cpu_s();
            let rows = callers.run(statement, args.window)?;
            // The CPU of flushes and merges belongs to the writes that caused them.
            server.settle()?;
            Ok((server.process.usage()?.cpu_s() - used_s) * 1e6 / rows as f64)
        };
        let measured = [
            run(&plain)?,
            run(&indexed)?,
            run(&by_key)? * 10.0,
            run(&by_index)? * 10.0,
        ];
        // The first round warms up.
        if round > 0 {
            let [plain, indexed, reads, by_index] = measured;
            found.plain_write_us.push(plain);
            found.indexed_write_us.push(indexed);
            found.ten_reads_us.push(reads);
            found.ten_found_us.push(by_index);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    server.stop()?;
    Ok(found)
}

/// Creates the table [`PLAIN`], and writes as many rows as there are records.
pub(super) fn load_plain(server: &Server, args: &ServingArgs) -> Result<()> {
    let mut callers = Callers::connect(server, args)?;
    let plain = callers.prepare(Kind::Write, WRITE)?;
    callers.load(&plain)
}

/// The connections, and the source of the rows that they request.
struct Callers {
    clients: Vec<Client>,
    records: u64,
    text: String,
    rng: ChaCha8Rng,
}

impl Callers {
    /// Connects to a server, and creates the tables.
    fn connect(server: &Server, args: &ServingArgs) -> Result<Self> {
        let connect = |_| Client::connect(server.address, Compression::None);
        let clients: Result<Vec<_>, _> = (0..args.connections).map(connect).collect();
        let mut clients = clients?;
        for text in SCHEMA {
            query(&mut clients[0], text)?;
        }
        Ok(Self {
            clients,
            records: args.records,
            text: "t".repeat(TEXT_BYTES),
            rng: ChaCha8Rng::seed_from_u64(SEED),
        })
    }

    fn prepare(&mut self, kind: Kind, text: &str) -> Result<Statement> {
        let id = prepare(&mut self.clients[0], text)?;
        Ok(Statement { id, kind })
    }

    /// Writes all rows once, in the order of the indexed column.
    fn load(&mut self, statement: &Statement) -> Result<()> {
        let records = self.records;
        let mut keys = (0..records).map(|key| (key, key / ROWS_OF_VALUE));
        loop {
            let drawn: Vec<(u64, u64)> = keys.by_ref().take(self.clients.len()).collect();
            if drawn.is_empty() {
                return Ok(());
            }
            self.send_all(statement, &drawn)?;
        }
    }

    /// Executes the statement again and again for `window`, and returns the number of rows read or
    /// written.
    fn run(&mut self, statement: &Statement, window: Duration) -> Result<u64> {
        let begun = Instant::now();
        let (mut rows, values) = (0, self.records / ROWS_OF_VALUE);
        while begun.elapsed() < window {
            let drawn: Vec<(u64, u64)> = (0..self.clients.len())
                .map(|_| {
                    let key = self.rng.random_range(0..self.records);
                    (key, self.rng.random_range(0..values))
                })
                .collect();
            rows += self.send_all(statement, &drawn)?;
        }
        Ok(rows)
    }

    /// Sends one request for each of `drawn`, which are keys with values of the indexed column, and
    /// reads the responses. Returns the number of rows read or written. Each request has a connection
    /// of its own; if there are fewer requests than connections, the last connections send nothing.
    fn send_all(&mut self, statement: &Statement, drawn: &[(u64, u64)]) -> Result<u64> {
        let mut frame = BytesMut::new();
        for (client, (key, value)) in self.clients.iter_mut().zip(drawn) {
            let (key, value) = ((*key as i32).to_be_bytes(), (*value as i32).to_be_bytes());
            let mut values = ValuesBuf::new();
            match statement.kind {
                Kind::Write => {
                    values.push(Value::Bytes(&key));
                    values.push(Value::Bytes(&value));
                    values.push(Value::Bytes(self.text.as_bytes()));
                }
                Kind::ReadByKey => {
                    values.push(Value::Bytes(&key));
                }
                Kind::ReadByIndex => {
                    values.push(Value::Bytes(&value));
                }
            }
            let parameters = QueryParameters {
                values: values.as_values(),
                ..QueryParameters::default()
            };
            let id = &statement.id;
            frame.clear();
            (Request::Execute { id, parameters }).encode(&mut frame, 0, Compression::None);
            client.send(&frame)?;
        }
        // Each response is checked: the CPU time of wrong answers would be worth nothing.
        let mut rows = 0;
        for (client, (key, value)) in self.clients.iter_mut().zip(drawn) {
            let frame = client.receive()?;
            rows += match (Answer::decode(&frame)?.response, statement.kind) {
                (Response::Void, Kind::Write) => 1,
                (Response::Rows(found), Kind::ReadByKey) => {
                    let key = (*key as i32).to_be_bytes();
                    let cells: Vec<_> = found.cells().collect();
                    ensure!(
                        cells.len() == 3 && cells[0] == Some(&key[..]),
                        "a row is missing"
                    );
                    1
                }
                (Response::Rows(found), Kind::ReadByIndex) => {
                    let value = (*value as i32).to_be_bytes();
                    let cells: Vec<_> = found.cells().collect();
                    // Any number of rows is right: writes have changed the column since the load. A row
                    // has three cells: k, g and v.
                    let is_of_value = |row: &[Option<&[u8]>]| row[1] == Some(&value[..]);
                    ensure!(
                        cells.chunks(3).all(is_of_value),
                        "a row of another value was found"
                    );
                    (cells.len() / 3) as u64
                }
                (other, kind) => bail!("{kind:?} is answered with {other:?}"),
            };
        }
        Ok(rows)
    }
}
