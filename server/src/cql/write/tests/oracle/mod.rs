//! Random statements through the executor, held against a plain model of Cassandra's rules.
//!
//! Timestamps are few, so that ties are frequent, and come in any order. In between the
//! clock goes on, tables are flushed and merged, snapshots are taken, and the server
//! starts again. After every few statements each partition is selected, from the table
//! and from the last snapshot.
//!
//! `EBB_SEED` replays one run, `EBB_STATEMENTS` says how long it is.

mod garbage;
mod generate;
mod model;

use std::sync::Arc;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Maintenance, ManualClock, Options};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use self::generate::{PARTITIONS, TABLE, statement};
use self::model::Model;
use crate::catalog::{Catalog, GracePeriods, with_cql_tables};
use crate::cql::executor::Executor;
use crate::cql::executor::harness::Server;
use crate::cql::read::Limits;
use crate::cql::system::{CLUSTER_NAME, LocalNode};

/// Statements of a run unless the environment says how many.
const STATEMENTS: usize = 1_500;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// A server over what the disk has. `change` is told the options for CQL tables.
fn open(
    disk: &MemDisk,
    clock: &ManualClock,
    change: impl FnOnce(Options, &GracePeriods) -> Options,
) -> Server {
    let options = Options {
        disk: Arc::new(disk.clone()),
        maintenance: Maintenance::Manual,
        clock: Arc::new(clock.clone()),
        ..Options::default()
    };
    let grace_periods = GracePeriods::default();
    let options = change(with_cql_tables(options, &grace_periods), &grace_periods);
    let db = Db::open("/db", options).unwrap();
    let catalog = Catalog::open(&db, &grace_periods, Arc::new(clock.clone())).unwrap();
    let node = LocalNode {
        address: "127.0.0.1:9042".parse().unwrap(),
        cluster_name: CLUSTER_NAME.to_string(),
    };
    let limits = Limits {
        empty_page: std::time::Duration::MAX,
        page_time: std::time::Duration::MAX,
        ..Limits::default()
    };
    Server {
        executor: Executor::new(Arc::new(catalog), node, limits),
        clock: clock.clone(),
        keyspace: Some("ks".to_owned()),
    }
}

/// What a snapshot must show for ever.
struct Taken {
    name: String,
    shown: Vec<String>,
}

#[test]
fn random_statements_leave_what_cassandras_rules_say() {
    let seed = number("EBB_SEED").unwrap_or_else(rand::random);
    let statements = number("EBB_STATEMENTS").map_or(STATEMENTS, |n| n as usize);
    println!("EBB_SEED={seed} EBB_STATEMENTS={statements}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (disk, clock) = (MemDisk::new(), ManualClock::at_ms(1_000_000));
    let open = || open(&disk, &clock, |options, _| options);
    let mut server = open();
    server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    server.run(TABLE);
    let (mut model, mut now_s) = (Model::default(), 1_000);
    let mut taken: Option<Taken> = None;
    let mut history: Vec<String> = Vec::new();
    for at in 0..statements {
        match rng.random_range(0..60) {
            0 => {
                let seconds = rng.random_range(1..6);
                clock.advance_ms(seconds * 1_000);
                now_s += seconds as i64;
                history.push(format!("-- second {now_s}"));
            }
            1 => server.executor.catalog().db().flush().unwrap(),
            2 if rng.random_bool(0.3) => server.executor.catalog().db().compact().unwrap(),
            3 if rng.random_bool(0.2) => {
                drop(server);
                server = open();
                history.push("-- restart".to_owned());
            }
            4 if rng.random_bool(0.5) => {
                if let Some(old) = taken.take() {
                    server.run(&format!("DROP SNAPSHOT {} ON KEYSPACE ks", old.name));
                }
                let name = format!("s{at}");
                server.run(&format!("CREATE SNAPSHOT {name} ON KEYSPACE ks"));
                let shown = PARTITIONS.map(|k| model.show(k, now_s)).collect();
                taken = Some(Taken { name, shown });
                history.push(format!("-- snapshot s{at}"));
            }
            // A new life for the model, which looks at all that was ever written.
            5 if at % 7 == 0 => {
                server.run("TRUNCATE t");
                model = Model::default();
                history.clear();
            }
            _ => {}
        }
        let text = statement(&mut rng, now_s, 1..40, &mut model);
        history.push(text.clone());
        server.run(&text);
        if at % 4 != 0 && at + 1 < statements {
            continue;
        }
        for (place, k) in PARTITIONS.enumerate() {
            let from = |using: &str| {
                format!(
                    "SELECT k, c, d, s, v, w, m, e, writetime(v), ttl(v) FROM t{using} WHERE k = {k}"
                )
            };
            assert_eq!(
                server.rows(&from("")),
                model.show(k, now_s),
                "EBB_SEED={seed}, partition {k} at second {now_s}, after:\n{}",
                history.join(";\n")
            );
            if let Some(taken) = taken.as_ref().filter(|_| at % 16 == 0) {
                let using = format!(" USING SNAPSHOT {}", taken.name);
                assert_eq!(
                    server.rows(&from(&using)),
                    taken.shown[place],
                    "EBB_SEED={seed}, partition {k} of {}, after:\n{}",
                    taken.name,
                    history.join(";\n")
                );
            }
        }
    }
}
