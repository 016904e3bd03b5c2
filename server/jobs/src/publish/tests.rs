//! Publications of databases in memory, read back as other engines read them.

mod changes;
mod continued;
mod keep;
mod kills;
mod large_table;
mod left_out;
mod owners;
mod rows;
mod written;

use std::sync::Arc;

use ebb_model::schema::{TableDefinition, TableSchema};
use ebb_model::types::{CqlType, UserType};
use ebb_publish::commit::PublishedTable;
use ebb_publish::iceberg::metadata::TableMetadata;
use ebb_publish::source::Source;
use ebb_publish::target::Target;
use ebb_scheduler::runtime::{
    Emit, JobSpec, Outcome, OutputWriter, Runtime, SpillSpace, Split, TaskError,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Keyspace, Maintenance, ManualClock, Options, Table, TableOptions};
use ebb_tables::write::WriteTimes;
use ebb_tables::{CQL_ROW, GracePeriods, LazyCatalog, with_cql_tables};

use self::written::Written;
use super::*;
use crate::SpillPlace;
use crate::history::CommitRecord;
use crate::launch::{OpenJob, Site, permit_all};
use crate::request::{
    ApplicationRequest, InputRequest, JobRequest, OutputPlace, PublishTarget, TableInput,
};
use crate::testing::options;

/// The time at which the clock of a test starts, in seconds since 1970.
const NOW_S: i64 = 1_700_000_000;

/// A column: its name, its type, and whether it is static.
type ColumnText = (&'static str, &'static str, bool);

/// The columns of a table, one of which is static.
const WITH_STATICS: [ColumnText; 4] = [
    ("k", "int", false),
    ("c", "int", false),
    ("s", "text", true),
    ("b", "text", false),
];

/// The columns of a table of numbers.
const NUMBERS: [ColumnText; 2] = [("k", "int", false), ("n", "int", false)];

/// A column, and its value as bytes.
type Value<'v> = (&'v str, Vec<u8>);

struct Store {
    db: Db,
    keyspace: Keyspace,
    clock: ManualClock,
    dir: tempfile::TempDir,
}

fn place() -> Arc<UserType> {
    let fields = [
        ("street".into(), CqlType::Text),
        ("number".into(), CqlType::Int),
    ];
    Arc::new(UserType::new("app", "place", fields).unwrap())
}

