//! A server without sockets, on which tests execute statements.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::Compression;
use ebb_cql::protocol::{
    Answer, BatchKind, ErrorResponse, Frame, Head, Opcode, OpenFrame, QueryParameters, Response,
    Rows, SchemaChange, Value, Values, ValuesBuf, Version,
};
use ebb_model::key::PartitionKey;
use ebb_model::row::{Cell, HeaderBuilder, Lifetime, Marker, RowBuilder};
use ebb_model::schema::ColumnKind;
use ebb_model::types::{CqlType, DurationOption};
use ebb_storage::ManualClock;
use ebb_storage::simulation::MemDisk;
use ebb_tables::Catalog;

use super::Executor;
use crate::access::User;
use crate::call::{Call, Interrupt, Outcome, RequestAnalysis, SchemaChanges, Service};
use crate::functions::json;
use crate::prepared::Prepared;
use crate::read::Limits;
use crate::testing::{BEGIN_MS, local_node, never, open};

/// A server, and the state of a single connection.
pub(crate) struct Server {
    pub(crate) executor: Executor,
    pub(crate) clock: ManualClock,
    pub(crate) keyspace: Option<String>,
    /// The user of the connection.
    pub(crate) user: User,
    /// The conditions that end a request early, the same for all requests.
    pub(crate) interrupt: Interrupt,
    /// The schema changes of all calls so far, failed ones included.
    pub(crate) changes: Mutex<Vec<SchemaChange>>,
}

/// A page of rows as text; a null is `null`.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) columns: Vec<String>,
    pub(crate) state: Option<Bytes>,
}

impl Page {
    fn of(rows: Rows) -> Self {
        let columns = rows
            .columns
            .as_ref()
            .expect("the request does not skip the metadata");
        let types: Vec<Vec<u8>> = columns.iter().map(|c| c.type_option.to_vec()).collect();
        let cells: Vec<String> = (rows.cells().enumerate())
            .map(|(at, cell)| show(&types[at % types.len()], cell))
            .collect();
        Self {
            columns: columns
                .iter()
                .map(|column| column.name.to_owned())
                .collect(),
            rows: cells.chunks(types.len()).map(<[String]>::to_vec).collect(),
            state: rows.paging_state,
        }
    }

