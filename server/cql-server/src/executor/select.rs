//! The execution of SELECT: resolves the table, analyses the statement, reads rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::protocol::{Consistency, QueryParameters};
use ebb_cql::syntax::ast::{self, Parsed};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_storage::Cache;
use ebb_tables::CatalogState;
use ebb_tables::read::Source;

use super::Executor;
use crate::access;
use crate::analyse::markers::{Bound, Markers};
use crate::analyse::select::SelectPlan;
use crate::call::{Call, Outcome};
use crate::context::in_keyspace;
use crate::error::{Result, invalid};
use crate::guardrails::Access;
use crate::indexes;
use crate::interrupt;
use crate::pace::StatementPace;
use crate::prepared::{Meaning, Prepared, SelectMeaning};
use crate::read::{Bounds, Select, computed_rows};
use crate::snapshots;
use crate::system::{Lookup, PageRows};
use crate::targets::{self, Target};

impl Executor {
    /// Returns the table that a SELECT reads: live, at a snapshot, or of the system.
    pub(super) fn target(
        &self,
        state: &CatalogState,
        select: &ast::Select,
        keyspace: Option<&str>,
    ) -> Result<Target> {
        let keyspace = in_keyspace(&select.from, keyspace)?;
        let table = (keyspace, select.from.name.as_str());
        let snapshot = select.snapshot.as_ref().map(ast::Name::as_str);
        targets::readable(self.catalog.db(), state, &self.system, table, snapshot)
    }

    /// Returns whether a SELECT reads a table at a snapshot. Opens no snapshot.
    pub(super) fn is_at_snapshot(
        &self,
        state: &CatalogState,
        select: &ast::Select,
        keyspace: Option<&str>,
    ) -> bool {
        let snapshot = select.snapshot.as_ref().map(ast::Name::as_str);
        in_keyspace(&select.from, keyspace)
            .is_ok_and(|keyspace| targets::is_at_snapshot(state, &self.system, keyspace, snapshot))
    }

    /// Analyses a SELECT under this schema. Returns the analysis, and the indexes of the markers
    /// that provide the partition key (empty unless each of its columns has a marker).
    pub(super) fn analyse(
        &self,
        parsed: &Parsed,
        select: &ast::Select,
        schema: &Arc<TableSchema>,
        hash: u64,
    ) -> Result<(SelectMeaning, Vec<u16>)> {
        let mut markers = Markers::new(schema, &parsed.markers);
        let plan = SelectPlan::new(select, &mut markers)?;
        let partition_key = markers.partition_key(|name| {
            let columns = schema.columns_of(ColumnKind::PartitionKey);
            let position = columns.iter().position(|column| *column.name == *name)?;
            plan.restrictions.partition.marker(position)
        });
        let meaning = SelectMeaning {
            schema: schema.clone(),
            markers: markers.columns()?,
            memory_bytes: markers.memory().bytes(),
            select: Select::new(plan, hash),
        };
        Ok((meaning, partition_key))
    }

    /// Returns the analysis of a SELECT on a table with this schema. Analyses the statement again
    /// only if the schema has changed since its last analysis.
    ///
    /// # Errors
    /// The error of the analysis. UNPREPARED, if the bind markers now have other types than in the
    /// response to PREPARE, or if the analysis takes much more memory.
    pub(super) fn select_meaning(
        &self,
        prepared: &Prepared,
        select: &ast::Select,
        schema: &Arc<TableSchema>,
    ) -> Result<Arc<Meaning>> {
        let meaning = prepared.meaning.load_full();
        // Each execution at a snapshot decodes the schema anew, so an equal schema is as good as the
        // same.
        let is_same = match &*meaning {
            Meaning::Select(select) => {
                Arc::ptr_eq(&select.schema, schema) || select.schema == *schema
            }
            _ => false,
        };
        if is_same {
            return Ok(meaning);
        }
        let (anew, _) = self.analyse(&prepared.parsed, select, schema, prepared.hash)?;
        if anew.markers != prepared.markers || prepared.is_outgrown_by(anew.memory_bytes) {
            return Err(prepared.unprepared());
        }
        let meaning = Arc::new(Meaning::Select(Box::new(anew)));
        // Concurrent executions may overwrite each other's meaning: each goes on with its own.
        prepared.meaning.store(meaning.clone());
        Ok(meaning)
    }

