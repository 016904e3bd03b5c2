//! The server, without sockets: its executor over a database in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::{
    Answer, BatchKind, Compression, ErrorResponse, Frame, Head, Opcode, OpenFrame, QueryParameters,
    Response, Value, ValuesBuf, Version,
};
use ebb_cql_server::call::{Call, Interrupt, RequestAnalysis, SchemaChanges, Service};
use ebb_cql_server::executor::Executor;
use ebb_cql_server::prepared::Prepared;
use ebb_cql_server::read::Limits;
use ebb_cql_server::system::{CLUSTER_NAME, LocalNode};
use ebb_model::key::{SCHEMA_KEY, is_index_entry};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, Durability, Maintenance, ManualClock, Options, Pick,
    TableShape,
};
use ebb_tables::{Catalog, CqlRow, GracePeriods, with_cql_tables};
use ebb_test_support::wait;

use super::fault::{Fault, Faulty};
use super::text::Text;

/// The number of prepared statements that the cache holds. When it is full, the next one empties
/// it.
const PREPARED_MAX: usize = 500;

pub struct Server {
    disk: MemDisk,
    clock: ManualClock,
    merges: Merges,
    executor: Option<Executor>,
    prepared: HashMap<String, Arc<Prepared>>,
}

/// The cells of a page, and the paging state of the next one.
pub struct Page {
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    pub state: Option<Bytes>,
}

/// The way in which a server merges the runs of its tables.
#[derive(Debug, Clone, Copy)]
pub struct Merges {
    /// The seed for choosing the runs of each merge; without a seed, a merge is of all runs.
    pub seed: Option<u64>,
    /// The mistake of the merge operator, if there is one.
    pub fault: Option<Fault>,
}

/// Merges adjacent runs that a hash of the runs' ids selects, so that over time any deletion is
/// merged with any row that it covers. The number is the seed of the hash.
#[derive(Debug)]
struct Neighbours(u64);

impl CompactionPicker for Neighbours {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let runs = table.runs;
        let mut sum = runs.iter().fold(self.0, |sum, run| {
            (sum ^ run.id.0)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        });
        let mut below = |end: usize| {
            sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ end as u64;
            (sum >> 11) as usize % end
        };
        if runs.is_empty() || below(3) == 0 {
            return None;
        }
        let newest = below(runs.len());
        let oldest = newest + below(runs.len() - newest);
        Some(Pick::merge(&runs[newest..=oldest]))
    }
}

/// Merges all runs of a table into one.
#[derive(Debug)]
struct AllRuns;

impl CompactionPicker for AllRuns {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_free = !table.runs.iter().any(|run| run.is_busy);
        (is_free && !table.runs.is_empty()).then(|| Pick::merge(table.runs))
    }
}

impl Server {
    pub fn new(now_s: i64, seed: u64, fault: Option<Fault>) -> Self {
        let mut server = Self {
            disk: MemDisk::new(),
            clock: ManualClock::at_ms(now_s as u64 * 1000),
            merges: Merges {
                seed: Some(seed),
                fault,
            },
            executor: None,
            prepared: HashMap::new(),
        };
        server.restart();
        server
    }

    /// Stops the server, and starts another one over the same disk.
    pub fn restart(&mut self) {
        self.prepared.clear();
        self.executor = None;
        let opened = open(&self.disk, &self.clock, self.merges, Durability::default());
        self.executor = Some(opened.expect("the database opens"));
    }

    /// Makes every merge after the next restart one of all runs of a table.
    pub fn merge_all_runs_after_restart(&mut self) {
        self.merges.seed = None;
    }

    fn executor(&self) -> &Executor {
        self.executor.as_ref().expect("it was started")
    }

    /// Waits until no index is being built.
    pub fn wait_for_indexes(&self) {
        let catalog = self.executor().catalog();
        wait::until("the indexes to be built", || {
            let state = catalog.state();
            let table = state.table("ks", "t").expect("the table is there");
            let mut indexes = table.schema().indexes().iter();
            !indexes.any(|index| index.is_building)
        });
    }

    pub fn db(&self) -> &Db {
        self.executor().catalog().db()
    }

    /// Returns the keys that the table stores, each with its operand of the merge operator: an encoded
    /// row or header.
    pub fn operands(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let state = self.executor().catalog().state();
        let table = state.table("ks", "t").expect("the table is there");
        let all = table.rows().range::<&[u8], _>(..);
        let all = all.map(|entry| entry.expect("it is read"));
        let all = all.map(|(key, value)| (key.to_vec(), value.to_vec()));
        all.filter(|(key, _)| key != SCHEMA_KEY && !is_index_entry(key))
            .collect()
    }

    pub fn advance(&mut self, seconds: i64) {
        self.clock.advance_ms(seconds as u64 * 1000);
    }

