//! CREATE TABLE and DROP TABLE: their latencies, and their medians compared with those of another
//! version of the server, such as one from before a change to the manifest.
//!
//! In a round, each server creates the tables of one keyspace, one after the other, and then drops
//! them. With `--peer` there are three servers: two of the other version, and between them, in each
//! round, the one of the measured version. The two also show the noise. Whole rounds are drawn for the
//! intervals, because the statements of one round depend on each other.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use serde::Serialize;

use super::bar::verdict;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::timings::{Timings, quantiles_ms, timed};
use crate::console::progress_bar;
use crate::experiments::colocation::bootstrap::{Estimate, ratios};
use crate::experiments::colocation::counts::{Counts, Pool};
use crate::ycsb::Latencies;
use crate::ycsb::cql::query;

/// The largest acceptable upper end of the confidence interval of the ratio of the median of CREATE
/// TABLE to that of the other version.
const CREATE_MAX: f64 = 1.3;
/// The names of the databases of the two servers of the other version.
const PEERS: [&str; 2] = ["schema-peer", "schema-peer-again"];

const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE made WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// The result of the part `schema`.
#[derive(Debug, Clone, Serialize)]
pub struct Schema {
    /// The number of tables that each server created, and then dropped, in each round.
    pub tables: u64,
    /// The number of rounds, without the first one, which is not measured.
    pub rounds: u32,
    /// The binary of the other version, if there is one.
    pub peer: Option<PathBuf>,
    /// CREATE TABLE.
    pub create: Statement,
    /// DROP TABLE.
    pub drop: Statement,
}

/// The latencies of one kind of statement.
#[derive(Debug, Clone, Serialize)]
pub struct Statement {
    /// The latencies of the measured version, of all rounds.
    pub latencies: Latencies,
    /// The comparison with the other version; `None` without one.
    pub compared: Option<Compared>,
}

/// The latencies of one kind of statement, compared with those of another version.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The latencies of both servers of the other version, of all rounds.
    pub peer: Latencies,
    /// The ratio of the median of the measured version to that of the other version.
    pub p50_ratio: Estimate,
    /// The ratio of the medians of the two servers of the other version. Its difference from 1 is
    /// noise.
    pub p50_ratio_of_peers: Estimate,
}

impl PartResult for Schema {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "the schema: {} tables created and dropped in each of {} rounds",
            self.tables, self.rounds
        )];
        lines.extend(self.create.lines("CREATE TABLE", Some(CREATE_MAX)));
        lines.extend(self.drop.lines("DROP TABLE", None));
        lines
    }
}

impl Statement {
    /// Summarizes the `rounds` of the measured version, and compares them with those of the two
    /// servers of the other version, if there is one. Each server has at least one round.
    fn new(rounds: &[Timings], peers: Option<[&[Timings]; 2]>) -> Self {
        let compared = peers.map(|[peer, again]| {
            let [p50_ratio] = ratios(&pool(rounds), &pool(peer.iter().chain(again)), [0.5]);
            let [p50_ratio_of_peers] = ratios(&pool(again), &pool(peer), [0.5]);
            Compared {
                peer: Timings::together(peer.iter().chain(again)).latencies(),
                p50_ratio,
                p50_ratio_of_peers,
            }
        });
        Self {
            latencies: Timings::together(rounds).latencies(),
            compared,
        }
    }

    /// Returns the lines for the terminal. `ratio_max` is the largest acceptable upper end of the
    /// interval of the ratio, if there is such a bar.
    fn lines(&self, name: &str, ratio_max: Option<f64>) -> Vec<String> {
        let quantiles = quantiles_ms(&self.latencies);
        let mut lines = vec![format!("  {name} in ms: {quantiles}")];
        if let Some(Compared {
            peer,
            p50_ratio,
            p50_ratio_of_peers,
        }) = &self.compared
        {
            lines.push(format!(
                "  {name} of the peer in ms: {}; p50 / that of the peer {p50_ratio}; of the peer's second \
                 server / first {p50_ratio_of_peers}",
                quantiles_ms(peer)
            ));
            lines.extend(ratio_max.map(|most| {
                let verdict = verdict(p50_ratio.high <= most);
                format!(
                    "  {name}: upper end {:.2}, at most {most}: {verdict}",
                    p50_ratio.high
                )
            }));
        }
        lines
    }
}

/// Returns the rounds in the form in which they are drawn again.
fn pool<'t>(rounds: impl IntoIterator<Item = &'t Timings>) -> Pool {
    let counts: Vec<Counts> = rounds.into_iter().map(Timings::counts).collect();
    Pool::new(&counts)
}

/// Measures CREATE TABLE and DROP TABLE with a new server, and with two of the other version if the
/// options name one.
///
/// # Errors
/// When a binary is missing, a server does not start or refuses a statement, or the user interrupts
/// the run.
pub fn measure(setting: &Setting<'_>) -> Result<Schema> {
    let args = setting.args;
    let mut peers = match args.peer.as_deref() {
        Some(peer) => {
            let name = peer.display();
            ensure!(
                peer.is_file(),
                "there is no file {name}, which --peer names"
            );
            let [first, second] = PEERS.map(|name| Tables::start(setting, peer, name));
            Some([first?, second?])
        }
        None => None,
    };
    let mut ebb = Tables::start(setting, &setting.binary, "schema")?;
    let bar = progress_bar("serving: schema", u64::from(args.windows));
    for round in 0..=args.windows {
        // The first round warms up.
        let is_measured = round > 0;
        let (peer, again) = peers.as_mut().map(|[peer, again]| (peer, again)).unzip();
        for tables in peer.into_iter().chain([&mut ebb]).chain(again) {
            tables.create_and_drop(setting, is_measured)?;
        }
        bar.inc(u64::from(is_measured));
    }
    bar.finish_and_clear();
    let of_peers =
        |rounds: fn(&Tables) -> &[Timings]| peers.as_ref().map(|it| it.each_ref().map(rounds));
    let found = Schema {
        tables: args.tables,
        rounds: args.windows,
        peer: args.peer.clone(),
        create: Statement::new(&ebb.creates, of_peers(|tables| tables.creates.as_slice())),
        drop: Statement::new(&ebb.drops, of_peers(|tables| tables.drops.as_slice())),
    };
    for tables in peers.into_iter().flatten().chain([ebb]) {
        tables.stop()?;
    }
    Ok(found)
}

