//! Executes writes, and shows rows without the code that reads for clients.

use std::convert::Infallible;
use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, ErrorResponse, Value, Values, ValuesBuf};
use ebb_cql::syntax::ast::QualifiedName;
use ebb_cql::syntax::parse;
use ebb_model::key::{DecodedKey, Place, SCHEMA_KEY};
use ebb_model::row::{Header, LiveColumn, RowRef, RowView};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_tables::CqlTable;
use ebb_test_support::cases::parse_cases;

use crate::error::invalid;
use crate::guardrails::Guardrails;
use crate::testing::Session;
use crate::write::{JsonPlans, WriteContext, WriteStatement, Written, execute_batch};

type Result<T> = std::result::Result<T, ErrorResponse>;

/// Returns the warnings of a write without conditions.
fn warnings(written: Written) -> Vec<String> {
    match written {
        Written::Done(warnings) => warnings,
        other => panic!("{other:?}"),
    }
}

/// Returns a session with a keyspace `app` in use, at second 1,700,000,000. `tables` are the
/// statements that create its tables.
pub(super) fn session(tables: &[&str]) -> Session {
    let mut session = Session::new();
    session.run("CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.run("USE app");
    for table in tables {
        session.run(table);
    }
    session
}

impl Session {
    fn table(&self, name: &str) -> Result<Arc<CqlTable>> {
        match self.state().table("app", name) {
            Some(table) => Ok(table.clone()),
            None => invalid(format!("table {name} does not exist")),
        }
    }

    pub(super) fn understand(&self, text: &str) -> Result<WriteStatement> {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let table = |name: &QualifiedName| self.table(name.name.as_str());
        let statement = WriteStatement::analyse(&parsed, &mut JsonPlans::default(), table)?;
        Ok(statement.unwrap_or_else(|| panic!("{text} does not write")))
    }

    /// Returns the context of a request that has no time of its own and does not raise the limit on
    /// the bytes that a write collects.
    pub(super) fn write_context<'c>(&'c self, guardrails: &'c Guardrails) -> WriteContext<'c> {
        WriteContext {
            now_s: None,
            request_bytes: 0,
            result_bytes: usize::MAX,
            catalog: &self.catalog,
            guardrails,
        }
    }

    pub(super) fn try_bound(
        &self,
        text: &str,
        values: &[Value<'_>],
        timestamp_us: Option<i64>,
    ) -> Result<Vec<String>> {
        let (bound, guardrails) = (bound(values), Guardrails::default());
        let context = self.write_context(&guardrails);
        self.understand(text)?
            .execute(context, bound.as_values(), timestamp_us)
            .map(warnings)
    }

    /// Executes a write with a timestamp that the server assigns, and returns its warnings.
    #[track_caller]
    pub(super) fn write(&self, text: &str) -> Vec<String> {
        let done = self.try_bound(text, &[], None);
        done.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Executes a write with `timestamp_us` as the timestamp of the request.
    #[track_caller]
    pub(super) fn write_at(&self, timestamp_us: i64, text: &str) {
        let done = self.try_bound(text, &[], Some(timestamp_us));
        done.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    #[track_caller]
    pub(super) fn bind(&self, text: &str, values: &[Value<'_>]) {
        let done = self.try_bound(text, values, None);
        done.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// Executes statements as one batch of the protocol.
    pub(super) fn batch(&self, texts: &[&str]) -> Result<Vec<String>> {
        let statements = texts.iter().map(|text| self.understand(text));
        let statements = statements.collect::<Result<Vec<_>>>()?;
        let statements: Vec<_> = statements.iter().collect();
        self.batch_of(&statements).map(warnings)
    }

    /// Executes analysed statements, which have no markers, as one batch of the protocol.
    pub(super) fn batch_of(&self, statements: &[&WriteStatement]) -> Result<Written> {
        let guardrails = Guardrails::default();
        let statements = statements.iter().map(|s| (*s, Values::default()));
        let statements: Vec<_> = statements.collect();
        let context = self.write_context(&guardrails);
        execute_batch(context, BatchKind::Logged, &statements, None)
    }

    /// Executes the writes of a table of cases, and compares the rows of the table `t` after each of
    /// them: as [`Self::show`] returns them, with ` | ` between rows, or `no rows`. A case with `done`
    /// compares nothing, and one with a message requires this error.
    #[track_caller]
    pub(super) fn check(&self, steps: &str) {
        for [text, expected] in parse_cases(steps) {
            let after = match self.try_bound(text, &[], None) {
                Err(error) => {
                    assert_eq!(error.kind.code(), 0x2200, "{text}: {error}");
                    error.message
                }
                Ok(_) if expected == "done" => continue,
                Ok(_) if self.show("t").is_empty() => "no rows".to_owned(),
                Ok(_) => self.show("t").join(" | "),
            };
            assert_eq!(after, expected, "{text}");
        }
    }

    /// Returns the error message of a statement, which must be rejected as invalid.
    #[track_caller]
    pub(super) fn refusal(&self, text: &str) -> String {
        self.refusal_of(text, &[])
    }

    #[track_caller]
    pub(super) fn refusal_of(&self, text: &str, values: &[Value<'_>]) -> String {
        match self.try_bound(text, values, None) {
            Ok(_) => panic!("{text} is not refused"),
            Err(error) => {
                assert_eq!(error.kind.code(), 0x2200, "{text}: {error}");
                error.message
            }
        }
    }

    /// Returns the rows of a table as text, in the order of their keys. The static columns of a
    /// partition come before its rows. Null columns are left out.
    pub(super) fn show(&self, table: &str) -> Vec<String> {
        let table = self.table(table).unwrap();
        let (schema, now_s) = (
            table.schema(),
            self.catalog.timestamps().now_us() / 1_000_000,
        );
        let mut header = Vec::new();
        let mut shown = Vec::new();
        for entry in table.rows().range::<&[u8], _>(..) {
            let (key, operand) = entry.unwrap();
            if *key == *SCHEMA_KEY {
                continue;
            }
            let key = DecodedKey::read(&key).unwrap();
            let layout = schema.layout();
            let names = |kind| schema.columns_of(kind).iter();
            let partition = layout.partition_values(key.partition_key).unwrap();
            let mut columns: Vec<String> = names(ColumnKind::PartitionKey)
                .zip(partition)
                .map(|(column, value)| format!("{} {}", column.name, column.ty.literal(value)))
                .collect();
            match key.place {
                Place::Header => {
                    header = [key.prefix, &operand].concat();
                    let parsed = Header::parse(&operand).unwrap();
                    let values = live(schema, &parsed.static_view(now_s), ColumnKind::Static);
                    if !values.is_empty() {
                        columns.extend(values);
                        shown.push(columns.join(", "));
                    }
                }
                Place::Row(clustering) => {
                    let of_partition = header.strip_prefix(key.prefix);
                    let above = of_partition
                        .and_then(|header| Header::parse(header).unwrap().deletion_at(clustering));
                    let row = RowView::new(RowRef::parse(&operand).unwrap(), above, now_s);
                    if !row.is_live(None).unwrap() {
                        continue;
                    }
                    let values = match row.original_clustering() {
                        Some(original) => ebb_model::types::elements::components(original)
                            .map(|value| value.unwrap().unwrap().to_vec())
                            .collect(),
                        None => layout.clustering_values(clustering).unwrap(),
                    };
                    let keys = names(ColumnKind::Clustering).zip(values);
                    columns.extend(
                        keys.map(|(column, v)| {
                            format!("{} {}", column.name, column.ty.literal(&v))
                        }),
                    );
                    columns.extend(live(schema, &row, ColumnKind::Regular));
                    shown.push(columns.join(", "));
                }
            }
        }
        shown
    }
}

/// Returns the columns of one kind that are not null, as text.
fn live(schema: &TableSchema, row: &RowView<'_>, kind: ColumnKind) -> Vec<String> {
    let one = |column: &ebb_model::schema::Column| {
        let mut value = Vec::new();
        match row.column(column.id.0).unwrap()? {
            LiveColumn::Cell(cell) => value.extend(cell.value),
            LiveColumn::Collection(collection) => {
                let written = collection
                    .write_value(&column.ty, &mut value, &mut |_| Ok::<_, Infallible>(()));
                written.unwrap();
            }
        }
        Some(format!("{} {}", column.name, column.ty.literal(&value)))
    };
    schema.columns_of(kind).iter().filter_map(one).collect()
}

/// Returns the values by position, as a request has them.
pub(super) fn bound(values: &[Value<'_>]) -> ValuesBuf {
    values.iter().copied().collect()
}