    /// Returns the prepared statement with this text, from the cache if possible. A cached
    /// statement is not prepared again, even if the schema has changed since.
    fn prepare(&mut self, text: &str) -> Result<Arc<Prepared>, ErrorResponse> {
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(prepared.clone());
        }
        let prepared =
            Arc::new((self.executor()).prepare(None, text, &mut RequestAnalysis::default())?);
        if self.prepared.len() == PREPARED_MAX {
            self.prepared.clear();
        }
        self.prepared.insert(text.to_owned(), prepared.clone());
        Ok(prepared)
    }

    pub fn run(
        &mut self,
        text: &Text,
        timestamp_us: Option<i64>,
    ) -> Result<Response, ErrorResponse> {
        let values = bound(text);
        let parameters = QueryParameters {
            values: values.as_values(),
            timestamp_us,
            ..QueryParameters::default()
        };
        self.execute(&text.text, parameters)
    }

    /// Executes a statement without bound values.
    pub fn run_text(&mut self, text: &str) -> Result<Response, ErrorResponse> {
        self.execute(text, QueryParameters::default())
    }

    fn execute(
        &mut self,
        text: &str,
        parameters: QueryParameters<'_>,
    ) -> Result<Response, ErrorResponse> {
        let prepared = self.prepare(text)?;
        answer(parameters, |call, out| {
            self.executor().execute(&prepared, call, out).map(drop)
        })
    }

    /// Executes statements as one BATCH message of the protocol, an unlogged batch.
    pub fn batch(
        &mut self,
        texts: &[Text],
        timestamp_us: Option<i64>,
    ) -> Result<Response, ErrorResponse> {
        let values: Vec<ValuesBuf> = texts.iter().map(bound).collect();
        let mut statements = Vec::new();
        for (text, values) in texts.iter().zip(&values) {
            statements.push((self.prepare(&text.text)?, values.as_values()));
        }
        let parameters = QueryParameters {
            timestamp_us,
            ..QueryParameters::default()
        };
        let executor = self.executor();
        answer(parameters, |call, out| {
            (executor.batch(BatchKind::Unlogged, &statements, call, out)).map(drop)
        })
    }

    /// Reads the page of a SELECT that follows `state`; without `state`, the first page.
    pub fn page(
        &mut self,
        text: &Text,
        size: Option<usize>,
        state: Option<&[u8]>,
    ) -> Result<Page, ErrorResponse> {
        let values = bound(text);
        let parameters = QueryParameters {
            values: values.as_values(),
            page_size_rows: size.map(|size| size as u32),
            paging_state: state,
            ..QueryParameters::default()
        };
        match self.execute(&text.text, parameters)? {
            Response::Rows(rows) => {
                let columns = rows
                    .columns
                    .as_ref()
                    .map_or(1, |columns| columns.iter().count());
                let cells: Vec<_> = rows.cells().map(|cell| cell.map(<[u8]>::to_vec)).collect();
                Ok(Page {
                    rows: cells.chunks(columns.max(1)).map(<[_]>::to_vec).collect(),
                    state: rows.paging_state,
                })
            }
            other => panic!("{} gives {other:?}", text.text),
        }
    }
}

/// Opens the database on a disk, and returns an executor over it.
///
/// # Errors
/// If the database or its catalog does not open.
pub fn open(
    disk: &MemDisk,
    clock: &ManualClock,
    merges: Merges,
    durability: Durability,
) -> Result<Executor, String> {
    let grace_periods = GracePeriods::default();
    let picker: Arc<dyn CompactionPicker> = match merges.seed {
        Some(seed) => Arc::new(Neighbours(seed)),
        None => Arc::new(AllRuns),
    };
    let mut options = Options {
        disk: Arc::new(disk.clone()),
        durability,
        maintenance: Maintenance::Manual,
        clock: Arc::new(clock.clone()),
        memtable_bytes: 16 << 10,
        file_bytes: 4 << 10,
        wal_segment_bytes: 32 << 10,
        compaction: CompactionOptions {
            picker,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    options = with_cql_tables(options, &grace_periods);
    if let Some(fault) = merges.fault {
        let operator = Faulty(CqlRow::new(&grace_periods), fault);
        options.merge_operators = options.merge_operators.with(operator);
    }
    let db = Db::open("/db", options).map_err(|error| format!("the database: {error}"))?;
    let catalog = Catalog::open(&db, &grace_periods, Arc::new(clock.clone()));
    let catalog = catalog.map_err(|error| format!("the catalog: {error}"))?;
    catalog.set_listed_snapshots(u32::MAX);
    let node = LocalNode {
        address: "127.0.0.1:9042".parse().expect("an address"),
        cluster_name: CLUSTER_NAME.to_owned(),
    };
    // Pages must not depend on the load of the machine.
    let limits = Limits {
        empty_page: Duration::MAX,
        page_time: Duration::MAX,
        ..Limits::default()
    };
    let catalog = Arc::new(catalog);
    Ok(Executor::at_normal_priority(catalog, node, limits))
}

fn bound(text: &Text) -> ValuesBuf {
    let mut values = ValuesBuf::new();
    for value in &text.bound {
        values.push(value.as_deref().map_or(Value::Null, Value::Bytes));
    }
    values
}

/// Calls `execute` for a request with these parameters, and decodes the response that it writes.
pub fn answer(
    parameters: QueryParameters<'_>,
    execute: impl FnOnce(&Call<'_>, &mut BytesMut) -> Result<(), ErrorResponse>,
) -> Result<Response, ErrorResponse> {
    let never = Arc::new(AtomicBool::new(false));
    let now = Instant::now(); // clock: an interrupt has the instant at which its time begins
    let interrupt = Interrupt::new(now, Duration::from_secs(3600), never);
    let call = Call {
        keyspace: None,
        version: Version::V4,
        parameters,
        interrupt: &interrupt,
        user: &ebb_cql_server::access::User::anyone(),
        changes: &SchemaChanges::default(),
        memory: None,
    };
    let mut out = BytesMut::new();
    let frame = OpenFrame::response(&mut out, Version::V4, 1, Opcode::Result, &Head::default());
    execute(&call, &mut out)?;
    frame.finish(&mut out, Compression::None).unwrap();
    let frame = Frame {
        version: Version::V4,
        flags: out[1],
        stream: 1,
        opcode: out[4],
        body: out.freeze().slice(9..),
    };
    Ok(Answer::decode(&frame).expect("a response").response)
}