fn parse(ty: &str) -> CqlType {
    CqlType::parse(ty, &|name| (name == "place").then(place)).unwrap()
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn literal(value: Option<&[u8]>, ty: &CqlType) -> String {
    value.map_or("null".to_owned(), |value| ty.literal(value))
}

/// Returns the definition of a table. The first column is the partition key; `c`, if there is such
/// a column, is the clustering column.
fn definition(name: &str, columns: &[ColumnText]) -> TableDefinition {
    let partition_key = [columns[0].0];
    let clustering = columns.iter().map(|column| column.0);
    let clustering: Vec<_> = clustering.filter(|name| *name == "c").collect();
    let of_cql = (columns.iter()).map(|&(name, ty, is_static)| (name, parse(ty), is_static));
    let of_cql: Vec<_> = of_cql.collect();
    TableDefinition::new(("app", name), &of_cql, &partition_key, &clustering)
}

impl Store {
    fn new() -> Self {
        Self::on(&MemDisk::new())
    }

    /// Creates a store whose database is on `disk`.
    fn on(disk: &MemDisk) -> Self {
        let clock = ManualClock::at_ms(NOW_S as u64 * 1000);
        let options = Options {
            clock: Arc::new(clock.clone()),
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let options = with_cql_tables(options, &GracePeriods::default());
        let db = Db::open("/db", options).unwrap();
        Self {
            keyspace: db.keyspace("app").unwrap(),
            db,
            clock,
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates the table of this [`definition`].
    fn create(&self, name: &str, columns: &[ColumnText]) -> Written {
        let schema = TableSchema::create(definition(name, columns));
        let options = TableOptions {
            merge_operator: Some(CQL_ROW.to_string()),
            ..TableOptions::default()
        };
        let table = self.keyspace.table(name, options).unwrap();
        let written = Written {
            table,
            schema: schema.unwrap(),
        };
        written.store_schema();
        written
    }

    fn request(&self, tables: &[&str], snapshot: &str, options: PublishRequest) -> JobRequest {
        let input = |table: &&str| {
            InputRequest::Table(TableInput {
                snapshot: Some(snapshot.to_owned()),
                ..TableInput::new(format!("app.{table}").parse().unwrap())
            })
        };
        let lake = PublishTarget::Folder(self.dir.path().join("lake"));
        let output = OutputPlace::Iceberg(lake).into();
        let application = ApplicationRequest::Publish(options);
        JobRequest::new(application, tables.iter().map(input).collect(), output, "/")
    }

    fn spec(&self, request: &JobRequest) -> Result<JobSpec, JobError> {
        Ok(self.open(request)?.0)
    }

    /// Opens the job of a publication. Also returns the record that receives the lines of its report.
    fn open(&self, request: &JobRequest) -> Result<(JobSpec, CommitRecord), JobError> {
        self.open_with(request, SpillSpace::default())
    }

    /// Opens the job of a publication whose files take their disk space from `space`.
    fn open_with(
        &self,
        request: &JobRequest,
        space: SpillSpace,
    ) -> Result<(JobSpec, CommitRecord), JobError> {
        let site = Site {
            db: Some(self.db.clone()),
            catalog: LazyCatalog::default(),
            spills: SpillPlace::new(self.dir.path().join("spills"), space),
            cores: 2,
            task_memory_bytes: 1 << 20,
        };
        let mut job = OpenJob::open(request, &[], &site, &permit_all)?;
        match job.work.take() {
            Some(Work::Job(spec)) => Ok((*spec, job.commits.clone())),
            _ => panic!("a publication is one job"),
        }
    }

    /// Opens the job that publishes tables of a snapshot with the default options.
    fn start(&self, tables: &[&str], snapshot: &str) -> JobSpec {
        let request = self.request(tables, snapshot, PublishRequest::default());
        self.spec(&request).unwrap()
    }

    /// Publishes tables of a snapshot with the default options, by the runtime.
    fn publish_successfully(&self, tables: &[&str], snapshot: &str) {
        let outcome = self.publish(tables, snapshot, PublishRequest::default());
        assert_eq!(outcome, Outcome::Succeeded);
    }

    /// Publishes tables of a snapshot with the options `of`, by the runtime. Returns the outcome of the
    /// job.
    fn publish(&self, tables: &[&str], snapshot: &str, of: PublishRequest) -> Outcome {
        let spec = self.spec(&self.request(tables, snapshot, of)).unwrap();
        let runtime = Runtime::start(options(2)).unwrap();
        runtime.submit(spec).unwrap().wait().outcome
    }

    /// Publishes tables of a snapshot without a runtime. Returns the lines of the job's report, or the error of
    /// the job.
    fn try_publish(
        &self,
        tables: &[&str],
        snapshot: &str,
        of: PublishRequest,
    ) -> Result<Vec<String>, String> {
        let opened = self.open(&self.request(tables, snapshot, of));
        let (spec, noted) = opened.map_err(|error| error.to_string())?;
        let ended = run_tasks(&spec).and_then(|()| spec.output.commit());
        ended.map_err(|error| error.to_string())?;
        Ok(noted.notes())
    }

    fn target(&self) -> Target {
        Target::folder(&self.dir.path().join("lake")).unwrap()
    }

    fn metadata(&self, table: &str) -> TableMetadata {
        newest_metadata(&self.target(), table).unwrap()
    }

    /// Returns the rows of the Iceberg snapshot with the tag `tag`, sorted: the cells as CQL writes them,
    /// in the order of the columns.
    fn rows(&self, table: &str, tag: &str, written: &Written) -> Vec<String> {
        let folder = self.dir.path().join(format!("lake/app/{table}"));
        let source = Source::table(&folder, Some(tag)).unwrap();
        let column = |name: &String| {
            let ty = &written.schema.column(name).unwrap().ty;
            (name.clone(), ty.clone())
        };
        let columns: Vec<_> = source.columns().iter().map(column).collect();
        let mut rows = Vec::new();
        for file in source.files() {
            let mut found = source.rows(file, &columns).unwrap();
            while found.next_row().unwrap() {
                let cells = found.values().iter().zip(&columns);
                let cells = cells.map(|(value, (_, ty))| literal(value.as_deref(), ty));
                rows.push(cells.collect::<Vec<_>>().join(", "));
            }
        }
        rows.sort();
        rows
    }

    /// Reads the completion record of a snapshot.
    fn record(&self, snapshot: &str) -> serde_json::Value {
        let record = self.target().read(&format!("_ebb/app/{snapshot}.json"));
        serde_json::from_slice(&record.unwrap().unwrap()).unwrap()
    }

    /// Returns the names of ebb's own records in the target, without the indexes of data files.
    fn records(&self) -> Vec<String> {
        let mut names = self.target().list("_ebb").unwrap();
        names.retain(|name| !name.starts_with("_ebb/.index/"));
        names
    }

    /// Checks that a sweep of the table finds nothing to remove, such as a data file that belongs to no
    /// Iceberg snapshot.
    fn check_swept(&self, table: &str) {
        let swept = ebb_publish::commit::sweep(&self.target(), &format!("app/{table}"));
        assert_eq!(swept.unwrap(), 0);
    }
}

/// Returns the options of a publication that keeps older ones by the rule `rule`, such as `2` or `3,7d`.
fn keeping(rule: &str) -> PublishRequest {
    PublishRequest {
        keep: Some(rule.parse().unwrap()),
        ..PublishRequest::default()
    }
}

/// Reads the newest metadata of a table; `None` if there is none.
fn newest_metadata(target: &Target, table: &str) -> Option<TableMetadata> {
    let name = format!("app/{table}");
    let version = PublishedTable::open(target, &name).unwrap().version();
    let root = target.read(&format!("{name}/metadata/v{version}.metadata.json"));
    Some(TableMetadata::decode(&root.unwrap()?).unwrap())
}

/// Returns the write times at `s` seconds after [`NOW_S`]: one timestamp for all values of a write.
fn at(s: i64) -> WriteTimes {
    WriteTimes::at((NOW_S + s) * 1_000_000)
}

/// An emitter that passes the rows of a mapper to the writer of an output.
struct ToWriter<'w>(&'w mut dyn OutputWriter);

impl Emit for ToWriter<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.0.write(key, value)
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Runs a task as the runtime does.
fn run_task(spec: &JobSpec, split: &Split) -> Result<(), TaskError> {
    let mut writer = spec.output.open(split.index, 1)?;
    let read = spec.input.read(split, &mut |key, value| {
        spec.mapper.map(key, value, &mut ToWriter(&mut *writer))
    });
    read?;
    writer.finish()
}

/// Runs the tasks of a job up to the first error, without a runtime. So a test decides when the job
/// commits, and the tasks run one after the other, so that the calls of the target have an order.
fn run_tasks(spec: &JobSpec) -> Result<(), TaskError> {
    let splits = spec.input.splits()?;
    splits.iter().try_for_each(|split| run_task(spec, split))
}
