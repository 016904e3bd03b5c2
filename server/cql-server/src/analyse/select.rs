//! The analysis of SELECT.

use std::collections::HashMap;
use std::sync::Arc;

use ebb_cql::protocol::{ColumnSpec, Columns};
use ebb_cql::syntax::ast::{self, Name, Order, Selection};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::CqlType;

use super::group_by::GroupBy;
use super::markers::{Bound, Markers, Receiver};
use super::restrictions::{PartitionRestrictions, Restrictions, column};
use super::selection::{Outputs, Slots};
use super::term::{self, Evaluated, Term};
use super::volatile::VolatileCalls;
use crate::error::{Result, invalid};
use crate::interrupt;

/// The plan of a SELECT: the rows to read, and the result to compute from them.
#[derive(Debug)]
pub struct SelectPlan {
    pub schema: Arc<TableSchema>,
    pub restrictions: Restrictions,
    pub outputs: Outputs,
    /// All columns that the statement reads, including the columns in predicates.
    pub slots: Slots,
    pub distinct: bool,
    /// True for SELECT JSON: each row of the result is a single text.
    pub json: bool,
    /// True if rows are read in the reverse of the clustering order.
    pub reversed: bool,
    /// For ORDER BY over several partitions: rows are sorted after the read by this number of
    /// clustering columns, counted from the first. `None` if rows are returned in the order in
    /// which they are read.
    pub sorted: Option<usize>,
    /// The condition by which rows belong to one group; `None` without GROUP BY.
    pub group_by: Option<GroupBy>,
    pub limit: Option<Term>,
    pub per_partition_limit: Option<Term>,
    pub columns: Columns,
    /// The calls of volatile functions in terms, which are evaluated once for all rows. A selector of
    /// the SELECT clause, such as `now()`, is no term: it is evaluated for each row.
    pub volatile: VolatileCalls,
}

impl SelectPlan {
    /// Analyses a SELECT. `markers` contains the schema of its table, and gets the receivers of the
    /// markers in the statement.
    ///
    /// # Errors
    /// Cassandra's errors, or the timeout of the statement.
    pub fn new(select: &ast::Select, markers: &mut Markers) -> Result<Self> {
        let schema = markers.schema().clone();
        let mut outputs = Outputs::new(&select.selection, markers)?;
        let restrictions = Restrictions::new(&select.relations, select.allow_filtering, markers)?;
        check_statics(select, &schema, &outputs, &restrictions)?;
        if select.distinct {
            if select.per_partition_limit.is_some() {
                return invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
            }
            check_distinct(select, &schema, &outputs, &restrictions)?;
        }
        let group_by = GroupBy::new(select, &mut outputs, &restrictions, markers)?;
        // Without GROUP BY the rows of all partitions become one.
        let is_one_row = !outputs.aggregates.is_empty() && group_by.is_none();
        if is_one_row && select.per_partition_limit.is_some() {
            return invalid("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
        let (reversed, ordered) = order(select, &schema, &restrictions)?;
        let limit_of = |term: &Option<ast::Term>, name: &str, markers: &mut Markers| {
            let receiver = Receiver::new(name, CqlType::Int);
            let term = term.as_ref();
            term.map(|term| term::prepare(term, &receiver, markers))
                .transpose()
        };
        let per_partition_limit = limit_of(
            &select.per_partition_limit,
            "[per_partition_limit]",
            markers,
        )?;
        let limit = limit_of(&select.limit, "[limit]", markers)?;
        // Predicates may need columns that the result does not have. Their slots follow those of
        // `outputs`, whose expressions refer to slots by number.
        let mut slots = outputs.slots.clone();
        for predicate in &restrictions.predicates {
            for &column in &predicate.columns {
                slots.of(column);
            }
        }
        let columns = if select.json {
            markers.memory().columns(&[ColumnSpec {
                keyspace: schema.keyspace(),
                table: schema.name(),
                name: "[json]",
                ty: &CqlType::Text,
            }])?
        } else {
            let specs = outputs.columns.iter().map(|column| ColumnSpec {
                keyspace: schema.keyspace(),
                table: schema.name(),
                name: &column.name,
                ty: &column.ty,
            });
            let specs = specs.collect::<Vec<_>>();
            markers.memory().columns(&specs)?
        };
        Ok(Self {
            // A single partition is read in order already.
            sorted: ordered.filter(|_| restrictions.partition.has_in()),
            distinct: select.distinct,
            json: select.json,
            reversed,
            group_by,
            limit,
            per_partition_limit,
            columns,
            outputs,
            slots,
            restrictions,
            schema,
            // Complete only now: all terms of the statement are prepared.
            volatile: markers.take_volatile(),
        })
    }

    /// Returns whether the statement reads a single row by its whole key.
    pub fn is_point(&self) -> bool {
        let restrictions = &self.restrictions;
        restrictions.partition.is_by_key()
            && !restrictions.partition.has_in()
            && restrictions.clustering.is_full(&self.schema)
            && !restrictions.clustering.has_in()
    }

    /// Returns whether every row of the table, or of the one partition that the statement names, is
    /// a row of the result, as far as LIMIT permits.
    pub fn takes_every_row(&self) -> bool {
        let restrictions = &self.restrictions;
        let is_limited = self.distinct || self.per_partition_limit.is_some();
        !matches!(restrictions.partition, PartitionRestrictions::Tokens(_))
            && !restrictions.partition.has_in()
            && !restrictions.on_clustering
            && restrictions.predicates.is_empty()
            && restrictions.index.is_none()
            && !is_limited
            && !self.is_grouped()
    }

    /// Returns whether rows are aggregated or grouped.
    pub fn is_grouped(&self) -> bool {
        self.group_by.is_some() || !self.outputs.aggregates.is_empty()
    }
}

/// Evaluates LIMIT or PER PARTITION LIMIT; `name` is the one of the two, for errors. Without a
/// limit, or with an unset value, returns `u64::MAX`.
///
/// # Errors
/// Cassandra's error for a limit that is null or not positive.
pub fn limit(term: &Option<Term>, name: &str, bound: &Bound<'_>) -> Result<u64> {
    let Some(term) = term else {
        return Ok(u64::MAX);
    };
    match term.evaluate(bound)? {
        Evaluated::Unset => Ok(u64::MAX),
        Evaluated::Null => invalid("Invalid null value of limit"),
        Evaluated::Value(bytes) => match <[u8; 4]>::try_from(&bytes[..]).map(i32::from_be_bytes) {
            Ok(limit @ 1..) => Ok(limit as u64),
            Ok(_) => invalid(format!("{name} must be strictly positive")),
            Err(_) => invalid("Invalid null value of limit"),
        },
    }
}

/// Checks that a SELECT of only static columns, which are the same in all rows of a partition,
/// names no rows by their clustering.
fn check_statics(
    select: &ast::Select,
    schema: &TableSchema,
    outputs: &Outputs,
    restrictions: &Restrictions,
) -> Result<()> {
    if matches!(select.selection, Selection::All) || !restrictions.on_clustering {
        return Ok(());
    }
    let selected = outputs.slots.columns().iter();
    let kinds: Vec<ColumnKind> = selected.map(|&at| schema.columns()[at].kind).collect();
    let is_of_rows =
        |kind: &ColumnKind| !matches!(kind, ColumnKind::PartitionKey | ColumnKind::Static);
    if kinds.contains(&ColumnKind::Static) && !kinds.iter().any(is_of_rows) {
        return invalid("Cannot restrict clustering columns when selecting only static columns");
    }
    Ok(())
}

/// Checks that a SELECT DISTINCT selects and restricts only columns of the partition key and static
/// columns, and that it selects the whole partition key if it does not restrict all of it by `=` or
/// IN.
fn check_distinct(
    select: &ast::Select,
    schema: &TableSchema,
    outputs: &Outputs,
    restrictions: &Restrictions,
) -> Result<()> {
    if restrictions.on_clustering || restrictions.on_regular {
        return invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or \
             static columns.",
        );
    }
    let columns = schema.columns();
    let wrong = |&&place: &&usize| {
        !matches!(
            columns[place].kind,
            ColumnKind::PartitionKey | ColumnKind::Static
        )
    };
    let selected = outputs.slots.columns();
    if let Some(&place) = selected.iter().find(wrong) {
        return invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns \
             (not {})",
            columns[place].name
        ));
    }
    // Only rows from a range of keys need the partition key to be distinguishable.
    if matches!(select.selection, Selection::All) || restrictions.partition.is_by_key() {
        return Ok(());
    }
    let keys = schema
        .columns_of(ColumnKind::PartitionKey)
        .iter()
        .enumerate();
    for (place, key) in keys {
        if outputs.slots.get(place).is_none() {
            return invalid(format!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                key.name
            ));
        }
    }
    Ok(())
}