/// A server whose tables are created and dropped, and its client.
#[derive(Debug)]
struct Tables {
    server: Server,
    client: Client,
    /// The latencies of CREATE TABLE, one histogram for each measured round.
    creates: Vec<Timings>,
    /// The latencies of DROP TABLE, one histogram for each measured round.
    drops: Vec<Timings>,
}

impl Tables {
    /// Starts the server `binary` over a new database of this name, and creates the keyspace.
    fn start(setting: &Setting<'_>, binary: &Path, name: &str) -> Result<Self> {
        let server = Server::start(binary, &setting.folder.join(name), &[])?;
        let mut client = Client::connect(server.address, Compression::None)?;
        query(&mut client, CREATE_KEYSPACE)?;
        Ok(Self {
            server,
            client,
            creates: Vec::new(),
            drops: Vec::new(),
        })
    }

    /// Creates all tables, and then drops them. Keeps the latencies if the round is measured.
    fn create_and_drop(&mut self, setting: &Setting<'_>, is_measured: bool) -> Result<()> {
        let creates = self.each_table(setting, |table| {
            format!("CREATE TABLE made.t{table} (k int PRIMARY KEY, v text)")
        })?;
        let drops = self.each_table(setting, |table| format!("DROP TABLE made.t{table}"))?;
        if is_measured {
            self.creates.push(creates);
            self.drops.push(drops);
        }
        Ok(())
    }

    /// Executes, for the number of each table, the statement that `text` returns. Returns the
    /// latencies.
    fn each_table(
        &mut self,
        setting: &Setting<'_>,
        text: impl Fn(u64) -> String,
    ) -> Result<Timings> {
        let mut timings = Timings::new();
        for table in 0..setting.args.tables {
            setting.check_interrupt()?;
            let statement = text(table);
            let took = timed(|| query(&mut self.client, &statement).map(drop))?;
            timings.record(took);
        }
        Ok(timings)
    }

    /// Closes the connection, and ends the server.
    fn stop(self) -> Result<()> {
        let Self { server, client, .. } = self;
        drop(client);
        server.stop()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns a round of ten statements, each of which took `ms` milliseconds.
    fn round(ms: u64) -> Timings {
        let mut timings = Timings::new();
        for _ in 0..10 {
            timings.record(Duration::from_millis(ms));
        }
        timings
    }

    fn statement(p50_ratio: f64, high: f64) -> Statement {
        let estimate = |value, high| Estimate {
            value,
            low: value,
            high,
        };
        Statement {
            latencies: Latencies {
                p50_us: 1250.0,
                p99_us: 2500.0,
                ..Latencies::default()
            },
            compared: Some(Compared {
                peer: Latencies::default(),
                p50_ratio: estimate(p50_ratio, high),
                p50_ratio_of_peers: estimate(1.0, 1.0),
            }),
        }
    }

    #[test]
    fn medians_are_compared_with_those_of_both_servers_of_the_other_version() {
        let (ebb, peer, again) = ([round(6), round(6)], [round(2), round(2)], [round(4)]);
        let found = Statement::new(&ebb, Some([peer.as_slice(), again.as_slice()]));
        let compared = found.compared.as_ref().unwrap();
        let near = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 5e-3;
        // Two of the three rounds of the other version took 2 ms.
        assert!(near(compared.p50_ratio.value, 3.0), "{compared:?}");
        assert!(near(compared.p50_ratio_of_peers.value, 2.0), "{compared:?}");
        assert_eq!((found.latencies.count, compared.peer.count), (20, 30));
        assert!(near(found.latencies.p50_us, 6000.0), "{found:?}");
    }

    #[test]
    fn only_the_upper_end_of_create_table_has_a_bar() {
        let schema = |create, drop| Schema {
            tables: 200,
            rounds: 15,
            peer: Some(PathBuf::from("older/ebb")),
            create,
            drop,
        };
        let lines = schema(statement(1.1, 1.3), statement(1.5, 1.9)).lines();
        assert_eq!(lines[1], "  CREATE TABLE in ms: p50 1.25, p99 2.50");
        let bars = |lines: &[String], verdict: &str| {
            let ends = |line: &&String| line.ends_with(&format!(": {verdict}"));
            lines.iter().filter(ends).count()
        };
        assert_eq!((bars(&lines, "meets"), bars(&lines, "misses")), (1, 0));
        let lines = schema(statement(1.1, 1.31), statement(1.0, 1.0)).lines();
        assert_eq!((bars(&lines, "meets"), bars(&lines, "misses")), (0, 1));
        // Nothing to compare with.
        let alone = || Statement::new(&[round(1)], None);
        assert_eq!(schema(alone(), alone()).lines().len(), 3);
    }
}