    /// Executes a SELECT under the current schema, after checking the user's permissions, and
    /// appends the body of the RESULT.
    pub(super) fn select(
        &self,
        prepared: &Prepared,
        select: &ast::Select,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let (state, target) = self.checked(|state| {
            let target = self.target(state, select, prepared.keyspace.as_deref())?;
            match &target {
                // The name may have become that of another snapshot since PREPARE, and the table of the snapshot
                // may have been dropped.
                Target::Snapshot(snapshot) => {
                    let (keyspace, table) = (snapshot.schema.keyspace(), snapshot.schema.name());
                    let needs = || access::reads_at_snapshot(keyspace, table, &snapshot.rows);
                    call.user.check_with(self.catalog.roles(), needs)?;
                }
                _ => self.check(prepared, call.user)?,
            }
            Ok(target)
        })?;
        let schema = schema_of(&target);
        let meaning = self.select_meaning(prepared, select, schema)?;
        let meaning = meaning.as_select()?;
        let known = prepared.columns.as_ref();
        // A client of protocol 5 decodes rows by the columns in the response to PREPARE, so it has to
        // prepare again if they changed. In Cassandra ALTER discards the prepared statements of the
        // table, with the same effect.
        let is_outdated = call.parameters.result_metadata_id.is_some()
            && known != Some(&meaning.select.plan().columns);
        if is_outdated {
            return Ok(Outcome {
                is_outdated,
                ..Outcome::default()
            });
        }
        check_consistency(call.parameters.consistency)?;
        let guardrails = match &target {
            // Guardrails protect the tables that users have created.
            Target::Virtual(_) => None,
            _ => Some(self.guardrails(call)?),
        };
        let page_size_rows = call.parameters.page_size_rows;
        let mut warnings = Vec::new();
        if let Some(guardrails) = guardrails {
            warnings = guardrails.check_select(select, page_size_rows)?;
            let level = call.parameters.consistency;
            guardrails.check_levels(Access::Read, &[level], &mut warnings)?;
        }
        let now_us = self.catalog.timestamps().now_us();
        let bound = Bound::new(call.parameters.values, &meaning.markers, now_us)?
            .calling(&meaning.select.plan().volatile)?;
        let (view, live, computed);
        let source = match &target {
            Target::Live(table) => {
                // Taken after the schema was read: if the schema has an index as built, the view has all
                // its entries.
                view = self.catalog.db().view();
                live = (&view, table.rows());
                Source::Stored(&live, Cache::Fill, &StatementPace)
            }
            // The cache is left to reads of the live tables.
            Target::Snapshot(snapshot) => {
                Source::Stored(&snapshot.rows, Cache::Bypass, &StatementPace)
            }
            Target::Virtual(table) => {
                let lookup = self.lookup(&state, &meaning.select, &bound, &call.parameters)?;
                let facts = self.facts(&state, call.user)?;
                let rows = table.rows(&facts, &lookup, self.limits.result_bytes)?;
                computed = computed_rows(table.schema(), rows)?;
                Source::Memory(&computed)
            }
        };
        // The schema of a snapshot has no unfinished indexes: see `without_unbuilt_indexes`.
        if let Target::Live(table) = &target {
            indexes::check_available(meaning.select.plan(), table, call)?;
        }
        let bounds = Bounds {
            limits: &self.limits,
            guardrails,
        };
        let read = (meaning.select).execute(&source, call, &bound, known, bounds, out)?;
        if let Target::Live(table) = &target {
            // A write does not read the row, so it leaves the entry of the previous value behind. The
            // reader that finds such an entry removes it.
            indexes::remove_stale(&self.catalog, table, &read.stale);
        }
        warnings.extend(read.warnings);
        Ok(Outcome {
            warnings,
            ..Outcome::default()
        })
    }

    /// Returns the rows of a virtual table that a page of a SELECT reads, so that the table need
    /// not compute its other rows: the keyspaces and tables that the statement names, and the rows
    /// of the page. If a bound value is invalid, no keyspace or table is excluded by it; reading
    /// the rows then reports the error.
    ///
    /// # Errors
    /// If the statement's time is over.
    pub(super) fn lookup(
        &self,
        state: &CatalogState,
        select: &Select,
        bound: &Bound<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Result<Lookup> {
        let plan = select.plan();
        let first = |kind: ColumnKind, name: &str| -> Option<BTreeSet<String>> {
            let column = plan.schema.columns_of(kind).first()?;
            if *column.name != *name {
                return None;
            }
            let restrictions = &plan.restrictions;
            let values = match kind {
                ColumnKind::PartitionKey => restrictions.partition.first_values(name, bound),
                _ => restrictions.clustering.first_values(&plan.schema, bound),
            };
            let text = |value: Cow<'_, [u8]>| String::from_utf8(value.into_owned()).ok();
            values.ok()??.into_iter().map(text).collect()
        };
        let keyspaces = first(ColumnKind::PartitionKey, "keyspace_name");
        let mut named = BTreeMap::new();
        for name in keyspaces.iter().flatten() {
            interrupt::charge_bytes(name.len())?;
            if let Ok(Some(found)) = snapshots::find(self.catalog.db(), state, name) {
                named.insert(name.clone(), (found.keyspace, found.snapshot));
            }
        }
        Ok(Lookup {
            keyspaces,
            tables: first(ColumnKind::Clustering, "table_name"),
            snapshots: named,
            page: page_rows(select, parameters),
        })
    }
}

/// Returns the rows of a virtual table that a page needs. An invalid paging state is ignored,
/// because reading the rows then reports the error.
fn page_rows(select: &Select, parameters: &QueryParameters<'_>) -> PageRows {
    let plan = select.plan();
    // Such pages do not read rows in the order of their keys.
    if plan.reversed || plan.restrictions.partition.has_in() {
        return PageRows::default();
    }
    let state = select.paging_state(parameters).ok().flatten();
    let page_size_rows = parameters.page_size_rows.filter(|_| plan.takes_every_row());
    PageRows {
        after: state.map(|state| state.key),
        // The row after the page shows that another page follows.
        rows_max: page_size_rows.map(|rows| rows as usize + 1),
    }
}

/// Checks that a read may have this consistency level. The level has no effect, as there is one
/// copy, but a level that Cassandra rejects is rejected here, too, as for
/// [writes](crate::write::check_consistency).
fn check_consistency(level: Consistency) -> Result<()> {
    if level == Consistency::Any {
        return invalid("ANY ConsistencyLevel is only supported for writes");
    }
    Ok(())
}

/// Returns the schema of a table. For a table at a snapshot this is the schema at the moment of the
/// snapshot.
pub(super) fn schema_of(target: &Target) -> &Arc<TableSchema> {
    match target {
        Target::Live(table) => table.schema(),
        Target::Snapshot(snapshot) => &snapshot.schema,
        Target::Virtual(table) => table.schema(),
    }
}
