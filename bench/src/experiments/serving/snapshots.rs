//! CREATE SNAPSHOT and DROP SNAPSHOT of a keyspace with many tables, from the first snapshot to the
//! thousandth, beside drivers that do nothing; and the CPU of the server at rest.
//!
//! Before each snapshot a row of the next table is overwritten, so each snapshot differs from the one
//! before, and flushes and merges have something to keep for it.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, EventTypes, Request};
use serde::Serialize;

use super::bar::verdict;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::timings::{Timings, quantiles_ms, timed};
use crate::console::progress_bar;
use crate::threads::pause;
use crate::ycsb::Latencies;
use crate::ycsb::cql::query;

/// The number of tables of the keyspace.
const TABLES: u64 = 500;
/// The number of snapshots that are created, and afterwards deleted.
const SNAPSHOTS: u64 = 1000;
/// The number of snapshots whose latencies are reported together.
const STAGE: u64 = 100;
/// The number of idle connections that are registered for events, as each driver keeps one.
const DRIVERS: usize = 10;
/// The largest acceptable p99 of CREATE SNAPSHOT, in milliseconds.
const CREATE_MS_MAX: f64 = 50.0;
/// The largest acceptable CPU at rest that the snapshots add, in cores: about as much as a server
/// without snapshots uses.
const REST_CORES_MAX: f64 = 0.01;
/// The time over which CPU at rest is measured. The kernel counts it in steps of 10 ms.
const REST: Duration = Duration::from_secs(20);

const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE many WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// The result of the part `snapshots`, which creates and deletes many snapshots beside idle
/// drivers.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshots {
    pub tables: u64,
    pub drivers: usize,
    /// The number of snapshots that were created, and afterwards deleted.
    pub snapshots: u64,
    /// Latencies of CREATE SNAPSHOT, in groups of a hundred.
    pub creates: Vec<Latencies>,
    /// Latencies of DROP SNAPSHOT, the oldest snapshot first, in groups of a hundred.
    pub drops: Vec<Latencies>,
    /// Cores that the server uses at rest before the first snapshot.
    pub rest_cores_before: f64,
    /// Cores that the server uses at rest while all snapshots exist.
    pub rest_cores: f64,
}

impl PartResult for Snapshots {
    fn lines(&self) -> Vec<String> {
        let line = |name: &str, stages: &[Latencies]| {
            let of = |stage: Option<&Latencies>| quantiles_ms(&stage.copied().unwrap_or_default());
            let (first, last) = (of(stages.first()), of(stages.last()));
            format!("  {name} in ms: the first {STAGE} {first}; the last {STAGE} {last}")
        };
        let p99_ms = |stage: &Latencies| stage.p99_us / 1e3;
        let worst_ms = self.creates.iter().map(p99_ms).fold(0.0, f64::max);
        let has_creates = !self.creates.is_empty();
        vec![
            format!(
                "{} snapshots of {} tables beside {} idle drivers",
                self.snapshots, self.tables, self.drivers
            ),
            line("CREATE SNAPSHOT", &self.creates),
            format!(
                "  its worst p99 {worst_ms:.2} ms, below {CREATE_MS_MAX}: {}",
                verdict(has_creates && worst_ms < CREATE_MS_MAX)
            ),
            line("DROP SNAPSHOT", &self.drops),
            format!(
                "  cores at rest: {:.4} before, {:.4} with all, at most {REST_CORES_MAX} more: {}",
                self.rest_cores_before,
                self.rest_cores,
                verdict(self.rest_cores - self.rest_cores_before <= REST_CORES_MAX)
            ),
        ]
    }
}

/// Starts a server, and measures the creation and deletion of snapshots beside idle
/// drivers.
///
/// # Errors
/// When the server fails, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Snapshots> {
    let server = setting.start("snapshots", &[])?;
    let mut client = Client::connect(server.address, Compression::None)?;
    create_tables(setting, &mut client)?;
    let drivers = (0..DRIVERS).map(|_| driver(&server));
    let drivers: Vec<_> = drivers.collect::<Result<_>>()?;
    let rest_cores_before = cores_at_rest(&server)?;
    let creates = in_stages(setting, "create", |number| {
        let table = number % TABLES;
        let write = format!("INSERT INTO many.t{table} (k, v) VALUES (0, 'v{number}')");
        query(&mut client, &write)?;
        let create = format!("CREATE SNAPSHOT s{number} ON KEYSPACE many");
        timed(|| query(&mut client, &create).map(drop))
    })?;
    let rest_cores = cores_at_rest(&server)?;
    let drops = in_stages(setting, "drop", |number| {
        let statement = format!("DROP SNAPSHOT s{number} ON KEYSPACE many");
        timed(|| query(&mut client, &statement).map(drop))
    })?;
    let found = Snapshots {
        tables: TABLES,
        drivers: drivers.len(),
        snapshots: SNAPSHOTS,
        creates,
        drops,
        rest_cores_before,
        rest_cores,
    };
    drop((client, drivers));
    server.stop()?;
    Ok(found)
}

