//! The analysis of writes: from the syntax tree to the plan.

use std::collections::HashMap;
use std::sync::Arc;

use ebb_cql::syntax::ast::{self, QualifiedName, Write};
use ebb_model::schema::TableSchema;
use ebb_tables::CqlTable;

use super::condition::Conditions;
use super::keys::Keys;
use super::plan::{Action, WritePlan};
use super::using::Using;
use super::{delete, insert, update};
use crate::analyse::markers::Markers;
use crate::analyse::restrictions::{Conditional, Statement, Writing, Written};
use crate::error::{Result, invalid};
use crate::memory::BYTES_MAX;

pub(super) fn table_of(write: &Write) -> &QualifiedName {
    match write {
        Write::Insert(statement) => &statement.table,
        Write::Update(statement) => &statement.table,
        Write::Delete(statement) => &statement.table,
    }
}

/// The keys and the changes of a write.
type KeysAndAction = (Arc<Keys>, Arc<Action>);

/// The properties that INSERT JSON statements must have in common to share their keys and changes:
/// the address of the table, whether the statement has a condition, and the number of markers in
/// the text. The number matters because the changes refer to the value of each column by an index,
/// and these indexes follow those of the markers.
type JsonPlanKey = (*const CqlTable, bool, usize);

/// The keys and changes of the INSERT JSON statements in a request. Keys and changes name all
/// columns of the table, and do not depend on the JSON text, so thousands of such statements in a
/// batch share them. Each entry keeps its table alive, so that no other table can get the same
/// address.
#[derive(Debug, Default)]
pub struct JsonPlans(HashMap<JsonPlanKey, (Arc<CqlTable>, KeysAndAction)>);

/// The state that the analyses of all texts in one request share. It has the plans of INSERT JSON,
/// and the number of bytes that the plans of writes take beyond an amount proportional to the
/// length of their texts. Prepared statements are not included: their cache counts their memory.
#[derive(Debug, Default)]
pub struct RequestAnalysis {
    memory_bytes: usize,
    pub(crate) json_plans: JsonPlans,
}

impl RequestAnalysis {
    /// Adds `bytes` for one more text: the memory that the plan of its write takes beyond an amount
    /// proportional to the length of the text.
    ///
    /// # Errors
    /// If the texts of the request take more than [`BYTES_MAX`] together.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        if self.memory_bytes > BYTES_MAX {
            return invalid(format!(
                "The statements of the batch take more than {BYTES_MAX} bytes beyond their own \
                 words; send them in several batches"
            ));
        }
        Ok(())
    }
}

/// Plans a statement on its table. Stores in `markers` the receiver of each bind marker: the
/// column, part of a column, argument, timestamp, TTL or JSON text that its value is for.
///
/// `json_plans` has the keys and changes of the request's earlier INSERT JSON statements. If this
/// statement is an INSERT JSON, it shares those with the same [`JsonPlanKey`], or adds its own.
pub(super) fn prepare(
    write: &Write,
    table: &Arc<CqlTable>,
    json_plans: &mut JsonPlans,
    markers: &mut Markers,
) -> Result<WritePlan> {
    let schema = table.schema();
    if schema.is_counter() {
        check_counters(write)?;
    }
    let conditions = Conditions::prepare(write, schema, markers)?;
    let (statement, using, json) = match write {
        Write::Insert(insert) => (
            Statement::Insert,
            insert.using.clone(),
            insert::json_of(insert, schema, markers)?,
        ),
        Write::Update(update) => (Statement::Update, update.using.clone(), None),
        Write::Delete(delete) => {
            let using = ast::Using {
                timestamp: delete.timestamp.clone(),
                ttl: None,
            };
            (Statement::Delete, using, None)
        }
    };
    let place = (Arc::as_ptr(table), conditions.is_some(), markers.count());
    let earlier = (json.as_ref()).and_then(|_| json_plans.0.get(&place));
    let (keys, action) = match earlier {
        Some((_, shared)) => shared.clone(),
        None => {
            let planned = keys_and_action(write, statement, &conditions, schema, markers)?;
            if json.is_some() {
                let of_table = (Arc::clone(table), planned.clone());
                json_plans.0.insert(place, of_table);
            }
            planned
        }
    };
    Ok(WritePlan {
        table: Arc::clone(table),
        keys,
        using: Using::prepare(&using, markers)?,
        action,
        conditions,
        statement,
        json,
        volatile: markers.take_volatile(),
    })
}

