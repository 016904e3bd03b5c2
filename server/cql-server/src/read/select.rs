//! The execution of one SELECT.

use bytes::BytesMut;
use ebb_cql::protocol::{Columns, Metadata, QueryParameters, RowsWriter};
use ebb_model::types::CqlType;
use ebb_tables::read::{Projection, RowReader, Rows, Source};

use super::filter::Filter;
use super::limits::{Limits, RowLimits};
use super::page::Page;
use super::scan_counts::{AGGREGATE_PAGE_ROWS, ScanCounts};
use super::value::check_keys;
use super::walk::{End, Entries, Progress, Stale, Walk};
use crate::analyse::markers::Bound;
use crate::analyse::restrictions::Partitions;
use crate::analyse::select::{SelectPlan, limit};
use crate::call::Call;
use crate::error::{Result, invalid};
use crate::guardrails::{Guardrails, Limit};
use crate::paging::PagingState;

/// The limits that a read must not exceed.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'b> {
    pub limits: &'b Limits,
    /// The guardrails; `None` for the server's own tables.
    pub guardrails: Option<&'b Guardrails>,
}

/// The outcome of a read, except for its rows.
#[derive(Debug, Default)]
pub struct Read {
    /// Possibly stale entries of the index that the read used.
    pub stale: Stale,
    pub warnings: Vec<String>,
}

#[derive(Debug)]
pub struct Select {
    plan: SelectPlan,
    projection: Projection,
    /// The hash of the statement, which paging states contain.
    hash: u64,
}

impl Select {
    /// Creates a SELECT from its plan. `hash` is the hash of the statement for paging states.
    pub fn new(plan: SelectPlan, hash: u64) -> Self {
        Self {
            projection: Projection::new(&plan.schema, plan.slots.columns()),
            plan,
            hash,
        }
    }

    pub fn plan(&self) -> &SelectPlan {
        &self.plan
    }

    /// Returns the paging state in the parameters of a request: the position at which the page
    /// begins. `None` for the first page.
    ///
    /// # Errors
    /// If the bytes are no paging state, or the paging state of another statement.
    pub fn paging_state(&self, parameters: &QueryParameters<'_>) -> Result<Option<PagingState>> {
        let state = parameters.paging_state;
        (state.map(|state| PagingState::decode(state, self.hash))).transpose()
    }

    /// Reads a page, and appends it as the body of a RESULT. `known` are the columns that the
    /// client got when it prepared the statement. If the columns are still the same, and the client
    /// permits that, the RESULT does not describe them again. Returns the warnings and the stale
    /// index entries of the read.
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
        let per_partition = if plan.distinct {
            1
        } else {
            limit(&plan.per_partition_limit, "PER PARTITION LIMIT", bound)?
        };
        // A single row needs no pages.
        let is_one_row = plan.is_grouped() && plan.group_by.is_none();
        let row_limits = RowLimits {
            statement: limit(&plan.limit, "LIMIT", bound)?,
            partition: per_partition,
            page: parameters.page_size_rows.filter(|_| !is_one_row),
        };
        // A sort needs all rows, so that no position in the table separates two pages of its
        // result.
        if plan.sorted.is_some() && row_limits.page.is_some() {
            return invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; \
                 you must either remove the ORDER BY or the IN and sort client side, or disable \
                 paging for this query",
            );
        }
        let partitions = plan.restrictions.partition.partitions(schema, bound)?;
        // Before the rows: a value that is too long for the index may be too long for a key, too.
        if let Some(relation) = &plan.restrictions.index {
            bound.dropping(|| relation.check_lens(bound))?;
        }
        let rows = plan.restrictions.clustering.rows(schema, bound)?;
        let mut read = Read::default();
        if let Some(guardrails) = guardrails {
            self.check_in(guardrails, &partitions, &rows, &mut read.warnings)?;
        }
        // The limits on tombstones hold for each page. A grouped read counts them in pages like those in
        // which Cassandra reads its rows.
        let internal_page_rows =
            (plan.is_grouped()).then(|| parameters.page_size_rows.unwrap_or(AGGREGATE_PAGE_ROWS));
        let paging_state = self.paging_state(parameters)?;
        let resume = paging_state.as_ref();
        let columns = schema.columns();
        let slots = plan.slots.columns();
        let types: Vec<&CqlType> = slots.iter().map(|&place| &columns[place].ty).collect();
        let name = |place: usize| &*columns[place].name;
        let predicates = &plan.restrictions.predicates;
        let filter = Filter::new(predicates, &plan.slots, &types, name, bound)?;
        for output in plan.outputs.of_rows() {
            bound.dropping(|| check_keys(output, bound))?;
        }
        let metadata = Metadata::of(parameters, known, &plan.columns);
        let writer = RowsWriter::new(out, &plan.columns, metadata, call.version);
        let page = Page::new(plan, &types, bound, writer, limits, row_limits, resume)?;
        let page = page.within(call.memory);
        // IN may have no values. And the client may have forged a paging state with 0 rows left, from
        // which the page would count down. States of the server have rows left, because at LIMIT the
        // result ends.
        let is_none_left =
            page.left == 0 || matches!(&partitions, Partitions::Keys(keys) if keys.is_empty());
        let read_time_s = (parameters.now_s).map(i64::from);
        let consistency = parameters.consistency;
        let mut walk = Walk {
            reader: RowReader {
                source: *source,
                schema,
                projection: &self.projection,
                read_time_s: read_time_s.unwrap_or_else(|| source.read_time_s(bound.now_us)),
                static_rows: plan.restrictions.is_of_whole_partitions(),
            },
            filter: &filter,
            rows: &rows,
            reversed: plan.reversed,
            page,
            counts: ScanCounts::new(guardrails, schema, consistency, internal_page_rows),
            progress: Progress::new(),
        };
        let end = match &plan.restrictions.index {
            _ if is_none_left => End::Done,
            None => walk.run(&partitions, resume)?,
            Some(relation) => {
                let prefix = relation.prefix(schema, bound)?;
                let entries = Entries {
                    prefix: &prefix,
                    of_partitions: relation.is_of_partitions(schema),
                    predicate: relation.predicate,
                };
                walk.run_by_index(entries, &partitions, resume)?
            }
        };
        read.stale = walk.progress.stale;
        read.warnings.extend(walk.counts.warning());
        let mut page = walk.page;
        page.complete(end == End::Done)?;
        let (key, had_rows) = match end {
            // The end of the last group may have reached LIMIT.
            End::Cut { key, had_rows } if page.left > 0 => (key, had_rows),
            // A page that stopped without a cut has reached LIMIT, and no page follows.
            End::Stopped if page.is_cut => (std::mem::take(&mut page.last_key), true),
            _ => {
                page.finish(None);
                return Ok(read);
            }
        };
        let state = PagingState {
            statement: self.hash,
            had_rows,
            left: page.left,
            left_in_partition: page.left_in_partition_of(&key),
            key,
        };
        page.finish(Some(&state.encode()));
        Ok(read)
    }

    /// Checks the numbers of keys that the INs of the statement select against guardrails.
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
