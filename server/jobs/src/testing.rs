//! Runs of an application over a few lines, and databases in memory, for tests.

use std::path::Path;
use std::sync::Arc;

use ebb_model::schema::{KeyspaceSchema, OptionValue, Schema, TableDefinition, TableSchema};
use ebb_scheduler::runtime::{
    Input, JobReport, JobSpec, Outcome, Output, Runtime, RuntimeOptions, Throttles, VecInput,
    VecOutput,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Maintenance, ManualClock, Options, Table};
use ebb_tables::{Catalog, GracePeriods, with_cql_tables};

/// Returns the options of a runtime in tests, without the idle class and without speculation.
/// Threads of the idle class make hardly any progress beside a build, and speculation would start
/// second attempts at the tasks that are slow for that reason.
pub(super) fn options(cores: u32) -> RuntimeOptions {
    RuntimeOptions {
        throttles: Throttles {
            idle_class: false,
            ..Throttles::default()
        },
        speculation: false,
        ..RuntimeOptions::new(cores)
    }
}

/// Returns the number of files in `directory`, at any depth, that this process has open.
pub(super) fn open_files_in(directory: &Path) -> usize {
    let directory = directory.canonicalize().unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|path| path.starts_with(&directory)).count()
}

/// Runs a job over `lines`, in `splits` splits, and returns its rows. The key of a line is
/// its number, in four digits.
///
/// Tasks have little memory, so that runs are spilled and merged.
pub(super) fn run<S: AsRef<str>>(
    lines: &[S],
    splits: usize,
    spec: impl FnOnce(Arc<dyn Input>, Arc<dyn Output>) -> JobSpec,
) -> Vec<(String, String)> {
    let output = VecOutput::new();
    let report = report(input(lines, splits), output.clone(), spec);
    assert_eq!(report.outcome, Outcome::Succeeded);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows = output.rows().unwrap().into_iter();
    rows.map(|(key, value)| (text(key), text(value))).collect()
}

/// Runs a job like [`run`] and returns the values of its rows.
pub(super) fn run_values<S: AsRef<str>>(
    lines: &[S],
    splits: usize,
    spec: impl FnOnce(Arc<dyn Input>, Arc<dyn Output>) -> JobSpec,
) -> Vec<String> {
    let rows = run(lines, splits, spec).into_iter();
    rows.map(|(_, value)| value).collect()
}

/// Returns the lines as records in `splits` splits, with the keys of [`run`].
pub(super) fn input<S: AsRef<str>>(lines: &[S], splits: usize) -> Arc<dyn Input> {
    let record = |(number, line): (usize, &S)| {
        let line = line.as_ref().as_bytes().to_vec();
        (format!("{number:04}").into_bytes(), line)
    };
    let records = lines.iter().enumerate().map(record).collect();
    Arc::new(VecInput::new(records, splits))
}

/// Runs a job from `input` to `output` and returns its report.
pub(super) fn report(
    input: Arc<dyn Input>,
    output: VecOutput,
    spec: impl FnOnce(Arc<dyn Input>, Arc<dyn Output>) -> JobSpec,
) -> JobReport {
    let runtime = Runtime::start(RuntimeOptions {
        task_memory_bytes: 64 << 10,
        ..options(2)
    });
    let job = spec(input, Arc::new(output));
    runtime.unwrap().submit(job).unwrap().wait()
}

/// Creates the table `app.t` of `definition` in a new database in memory. The table is in the catalog and has no
/// grace period, so that merges drop deletions at once.
pub(super) fn purged_at_once(
    clock: &ManualClock,
    mut definition: TableDefinition,
) -> (Db, Table, Arc<TableSchema>) {
    let grace_periods = GracePeriods::default();
    let options = Options {
        clock: Arc::new(clock.clone()),
        disk: Arc::new(MemDisk::new()),
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    let db = Db::open("/db", with_cql_tables(options, &grace_periods)).unwrap();
    let catalog = Catalog::open(&db, &grace_periods, Arc::new(clock.clone())).unwrap();
    let replication = [("class", "SimpleStrategy"), ("replication_factor", "1")];
    let replication = replication.map(|(name, value)| (name.to_string(), value.to_string()));
    let keyspace = KeyspaceSchema::new("app", replication.into(), true).unwrap();
    let create = |schema: &Schema| schema.create_keyspace(keyspace).map(Some);
    assert!(catalog.change(create).unwrap().unwrap());
    let none = OptionValue::Text("0".to_string());
    definition.options.set("gc_grace_seconds", none).unwrap();
    let create = |schema: &Schema| schema.create_table(definition).map(Some);
    assert!(catalog.change(create).unwrap().unwrap());
    let table = catalog.state().table("app", "t").unwrap().clone();
    (db, table.rows().clone(), table.schema().clone())
}
