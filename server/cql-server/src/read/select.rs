//! One SELECT, executed.

use std::time::Duration;

use bytes::BytesMut;
use ebb_cql::protocol::{Columns, Metadata, RowsWriter};
use ebb_model::key::DecodedKey;
use ebb_model::types::CqlType;
use ebb_tables::read::{Projection, Source};

use super::by_index::{Entries, Stale};
use super::filter::Filter;
use super::scanned::{AGGREGATE_PAGE_ROWS, Scanned};
use super::sink::{PageLimits, PageSink};
use super::walk::{End, Walk};
use crate::analyse::markers::Bound;
use crate::analyse::restrictions::{Partitions, Rows};
use crate::analyse::select::{SelectPlan, limit};
use crate::call::Call;
use crate::error::{Result, invalid};
use crate::guardrails::{Guardrails, Limit};
use crate::paging::{self, PagingState};

/// How long reads and their pages may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a page's cells, where the client pages.
    pub page_bytes: usize,
    /// After reading for so long without a row a page ends, where the client pages.
    pub empty_page: Duration,
    /// After reading for so long a page ends, where the client pages.
    pub page_time: Duration,
    /// Bytes of the cells of a response, together with what a read keeps before it responds: rows to be
    /// sorted, and what aggregates have seen. A read that needs more fails. Drivers refuse longer
    /// responses: that for Java from 256 MiB on, by default.
    pub result_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            empty_page: Duration::from_millis(10),
            page_time: Duration::from_millis(100),
            result_bytes: 256 << 20,
        }
    }
}

/// The limits of one read.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'b> {
    /// The limits of its pages.
    pub limits: &'b Limits,
    /// The guardrails; `None` for tables of the server itself.
    pub guardrails: Option<&'b Guardrails>,
}

/// The outcome of a read, besides its rows.
#[derive(Debug, Default)]
pub struct Read {
    /// Entries of the index that the read used which may be stale.
    pub stale: Stale,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// A SELECT that was analysed.
#[derive(Debug)]
pub struct Select {
    plan: SelectPlan,
    projection: Projection,
    /// Of the text: paging states belong to it.
    hash: u64,
}

impl Select {
    /// From its plan. `hash` is another one for another text.
    pub fn new(plan: SelectPlan, hash: u64) -> Self {
        Self {
            projection: Projection::new(&plan.schema, plan.slots.columns()),
            plan,
            hash,
        }
    }

    /// What it reads and returns.
    pub fn plan(&self) -> &SelectPlan {
        &self.plan
    }