/// Creates the tables, with a row in each.
fn create_tables(setting: &Setting<'_>, client: &mut Client) -> Result<()> {
    let bar = progress_bar("serving: snapshots, tables", TABLES);
    query(client, CREATE_KEYSPACE)?;
    for table in 0..TABLES {
        setting.check_interrupt()?;
        let create = format!("CREATE TABLE many.t{table} (k int PRIMARY KEY, v text)");
        query(client, &create)?;
        let write = format!("INSERT INTO many.t{table} (k, v) VALUES (0, 'first')");
        query(client, &write)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Opens a connection that is registered for events, like the control connection of a driver.
fn driver(server: &Server) -> Result<Client> {
    let mut client = Client::connect(server.address, Compression::None)?;
    let all = EventTypes {
        topology: true,
        status: true,
        schema: true,
    };
    client
        .request(&Request::Register(all))
        .context("the server refused a driver")?;
    Ok(client)
}

/// Calls `statement` with the number of each snapshot. Returns the latencies that `statement`
/// returns, in groups of [`STAGE`].
fn in_stages(
    setting: &Setting<'_>,
    name: &str,
    mut statement: impl FnMut(u64) -> Result<Duration>,
) -> Result<Vec<Latencies>> {
    let bar = progress_bar(format!("serving: snapshots, {name}"), SNAPSHOTS);
    let mut stage = |numbers: Range<u64>| -> Result<Latencies> {
        let mut timings = Timings::new();
        for number in numbers {
            setting.check_interrupt()?;
            timings.record(statement(number)?);
            bar.inc(1);
        }
        Ok(timings.latencies())
    };
    let begins = (0..SNAPSHOTS).step_by(STAGE as usize);
    let stages = begins.map(|begin| stage(begin..(begin + STAGE).min(SNAPSHOTS)));
    let stages = stages.collect::<Result<_>>()?;
    bar.finish_and_clear();
    Ok(stages)
}

/// Returns the cores that the server uses once its background work is done.
fn cores_at_rest(server: &Server) -> Result<f64> {
    // The server first becomes idle, which starts flushes and merges.
    const IDLE: Duration = Duration::from_secs(3);
    pause(IDLE);
    server.settle()?;
    let before = server.process.usage()?;
    let began = Instant::now();
    pause(REST);
    let used = server.process.usage()?.since(&before);
    Ok(used.cpu_s() / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_p99_and_the_cpu_at_rest_are_within_their_bars_or_not() {
        let stage = |p99_us| Latencies {
            count: STAGE,
            p50_us: 900.0,
            p99_us,
            ..Latencies::default()
        };
        let found = Snapshots {
            tables: TABLES,
            drivers: DRIVERS,
            snapshots: SNAPSHOTS,
            creates: vec![stage(2000.0), stage(49_000.0), stage(3000.0)],
            drops: vec![stage(1000.0)],
            rest_cores_before: 0.004,
            rest_cores: 0.005,
        };
        let lines = found.lines();
        assert!(lines[1].ends_with("p50 0.90, p99 3.00"), "{lines:?}");
        assert!(lines[2].ends_with("49.00 ms, below 50: meets"), "{lines:?}");
        assert!(lines[4].ends_with(": meets"), "{lines:?}");
        let worse = Snapshots {
            creates: vec![stage(51_000.0), stage(1000.0)],
            rest_cores: 0.1,
            ..found.clone()
        };
        assert!(worse.lines()[2].ends_with(": misses"));
        assert!(worse.lines()[4].ends_with(": misses"));
        // Nothing was measured.
        let nothing = Snapshots {
            creates: Vec::new(),
            ..found
        };
        assert!(nothing.lines()[2].ends_with(": misses"));
    }
}