/// Plans the keys and the changes of a statement with these conditions.
fn keys_and_action(
    write: &Write,
    statement: Statement,
    conditions: &Conditions,
    schema: &Arc<TableSchema>,
    markers: &mut Markers,
) -> Result<KeysAndAction> {
    let parts = match write {
        Write::Insert(insert) => insert::prepare(insert, schema, markers)?,
        Write::Update(update) => update::prepare(update, schema, markers)?,
        Write::Delete(delete) => delete::prepare(delete, schema, markers)?,
    };
    let own = parts.action.written();
    // A condition on a row requires the full key, even if only static columns are written.
    let written = match own {
        Written::Statics if conditions.kinds().1 => Written::Rows,
        written => written,
    };
    let writing = Writing {
        statement,
        written,
        conditional: conditions.is_some().then_some(Conditional {
            writes_rows: own != Written::Statics,
        }),
    };
    let keys = Keys::prepare(schema, &parts.relations, writing, markers)?;
    Ok((Arc::new(keys), Arc::new(parts.action)))
}

/// Checks that a write of counters is no INSERT, and has no timestamp and no TTL.
fn check_counters(write: &Write) -> Result<()> {
    let (timestamp, ttl) = match write {
        Write::Insert(_) => {
            return invalid(
                "INSERT statements are not allowed on counter tables, use UPDATE instead",
            );
        }
        Write::Update(update) => (&update.using.timestamp, &update.using.ttl),
        Write::Delete(delete) => (&delete.timestamp, &None),
    };
    match (timestamp, ttl) {
        (Some(_), _) => invalid("Cannot provide custom timestamp for counter updates"),
        (None, Some(_)) => invalid("Cannot provide custom TTL for counter updates"),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ebb_cql::syntax::ast::Statement;
    use ebb_cql::syntax::parse;

    use crate::analyse::markers::Markers;
    use crate::executor::harness::Server;
    use crate::write::batch::BatchPlan;
    use crate::write::plan::Change;
    use crate::write::prepare::JsonPlans;

    /// Regression: each INSERT JSON of a batch had the keys and changes of all columns of its
    /// table, about 750 KB for 5,000 columns.
    #[test]
    fn the_json_inserts_of_a_batch_share_their_keys_and_changes() {
        let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
        let state = server.executor.catalog().state();
        let table = state.table("ks", "t").unwrap();
        let text = r#"BEGIN BATCH
            INSERT INTO t JSON '{"k": 1}';
            INSERT INTO t (k, v) VALUES (1, 1);
            INSERT INTO t JSON '{"k": 1, "v": 2}' DEFAULT UNSET;
            INSERT INTO t JSON '{"k": 1}' IF NOT EXISTS;
            APPLY BATCH"#;
        let parsed = parse(text).unwrap();
        let Statement::Batch(batch) = &parsed.statement else {
            panic!("{text} is no batch");
        };
        let mut markers = Markers::new(table.schema(), &parsed.markers);
        let mut json_plans = JsonPlans::default();
        let (marked, shared) = (Some(&mut markers), &mut json_plans);
        let plan = BatchPlan::prepare(batch, |_| Ok(table.clone()), marked, shared).unwrap();
        let shares = |a: usize, b: usize| {
            let (a, b) = (&plan.writes()[a], &plan.writes()[b]);
            Arc::ptr_eq(&a.keys, &b.keys) && Arc::ptr_eq(&a.action, &b.action)
        };
        assert!(shares(0, 2));
        assert!(!shares(0, 1) && !shares(0, 3));
        // Those without and with a condition count once each, for both columns.
        assert_eq!(markers.memory().bytes(), 2 * 2 * size_of::<Change>());
    }
}
