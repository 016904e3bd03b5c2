//! The analysis of GROUP BY: columns of the primary key in their order, the last of which may be in
//! a monotonic function.
//!
//! ```text
//!   GROUP BY a, b                rows with equal a and b are a group
//!   GROUP BY a, floor(time, 1h)  rows with equal a and an equal floor(time, 1h) are a group
//! ```
//!
//! A read comes to rows in the order of the primary key. A monotonic function of a clustering column
//! returns equal values for rows that follow each other, so a read needs no more than one group in
//! memory.

use ebb_cql::syntax::ast::{self, Selector};
use ebb_model::schema::{ColumnKind, TableSchema};

use super::markers::Markers;
use super::restrictions::{Restrictions, column, place};
use super::selection::{Output, Outputs};
use super::volatile::VolatileCalls;
use crate::error::{Result, invalid};
use crate::functions::Function;
use crate::interrupt;

/// The condition by which rows belong to one group.
#[derive(Debug)]
pub struct GroupBy {
    /// The number of leading columns of the primary key whose values all rows of a group share.
    pub columns: usize,
    /// A function of the clustering column that follows these columns. All rows of a group share
    /// its result, too.
    pub function: Option<Output>,
}

impl GroupBy {
    /// Analyses the GROUP BY of a SELECT. Returns `None` without GROUP BY. A column that is the
    /// argument of a function is added to the columns that the statement reads (`outputs`).
    ///
    /// # Errors
    /// Cassandra's errors, or the timeout of the statement.
    pub fn new(
        select: &ast::Select,
        outputs: &mut Outputs,
        restrictions: &Restrictions,
        markers: &mut Markers,
    ) -> Result<Option<Self>> {
        if select.group_by.is_empty() {
            return Ok(None);
        }
        let keys = (markers.schema())
            .columns_of(ColumnKind::PartitionKey)
            .len();
        let mut next = 0;
        let mut function = None;
        for selector in &select.group_by {
            // A key may have thousands of columns.
            interrupt::charge(1)?;
            let (at, of_column) = element(selector, outputs, markers)?;
            if function.is_some() {
                return invalid(
                    "Functions are only supported on the last element of the GROUP BY clause",
                );
            }
            function = of_column;
            while next < at && restrictions.has_one_value(next) {
                interrupt::charge(1)?;
                next += 1;
            }
            if at != next {
                return invalid(
                    "Group by currently only support groups of columns following their declared \
                     order in the PRIMARY KEY",
                );
            }
            next += 1;
        }
        if select.distinct && next > keys {
            return invalid(
                "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
            );
        }
        if next < keys {
            return invalid("Group by is not supported on only a part of the partition key");
        }
        if let Some(function) = &function {
            check_monotonic(function)?;
        }
        Ok(Some(Self {
            columns: next - usize::from(function.is_some()),
            function,
        }))
    }
}

/// Analyses an element of GROUP BY, which must be a column of the primary key or a call. Returns
/// the index of the column (for a call, of the column in it) among the columns of the table and,
/// for a call, the prepared call.
fn element(
    selector: &Selector,
    outputs: &mut Outputs,
    markers: &mut Markers,
) -> Result<(usize, Option<Output>)> {
    let schema = markers.schema().clone();
    if let Selector::Column(name) = selector {
        let at = place(&schema, column(&schema, name.as_str())?);
        return check_key(&schema, at).map(|()| (at, None));
    }
    let (output, _) = outputs.prepare(selector, None, markers)?;
    match output {
        // A column in parentheses, or cast to its own type.
        Output::Column(slot) => {
            let at = outputs.slots.columns()[slot];
            check_key(&schema, at).map(|()| (at, None))
        }
        Output::Aggregate(at) => {
            let (aggregate, _) = &outputs.aggregates[at];
            invalid(format!(
                "Aggregate functions are not supported within the GROUP BY clause, got: system.{}",
                aggregate.name()
            ))
        }
        Output::Call(..) => {
            let at = column_of(&output, outputs, &schema)?;
            Ok((at, Some(output)))
        }
        _ => only_functions(),
    }
}

/// Checks that a column belongs to the primary key. `at` is its index among the columns of the
/// table.
fn check_key(schema: &TableSchema, at: usize) -> Result<()> {
    let column = &schema.columns()[at];
    match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => Ok(()),
        _ => invalid(format!(
            "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
            column.name
        )),
    }
}

/// Returns the index, among the columns of the table, of the clustering column in a call. Returns
/// an error if the call contains no column, several columns, or a column of another kind.
fn column_of(call: &Output, outputs: &Outputs, schema: &TableSchema) -> Result<usize> {
    let columns = schema.columns();
    let mut found = Vec::new();
    collect_columns(call, outputs, &mut found);
    let [at] = found[..] else {
        if found.is_empty() {
            return invalid("GROUP BY functions must have one clustering column name as parameter");
        }
        let names: Vec<String> = (found.iter())
            .map(|&at| columns[at].name.to_string())
            .collect();
        return invalid(format!(
            "GROUP BY functions accept only one clustering column as parameter, got: {}",
            names.join(",")
        ));
    };
    if columns[at].kind != ColumnKind::Clustering {
        return invalid(format!(
            "Group by functions are only supported on clustering columns, got {}",
            columns[at].name
        ));
    }
    Ok(at)
}

/// Appends the columns in an expression to `found`, each column once, as its index among the
/// columns of the table.
fn collect_columns(output: &Output, outputs: &Outputs, found: &mut Vec<usize>) {
    let column = output.slot().map(|slot| outputs.slots.columns()[slot]);
    if let Some(at) = column.filter(|at| !found.contains(at)) {
        found.push(at);
    }
    let parts = match output {
        Output::Aggregate(at) => outputs.aggregates[*at].1.as_slice(),
        _ => output.parts(),
    };
    for part in parts {
        collect_columns(part, outputs, found);
    }
}

/// Checks that the value of an expression never decreases while its column increases: the
/// expression must be a column, or a monotonic function of such an expression and of constants.
fn check_monotonic(output: &Output) -> Result<()> {
    match output {
        Output::Column(_) => Ok(()),
        Output::Call(function, args) => match &args[..] {
            [first, rest @ ..]
                if function.is_monotonic()
                    && !is_constant(first)
                    && rest.iter().all(is_constant) =>
            {
                check_monotonic(first)
            }
            _ => invalid(format!(
                "Only monotonic functions are supported in the GROUP BY clause. Got: {}",
                signature(function, args)
            )),
        },
        _ => only_functions(),
    }
}

/// Returns whether an expression has the same value in all rows.
fn is_constant(output: &Output) -> bool {
    match output {
        Output::Term(_) => true,
        Output::Call(function, args) => {
            !VolatileCalls::is_volatile(function) && args.iter().all(is_constant)
        }
        _ => false,
    }
}

/// Returns the signature of a call as Cassandra prints it, for example `system.floor : (timestamp,
/// duration(constant)) -> timestamp`.
fn signature(function: &Function, args: &[Output]) -> String {
    let types: Vec<String> = (function.args().iter().zip(args))
        .map(|(ty, arg)| {
            let mark = if is_constant(arg) { "(constant)" } else { "" };
            format!("{ty}{mark}")
        })
        .collect();
    format!(
        "{} : ({}) -> {}",
        function.name(),
        types.join(", "),
        function.returns()
    )
}

fn only_functions<T>() -> Result<T> {
    invalid(
        "Only column names and monotonic scalar functions are supported in the GROUP BY clause.",
    )
}