/// Returns whether rows are read in reverse, and the number of clustering columns up to and
/// including the last one that ORDER BY names (`None` without ORDER BY).
fn order(
    select: &ast::Select,
    schema: &TableSchema,
    restrictions: &Restrictions,
) -> Result<(bool, Option<usize>)> {
    if select.order_by.is_empty() {
        return Ok((false, None));
    }
    let mut orderings = Vec::with_capacity(select.order_by.len());
    for (name, order) in last_of_each(&select.order_by) {
        // A table may have thousands of columns.
        interrupt::charge(1)?;
        orderings.push((column(schema, name.as_str())?, order));
    }
    if restrictions.index.is_some() {
        return invalid("ORDER BY with 2ndary indexes is not supported.");
    }
    if !restrictions.partition.is_by_key() {
        return invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        );
    }
    let keys = schema.columns_of(ColumnKind::PartitionKey).len();
    let clustering = schema.columns_of(ColumnKind::Clustering);
    let mut reversed = None;
    let mut next = 0;
    for (column, order) in orderings {
        if column.kind != ColumnKind::Clustering {
            return invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, \
                 got {}",
                column.name
            ));
        }
        // ORDER BY may omit columns that have a single value.
        while next < column.position && restrictions.has_one_value(keys + next) {
            interrupt::charge(1)?;
            next += 1;
        }
        if column.position != next {
            return invalid(
                "Order by currently only supports the ordering of columns following their declared \
                 order in the PRIMARY KEY",
            );
        }
        next += 1;
        let against = order != clustering[column.position].order;
        if reversed.is_some_and(|reversed| reversed != against) {
            return invalid("Unsupported order by relation");
        }
        reversed = Some(against);
    }
    Ok((reversed.unwrap_or(false), Some(next)))
}

/// Returns the orderings that take effect. If ORDER BY names a column twice, the first mention
/// determines its position and the last one its order, as in Cassandra.
fn last_of_each(orderings: &[(Name, Order)]) -> Vec<(&Name, Order)> {
    let mut kept: Vec<(&Name, Order)> = Vec::with_capacity(orderings.len());
    let mut places = HashMap::with_capacity(orderings.len());
    for (name, order) in orderings {
        let place = *places.entry(name).or_insert(kept.len());
        match kept.get_mut(place) {
            Some((_, known)) => *known = *order,
            None => kept.push((name, *order)),
        }
    }
    kept
}