    /// Appends its rows as the body of a RESULT; with the columns unless the client knows
    /// `known` and these are the same.
    ///
    /// # Errors
    /// In Cassandra's words.
    pub fn execute(
        &self,
        source: &Source<'_>,
        call: &Call<'_>,
        bound: &Bound<'_>,
        known: Option<&Columns>,
        bounds: Bounds<'_>,
        out: &mut BytesMut,
    ) -> Result<Read> {
        let Bounds { limits, guardrails } = bounds;
        let plan = &self.plan;
        let schema = &plan.schema;
        let parameters = &call.parameters;
        let per_partition = match plan.distinct {
            true => 1,
            false => limit(&plan.per_partition_limit, "PER PARTITION LIMIT", bound)?,
        };
        let limits_of_rows = (limit(&plan.limit, "LIMIT", bound)?, per_partition);
        let page_rows = match plan.is_grouped() && plan.group_columns.is_none() {
            // One row has no pages.
            true => None,
            false => parameters.page_size_rows,
        };
        if plan.sorted.is_some() && page_rows.is_some() {
            return invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; \
                 you must either remove the ORDER BY or the IN and sort client side, or disable \
                 paging for this query",
            );
        }
        let partitions = plan.restrictions.partition.partitions(schema, bound)?;
        let rows = plan.restrictions.clustering.rows(schema, bound)?;
        let mut read = Read::default();
        if let Some(guardrails) = guardrails {
            self.check_in(guardrails, &partitions, &rows, &mut read.warnings)?;
        }
        let scanned_page_rows =
            (plan.is_grouped()).then(|| parameters.page_size_rows.unwrap_or(AGGREGATE_PAGE_ROWS));
        let consistency = parameters.consistency;
        let scanned = Scanned::new(guardrails, schema, consistency, scanned_page_rows);
        let resume = parameters
            .paging_state
            .map(|state| PagingState::decode(state, self.hash));
        let resume = resume.transpose()?;
        let (mut left, mut left_in_partition) = limits_of_rows;
        let mut prefix: &[u8] = &[];
        if let Some(resume) = &resume {
            left = left.min(resume.left);
            left_in_partition = left_in_partition.min(resume.left_in_partition);
            let key = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            prefix = key.prefix;
        }
        let columns = schema.columns();
        let slots = plan.slots.columns();
        let types: Vec<&CqlType> = slots.iter().map(|&place| &columns[place].ty).collect();
        let name = |place: usize| &*columns[place].name;
        let predicates = &plan.restrictions.predicates;
        let filter = Filter::new(predicates, &plan.slots, &types, name, bound)?;
        let metadata = Metadata::of(parameters, known, &plan.columns);
        let writer = RowsWriter::new(out, &plan.columns, metadata, call.version);
        let page = PageLimits {
            rows: page_rows,
            bytes: limits.page_bytes,
            empty: limits.empty_page,
            time: limits.page_time,
            result_bytes: limits.result_bytes,
        };
        let mut sink = PageSink::new(
            plan,
            &types,
            bound,
            writer,
            page,
            (left, limits_of_rows.1),
            left_in_partition,
            prefix,
        );
        let walk = Walk {
            source,
            schema,
            projection: &self.projection,
            filter: &filter,
            rows: &rows,
            reversed: plan.reversed,
            static_rows: plan.restrictions.is_of_whole_partitions(),
            now_s: (parameters.now_s).map_or_else(|| source.read_time_s(bound.now_us), i64::from),
            scanned: &scanned,
        };
        let is_none_left =
            left == 0 || matches!(&partitions, Partitions::Keys(keys) if keys.is_empty());
        let resume = resume.as_ref();
        let end = match &plan.restrictions.index {
            _ if is_none_left => End::Done,
            None => walk.run(&partitions, resume, &mut sink)?,
            Some(relation) => {
                let prefix = relation.prefix(schema, bound)?;
                let entries = Entries {
                    prefix: &prefix,
                    of_partitions: relation.is_of_partitions(schema),
                    predicate: relation.predicate,
                };
                let end;
                (end, read.stale) = walk.run_by_index(entries, &partitions, resume, &mut sink)?;
                end
            }
        };
        sink.complete(end == End::Done)?;
        read.warnings.extend(scanned.warning());
        let (key, had_rows) = match end {
            End::Cut { key, had_rows } => (key, had_rows),
            End::Stopped if sink.is_cut => (std::mem::take(&mut sink.last_key), true),
            _ => {
                sink.finish(None);
                return Ok(read);
            }
        };
        let state = PagingState {
            statement: self.hash,
            had_rows,
            left: sink.left,
            left_in_partition: sink.left_in_partition_of(&key),
            key,
        };
        sink.finish(Some(&state.encode()));
        Ok(read)
    }

    /// Holds what the INs of the statement name to guardrails.
    fn check_in(
        &self,
        guardrails: &Guardrails,
        partitions: &Partitions,
        rows: &Rows,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let restrictions = &self.plan.restrictions;
        let product = Limit::InSelectCartesianProduct;
        if restrictions.partition.has_in()
            && let Partitions::Keys(keys) = partitions
        {
            let (table, count) = (self.plan.schema.name(), keys.len() as u64);
            guardrails.check(product, "partition key", count, warnings)?;
            guardrails.check(Limit::PartitionKeysInSelect, table, count, warnings)?;
        }
        if restrictions.clustering.has_in() {
            let count = match rows {
                Rows::All => 0,
                Rows::Exactly(all) => all.len(),
                Rows::In(ranges) => ranges.len(),
            };
            guardrails.check(product, "clustering key", count as u64, warnings)?;
        }
        Ok(())
    }
}
