//! Writes of one row by all connections at once: plain ones, with IF, and of a counter.
//!
//! All connections send a request, then all responses are read, and so on. So the row always has as
//! many concurrent requests as there are connections, and every kind of write costs the client the
//! same.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use ebb_cql::client::Client;
use ebb_cql::protocol::{
    Answer, Compression, QueryParameters, Request, Response, Value, ValuesBuf,
};
use serde::Serialize;

use super::report::PartResult;
use super::setting::Setting;
use crate::console::progress_bar;
use crate::experiments::statistics::median;
use crate::number::fixed;
use crate::ycsb::cql::{prepare, query};

/// The results of the part `hot-row`. Each list has a value for each round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct HotRow {
    /// Writes per second by `UPDATE` without a condition.
    pub plain_per_s: Vec<f64>,
    /// Writes per second by `UPDATE ... IF EXISTS`, whose condition always holds.
    pub conditional_per_s: Vec<f64>,
    /// Applied writes per second by `UPDATE ... IF v = x`, where x is the value that the connection
    /// read last.
    pub swapped_per_s: Vec<f64>,
    /// Responses per second to `UPDATE ... IF v = x`, applied or not.
    pub compared_per_s: Vec<f64>,
    /// Writes per second by `UPDATE ... SET c = c + n` of a counter, each time with another n.
    pub counted_per_s: Vec<f64>,
}

impl PartResult for HotRow {
    /// Returns a line with the median rates, and their ratios to the rate of plain writes.
    fn lines(&self) -> Vec<String> {
        let plain = median(&self.plain_per_s);
        let rate = |name: &str, values: &[f64]| {
            let value = median(values);
            let part = fixed(value / plain, 2);
            format!("{name} {value:.0}/s, {part} of plain")
        };
        let rates = [
            format!("plain {plain:.0}/s"),
            rate("IF EXISTS, applied", &self.conditional_per_s),
            rate("IF v = x, applied", &self.swapped_per_s),
            rate("IF v = x, answered", &self.compared_per_s),
            rate("c = c + 1", &self.counted_per_s),
        ];
        vec![format!("writes of one row: {}", rates.join("; "))]
    }
}

const SCHEMA: [&str; 4] = [
    "CREATE KEYSPACE hot WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE hot.t (k int PRIMARY KEY, v bigint)",
    "CREATE TABLE hot.n (k int PRIMARY KEY, c counter)",
    "INSERT INTO hot.t (k, v) VALUES (0, 0)",
];

pub fn measure(setting: &Setting<'_>) -> Result<HotRow> {
    let args = setting.args;
    let server = setting.start("hot-row", &[])?;
    let connect = || Client::connect(server.address, Compression::None);
    let mut clients = Vec::new();
    for _ in 0..args.connections {
        clients.push(Connection {
            client: connect()?,
            last_value: 0,
        });
    }
    let mut first = connect()?;
    for text in SCHEMA {
        query(&mut first, text)?;
    }
    let mut statement = |text: &str| prepare(&mut first, text);
    let plain = statement("UPDATE hot.t SET v = ? WHERE k = 0")?;
    let exists = statement("UPDATE hot.t SET v = ? WHERE k = 0 IF EXISTS")?;
    let swap = statement("UPDATE hot.t SET v = ? WHERE k = 0 IF v = ?")?;
    let count = statement("UPDATE hot.n SET c = c + ? WHERE k = 0")?;
    let mut found = HotRow::default();
    let bar = progress_bar("serving: hot row", u64::from(args.rounds));
    for round in 0..=args.rounds {
        let mut run = |id: &[u8], compares: bool| {
            setting.check_interrupt()?;
            run(&mut clients, id, compares, args.window)
        };
        let plain = run(&plain, false)?;
        let exists = run(&exists, false)?;
        let swap = run(&swap, true)?;
        let count = run(&count, false)?;
        // The first round warms up.
        if round > 0 {
            found.plain_per_s.push(plain.applied_per_s);
            found.conditional_per_s.push(exists.applied_per_s);
            found.swapped_per_s.push(swap.applied_per_s);
            found.compared_per_s.push(swap.answered_per_s);
            found.counted_per_s.push(count.applied_per_s);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    server.stop()?;
    Ok(found)
}

/// A connection, and the last value of the row that it received.
struct Connection {
    client: Client,
    last_value: i64,
}

struct Rates {
    applied_per_s: f64,
    answered_per_s: f64,
}

/// Runs one kind of write for `window`. `compares` is true for `UPDATE ... IF v = x`, where x is
/// the value that the connection read last.
fn run(
    connections: &mut [Connection],
    id: &[u8],
    compares: bool,
    window: std::time::Duration,
) -> Result<Rates> {
    let begun = Instant::now();
    // Each write of a window has a value of its own. So a comparison with an old value fails, and
    // does not hold by chance.
    let (mut applied, mut answered, mut next) = (0_u64, 0_u64, 1_i64);
    let mut frame = BytesMut::new();
    while begun.elapsed() < window {
        for connection in &mut *connections {
            next += 1;
            let (new, last_value) = (next.to_be_bytes(), connection.last_value.to_be_bytes());
            let mut values = ValuesBuf::new();
            values.push(Value::Bytes(&new));
            if compares {
                values.push(Value::Bytes(&last_value));
            }
            let parameters = QueryParameters {
                values: values.as_values(),
                ..QueryParameters::default()
            };
            frame.clear();
            (Request::Execute { id, parameters }).encode(&mut frame, 0, Compression::None);
            connection.client.send(&frame)?;
        }
        for connection in &mut *connections {
            let frame = connection.client.receive()?;
            answered += 1;
            match Answer::decode(&frame)?.response {
                // A write without a condition, or of a counter, always applies.
                Response::Void => applied += 1,
                Response::Rows(rows) => {
                    let mut cells = rows.cells();
                    // The first cell is `[applied]`. If it is false, the value of the row follows.
                    // If it is true, `last_value` stays as it is: the next comparison of this
                    // connection fails, and its response has the value that the row has by then. The
                    // connections whose comparisons failed after this write have read its value, so one
                    // of them can apply the next write.
                    match cells.next().flatten() {
                        Some([1]) => applied += 1,
                        _ => {
                            let value = cells.next().flatten().context("the value of the row")?;
                            connection.last_value = i64::from_be_bytes(value.try_into()?);
                        }
                    }
                }
                other => bail!("a write is answered with {other:?}"),
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Rates {
        applied_per_s: applied as f64 / seconds,
        answered_per_s: answered as f64 / seconds,
    })
}
