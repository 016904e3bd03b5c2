//! A catalog in memory, on which tests execute statements about the schema.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::{ErrorResponse, SchemaChange};
use ebb_cql::syntax::ast::Statement;
use ebb_cql::syntax::parse;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Maintenance, ManualClock, Options};
use ebb_tables::{Catalog, CatalogState, GracePeriods, with_cql_tables};

use super::call::{Interrupt, Outcome, SchemaChanges};
use super::listing::Listing;
use super::schema_statements::{self, SchemaContext};
use super::system::{CLUSTER_NAME, Facts, JobList, LocalNode, Lookup, SystemTables};
use super::{describe, snapshots};

/// The time of the clock at the start of a test, in milliseconds since 1970.
pub(super) const BEGIN_MS: u64 = 1_700_000_000_000;

/// Opens the catalog of a database on a disk in memory, which flushes and merges only when the
/// caller requests it. `change` may change the options for CQL tables.
pub(super) fn open(
    disk: &MemDisk,
    clock: &ManualClock,
    change: impl FnOnce(Options) -> Options,
) -> Arc<Catalog> {
    let options = Options {
        disk: Arc::new(disk.clone()),
        maintenance: Maintenance::Manual,
        clock: Arc::new(clock.clone()),
        ..Options::default()
    };
    let grace_periods = GracePeriods::default();
    let options = change(with_cql_tables(options, &grace_periods));
    let db = Db::open("/db", options).unwrap();
    let catalog = Catalog::open(&db, &grace_periods, Arc::new(clock.clone()));
    Arc::new(catalog.unwrap())
}

/// Returns an interrupt whose deadline no test reaches.
pub(super) fn never() -> Interrupt {
    let now = Instant::now(); // clock: an interrupt has the instant at which its time begins
    Interrupt::new(now, Duration::from_secs(86_400), Arc::default())
}

/// Returns the address and name of the node.
pub(super) fn local_node() -> LocalNode {
    LocalNode {
        address: "127.0.0.1:9042".parse().unwrap(),
        cluster_name: CLUSTER_NAME.to_string(),
    }
}

/// A catalog, with the keyspace that is in use.
pub(super) struct Session {
    pub(super) catalog: Arc<Catalog>,
    pub(super) system: Arc<SystemTables>,
    pub(super) clock: ManualClock,
    pub(super) keyspace: Option<String>,
    pub(super) jobs: Option<Arc<dyn JobList>>,
    /// The schema changes of the last statement.
    changes: SchemaChanges,
}

impl Session {
    pub(super) fn new() -> Self {
        Self::on(&MemDisk::new())
    }

    pub(super) fn on(disk: &MemDisk) -> Self {
        let clock = ManualClock::at_ms(BEGIN_MS);
        let catalog = open(disk, &clock, |options| options);
        Self {
            catalog,
            system: Arc::default(),
            clock,
            keyspace: None,
            jobs: None,
            changes: SchemaChanges::default(),
        }
    }

    /// Creates a session with a keyspace `app` in use that contains a table `t`.
    pub(super) fn with_table() -> Self {
        let mut session = Self::new();
        session.run("CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        session.run("USE app");
        session.run("CREATE TABLE t (k int, c text, s blob STATIC, v int, PRIMARY KEY (k, c))");
        session
    }

    pub(super) fn state(&self) -> Arc<CatalogState> {
        self.catalog.state()
    }

    pub(super) fn facts(&self) -> Facts {
        Facts {
            node: Arc::new(local_node()),
            catalog: self.catalog.clone(),
            state: self.state(),
            system: self.system.clone(),
            activity: Arc::default(),
            role: None,
            queries_of: None,
            index_failures: Arc::default(),
            jobs: self.jobs.clone(),
        }
    }

    pub(super) fn context(&self) -> SchemaContext<'_> {
        SchemaContext {
            catalog: &self.catalog,
            system: &self.system,
            keyspace: self.keyspace.as_deref(),
            changes: &self.changes,
            check: &|_| Ok(()),
            grant: &|_| Ok(()),
        }
    }

    fn try_outcome(&mut self, text: &str) -> Result<Outcome, ErrorResponse> {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.changes = SchemaChanges::default();
        let mut out = BytesMut::new();
        let (context, statement) = (self.context(), &parsed.statement);
        let outcome = match statement {
            Statement::CreateSnapshot(_)
            | Statement::DropSnapshot(_)
            | Statement::ListSnapshots(_) => {
                snapshots::execute(&context, statement, |_| Ok(()), &mut out)
            }
            _ => schema_statements::execute(&context, statement, &mut out),
        }?;
        assert!(!out.is_empty(), "every answer has a body");
        if let Some(keyspace) = &outcome.keyspace {
            self.keyspace = Some(keyspace.clone());
        }
        Ok(outcome)
    }

    /// Executes a statement, which must succeed. Returns the first change of the schema that it
    /// makes; `None` if it makes none.
    #[track_caller]
    pub(super) fn run(&mut self, text: &str) -> Option<SchemaChange> {
        match self.try_outcome(text) {
            Ok(_) => self.changes.take().into_iter().next(),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// Executes a statement, which must succeed, and returns all its changes of the schema.
    pub(super) fn changes(&mut self, text: &str) -> Vec<SchemaChange> {
        self.try_outcome(text).unwrap();
        self.changes.take()
    }

    pub(super) fn warnings(&mut self, text: &str) -> Vec<String> {
        self.try_outcome(text).unwrap().warnings
    }

    /// Returns the code and the message of a statement's error, and checks that the statement
    /// changed nothing.
    #[track_caller]
    pub(super) fn refused(&mut self, text: &str) -> (i32, String) {
        let before = self.state().version();
        match self.try_outcome(text) {
            Ok(_) => panic!("{text} is not refused"),
            Err(error) => {
                assert_eq!(self.state().version(), before, "{text} changed something");
                (error.kind.code(), error.message)
            }
        }
    }

    pub(super) fn try_describe(&self, text: &str) -> Result<Listing, ErrorResponse> {
        let Statement::Describe(statement) = parse(text).unwrap().statement else {
            panic!("{text}");
        };
        describe::describe(&self.facts(), self.keyspace.as_deref(), &statement)
    }

    /// Returns the rows of a virtual table.
    pub(super) fn rows(&self, keyspace: &str, table: &str) -> Vec<Vec<Option<Bytes>>> {
        let table = self.system.table(keyspace, table).unwrap();
        let rows = table
            .rows(&self.facts(), &Lookup::default(), usize::MAX)
            .unwrap();
        rows.into_iter().map(|row| row.cells).collect()
    }
}