    /// Returns the rows as text: cells are separated by spaces, rows by ` | `.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(|row| row.join(" ")).collect();
        rows.join(" | ")
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::on(&MemDisk::new())
    }

    /// Creates a server over the contents of a disk.
    pub(crate) fn on(disk: &MemDisk) -> Self {
        let clock = ManualClock::at_ms(BEGIN_MS);
        let catalog = open(disk, &clock, |options| options);
        Self::over(catalog, clock, None)
    }

    /// Creates a server over an existing catalog.
    pub(crate) fn over(
        catalog: Arc<Catalog>,
        clock: ManualClock,
        keyspace: Option<String>,
    ) -> Self {
        // Pages must not depend on the load of the machine.
        let limits = Limits {
            empty_page: Duration::MAX,
            page_time: Duration::MAX,
            ..Limits::default()
        };
        Self {
            executor: Executor::at_normal_priority(catalog, local_node(), limits),
            clock,
            keyspace,
            user: User::anyone(),
            interrupt: never(),
            changes: Mutex::default(),
        }
    }

    /// Creates a server with the keyspace `ks` in use, and runs `statements`. In builds for tests,
    /// returns once all indexes are built.
    pub(crate) fn with(statements: &[&str]) -> Self {
        let mut server = Self::new();
        server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        server.run("USE ks");
        statements.iter().for_each(|text| server.run(text));
        #[cfg(test)]
        server.wait_until_all_built();
        server
    }

    pub(crate) fn prepare(&self, text: &str) -> Result<Prepared, ErrorResponse> {
        self.prepare_in(text, &mut RequestAnalysis::default())
    }

    /// Prepares one of the statements of the request that `analysis` is for.
    pub(crate) fn prepare_in(
        &self,
        text: &str,
        analysis: &mut RequestAnalysis,
    ) -> Result<Prepared, ErrorResponse> {
        let keyspace = self.keyspace.as_deref();
        self.executor.prepare(keyspace, text, analysis)
    }

    /// Executes a statement with these parameters.
    pub(crate) fn execute(
        &mut self,
        prepared: &Prepared,
        parameters: QueryParameters<'_>,
    ) -> Result<Response, ErrorResponse> {
        let (response, outcome) = self.answer(parameters, |call, out| {
            self.executor.execute(prepared, call, out)
        })?;
        if let Some(keyspace) = outcome.keyspace {
            self.keyspace = Some(keyspace);
        }
        Ok(response)
    }

    /// Executes a statement with these values of its markers.
    #[cfg(test)]
    pub(crate) fn bind(
        &mut self,
        prepared: &Prepared,
        values: &[Value<'_>],
    ) -> Result<Response, ErrorResponse> {
        let bound = ValuesBuf::from_iter(values.iter().copied());
        let parameters = QueryParameters {
            values: bound.as_values(),
            ..QueryParameters::default()
        };
        self.execute(prepared, parameters)
    }

    /// Executes a prepared statement, and returns whether the client has to prepare it again.
    pub(crate) fn is_outdated(&self, prepared: &Prepared, parameters: QueryParameters<'_>) -> bool {
        let answer = self.answer(parameters, |call, out| {
            self.executor.execute(prepared, call, out)
        });
        answer.unwrap().1.is_outdated
    }

    /// Executes a statement and returns its warnings.
    pub(crate) fn warnings_of(
        &self,
        text: &str,
        parameters: QueryParameters<'_>,
    ) -> Result<Vec<String>, ErrorResponse> {
        let prepared = self.prepare(text)?;
        let answer = self.answer(parameters, |call, out| {
            self.executor.execute(&prepared, call, out)
        });
        answer.map(|(_, outcome)| outcome.warnings)
    }

    /// Executes a batch of the protocol and returns its warnings.
    pub(crate) fn batch_warnings(
        &self,
        kind: BatchKind,
        statements: &[(Arc<Prepared>, Values<'_>)],
    ) -> Vec<String> {
        let answer = self.answer(QueryParameters::default(), |call, out| {
            self.executor.batch(kind, statements, call, out)
        });
        answer.unwrap().1.warnings
    }

    /// Executes a batch of the protocol.
    pub(crate) fn batch(
        &self,
        kind: BatchKind,
        statements: &[(Arc<Prepared>, Values<'_>)],
    ) -> Result<Response, ErrorResponse> {
        let answer = self.answer(QueryParameters::default(), |call, out| {
            self.executor.batch(kind, statements, call, out)
        });
        answer.map(|(response, _)| response)
    }

    /// Executes a call, and returns its decoded response.
    pub(crate) fn answer(
        &self,
        parameters: QueryParameters<'_>,
        execute: impl FnOnce(&Call<'_>, &mut BytesMut) -> Result<Outcome, ErrorResponse>,
    ) -> Result<(Response, Outcome), ErrorResponse> {
        let version = match parameters.result_metadata_id {
            None => Version::V4,
            Some(_) => Version::V5,
        };
        let changes = SchemaChanges::default();
        let call = Call {
            keyspace: self.keyspace.as_deref(),
            version,
            parameters,
            interrupt: &self.interrupt,
            user: &self.user,
            changes: &changes,
            memory: None,
        };
        let mut out = BytesMut::new();
        let frame = OpenFrame::response(&mut out, version, 1, Opcode::Result, &Head::default());
        let done = execute(&call, &mut out);
        self.changes.lock().unwrap().extend(changes.take());
        let outcome = done?;
        frame.finish(&mut out, Compression::None).unwrap();
        if outcome.is_outdated {
            return Ok((Response::Void, outcome));
        }
        let frame = Frame {
            version,
            flags: out[1],
            stream: 1,
            opcode: out[4],
            body: out.freeze().slice(9..),
        };
        Ok((Answer::decode(&frame).unwrap().response, outcome))
    }

    /// Executes a statement, which must succeed.
    #[track_caller]
    pub(crate) fn run(&mut self, text: &str) {
        let prepared = self.prepare(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let done = self.execute(&prepared, QueryParameters::default());
        done.unwrap_or_else(|e| panic!("{text}: {e}"));
    }

    /// Executes a statement, and returns its error message, if it fails.
    pub(crate) fn refusal(&mut self, text: &str) -> Option<String> {
        let done = self
            .prepare(text)
            .and_then(|prepared| self.execute(&prepared, QueryParameters::default()));
        done.err().map(|error| error.message)
    }

    /// Executes a statement, which must fail, and returns its error message.
    #[track_caller]
    pub(crate) fn refused(&mut self, text: &str) -> String {
        let refusal = self.refusal(text);
        refusal.unwrap_or_else(|| panic!("{text} is not refused"))
    }

    /// Waits until the indexes of all tables are built, since CREATE INDEX may return earlier.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn wait_until_all_built(&self) {
        ebb_test_support::wait::until("all indexes to be built", || {
            let state = self.executor.catalog().state();
            let mut tables = state.schema().keyspaces().flat_map(|of| of.tables());
            !tables.any(|table| table.indexes().iter().any(|index| index.is_building))
        });
    }

    /// Waits until the indexes of a table are built, since CREATE INDEX may return earlier.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn wait_until_built(&self, keyspace: &str, table: &str) {
        ebb_test_support::wait::until("the indexes to be built", || {
            let state = self.executor.catalog().state();
            let table = state.table(keyspace, table).unwrap();
            let mut indexes = table.schema().indexes().iter();
            !indexes.any(|index| index.is_building)
        });
    }

    /// Executes a statement, and returns one page of its rows. `state` is the paging state that the
    /// previous page returned; `None` for the first page.
    #[track_caller]
    pub(crate) fn page(
        &mut self,
        text: &str,
        values: &[Option<&[u8]>],
        page_size_rows: Option<u32>,
        state: Option<&[u8]>,
    ) -> Result<Page, ErrorResponse> {
        let prepared = self.prepare(text)?;
        let values = values.iter();
        let bound: ValuesBuf = values
            .map(|value| value.map_or(Value::Null, Value::Bytes))
            .collect();
        let parameters = QueryParameters {
            values: bound.as_values(),
            page_size_rows,
            paging_state: state,
            ..QueryParameters::default()
        };
        let Response::Rows(rows) = self.execute(&prepared, parameters)? else {
            panic!("{text} gives no rows");
        };
        Ok(Page::of(rows))
    }

    /// Executes the statements of a table of cases, and compares what they return: rows as
    /// [`Page::text`] shows them, `no rows`, `done` without a result, or the message of an error.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn check(&mut self, steps: &str) {
        for [text, expected] in ebb_test_support::cases::parse_cases(steps) {
            let done = self
                .prepare(text)
                .and_then(|prepared| self.execute(&prepared, QueryParameters::default()));
            let returned = match done {
                Ok(Response::Rows(rows)) if rows.is_empty() => "no rows".to_owned(),
                Ok(Response::Rows(rows)) => Page::of(rows).text(),
                Ok(_) => "done".to_owned(),
                Err(error) => error.message,
            };
            assert_eq!(returned, expected, "{text}");
        }
    }

    /// Limits the rows of a statement's result to `bytes` bytes. Replaces the executor: its other
    /// settings are lost, and pages no longer end because of their reading time.
    #[cfg(test)]
    pub(crate) fn limit_results(&mut self, bytes: usize) {
        self.replace_executor(Limits {
            empty_page: Duration::MAX,
            page_time: Duration::MAX,
            result_bytes: bytes,
            ..Limits::default()
        });
    }

    /// Makes each page end when the read first checks how long the page has taken.
    #[cfg(test)]
    pub(crate) fn end_pages_at_each_look(&mut self) {
        self.replace_executor(Limits {
            empty_page: Duration::ZERO,
            page_time: Duration::ZERO,
            ..Limits::default()
        });
    }

    #[cfg(test)]
    fn replace_executor(&mut self, limits: Limits) {
        let catalog = self.executor.catalog().clone();
        self.executor = Executor::at_normal_priority(catalog, local_node(), limits);
    }

    /// Reads the result of a statement in pages to its end. Returns the rows and the number of pages.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn read_in_pages(
        &mut self,
        text: &str,
        page_size_rows: u32,
    ) -> (Vec<Vec<String>>, usize) {
        let (mut rows, mut pages, mut state) = (Vec::new(), 0, None::<Bytes>);
        loop {
            let page = self.page(text, &[], Some(page_size_rows), state.as_deref());
            let page = page.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(page.rows.len() <= page_size_rows as usize, "{text}");
            rows.extend(page.rows);
            pages += 1;
            state = page.state;
            if state.is_none() {
                return (rows, pages);
            }
            assert!(pages < 10_000, "{text} does not end");
        }
    }

    /// Returns all rows of a statement as [`Page::text`] shows them.
    #[track_caller]
    pub(crate) fn rows(&mut self, text: &str) -> String {
        let page = self.page(text, &[], None, None);
        page.unwrap_or_else(|error| panic!("{text}: {error}"))
            .text()
    }
}

/// Returns a cell as text: in hexadecimal for a type with parameters, otherwise in the form of JSON
/// but without quotes. `option` is the encoding of the cell's type in the protocol.
fn show(option: &[u8], cell: Option<&[u8]>) -> String {
    let Some(cell) = cell else {
        return "null".to_owned();
    };
    let ty = CqlType::NATIVE.into_iter().find(|ty| {
        let mut own = Vec::new();
        ty.write_option(DurationOption::Id, &mut own);
        own == option
    });
    match ty {
        Some(ty) => {
            let mut text = String::new();
            json::value(&ty, Some(cell), &mut text, json::TEXT_BYTES_MAX).unwrap();
            text.trim_matches('"').to_owned()
        }
        None => cell.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

impl Server {
    /// Writes a row of a table in `ks` as INSERT does, but directly into the store: without index
    /// entries, without checks, and with the timestamp 1 µs, so that statements of the test overwrite
    /// it. `values` has the names of columns and their values, as constants of CQL without quotes. If
    /// no clustering column is among them, writes static columns only.
    #[track_caller]
    pub(crate) fn put(&mut self, table: &str, values: &[(&str, &str)]) {
        let state = self.executor.catalog().state();
        let table = state.table("ks", table).expect("there is such a table");
        let schema = table.schema();
        let value = |name: &str| {
            let (_, text) = values.iter().find(|(column, _)| *column == name)?;
            let column = schema.column(name).expect("there is such a column");
            Some(column.ty.parse_value(text).unwrap())
        };
        let of = |kind| -> Vec<Vec<u8>> {
            let columns = schema.columns_of(kind).iter();
            columns.filter_map(|column| value(&column.name)).collect()
        };
        let cells = |row: &mut RowBuilder<'_>, kind| {
            // A row has its columns in the order of their ids.
            let mut columns: Vec<_> = schema.columns_of(kind).iter().collect();
            columns.sort_by_key(|column| column.id);
            for column in columns {
                if let Some(value) = value(&column.name) {
                    let lifetime = Lifetime::Permanent;
                    let cell = Cell {
                        timestamp: 1,
                        lifetime,
                        value: &value,
                    };
                    row.cell(column.id.0, cell);
                }
            }
        };
        let key = of(ColumnKind::PartitionKey);
        let key: Vec<&[u8]> = key.iter().map(Vec::as_slice).collect();
        let key = PartitionKey::new(&key).unwrap();
        // Static columns are stored with the header of the partition.
        if !of(ColumnKind::Static).is_empty() {
            let mut operand = Vec::new();
            let mut row = HeaderBuilder::new(&mut operand).static_row(1);
            cells(&mut row, ColumnKind::Static);
            row.finish().unwrap();
            table.rows().merge(&key.header_key(), &operand).unwrap();
        }
        let clustering = of(ColumnKind::Clustering);
        if clustering.len() == schema.columns_of(ColumnKind::Clustering).len() {
            let clustering: Vec<&[u8]> = clustering.iter().map(Vec::as_slice).collect();
            let key = schema.layout().row_key(&key, &clustering).unwrap();
            let mut operand = Vec::new();
            let mut row = RowBuilder::new(&mut operand, 1);
            // As for an INSERT, the row exists without a value in any column, too.
            let expiry = None;
            row.marker(Marker {
                timestamp: 1,
                expiry,
            });
            cells(&mut row, ColumnKind::Regular);
            row.finish().unwrap();
            table.rows().merge(&key, &operand).unwrap();
        }
    }
}
