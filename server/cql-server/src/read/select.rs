//! One SELECT, executed.

use std::time::Duration;

use bytes::BytesMut;
use ebb_catalog::key::DecodedKey;
use ebb_catalog::types::CqlType;
use ebb_cql::protocol::{Columns, RowsWriter};

use super::by_index::{Entries, Stale};
use super::fetch::Fetch;
use super::filter::Filter;
use super::sink::{PageLimits, PageSink};
use super::source::Source;
use super::walk::{End, Walk};
use crate::analyse::markers::Bound;
use crate::analyse::restrictions::Partitions;
use crate::analyse::select::{SelectPlan, limit};
use crate::call::Call;
use crate::error::{Result, invalid};
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            empty_page: Duration::from_millis(10),
            page_time: Duration::from_millis(100),
        }
    }
}

/// A SELECT that was analysed.
#[derive(Debug)]
pub struct Select {
    plan: SelectPlan,
    fetch: Fetch,
    /// Of the text: paging states belong to it.
    hash: u64,
}

impl Select {
    /// From its plan. `hash` is another one for another text.
    pub fn new(plan: SelectPlan, hash: u64) -> Self {
        Self {
            fetch: Fetch::new(&plan.schema, &plan.slots),
            plan,
            hash,
        }
    }

    /// What it reads and returns.
    pub fn plan(&self) -> &SelectPlan {
        &self.plan
    }

    /// Appends its rows as the body of a RESULT; with the columns unless the client knows
    /// `known` and these are the same. Tells which entries of the index that it read by may be
    /// stale.
    ///
    /// # Errors
    /// In Cassandra's words.
    pub fn execute(
        &self,
        source: &Source<'_>,
        call: &Call<'_>,
        bound: &Bound<'_>,
        known: Option<&Columns>,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Stale> {
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
        let skip_metadata = parameters.skip_metadata && known == Some(&plan.columns);
        let writer = RowsWriter::new(out, &plan.columns, skip_metadata);
        let page = PageLimits {
            rows: page_rows,
            bytes: limits.page_bytes,
            empty: limits.empty_page,
            time: limits.page_time,
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
            fetch: &self.fetch,
            filter: &filter,
            rows: &rows,
            reversed: plan.reversed,
            static_rows: plan.restrictions.is_of_whole_partitions(),
            now_s: source.read_time_s(bound.now_us),
            interrupt: call.interrupt,
            consistency: parameters.consistency,
        };
        let is_none_left =
            left == 0 || matches!(&partitions, Partitions::Keys(keys) if keys.is_empty());
        let resume = resume.as_ref();
        let mut stale = Stale::new();
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
                (end, stale) = walk.run_by_index(entries, &partitions, resume, &mut sink)?;
                end
            }
        };
        sink.complete(end == End::Done)?;
        let (key, had_rows) = match end {
            End::Cut { key, had_rows } => (key, had_rows),
            End::Stopped if sink.is_cut => (std::mem::take(&mut sink.last_key), true),
            _ => {
                sink.finish(None);
                return Ok(stale);
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
        Ok(stale)
    }
}
