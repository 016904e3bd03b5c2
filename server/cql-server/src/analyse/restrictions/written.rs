//! The restrictions that writes permit on keys, which are fewer than those of SELECT.

use std::fmt;

use ebb_cql::syntax::ast::{Operator, Relation};
use ebb_model::schema::ColumnKind;

use super::relations::{Parsed, RestrictionKind};
use crate::error::{Result, invalid};

/// The properties of a write that decide which key columns its WHERE may restrict, and how.
#[derive(Debug, Clone, Copy)]
pub struct Writing {
    pub statement: Statement,
    /// The part of a row or partition that the statement writes.
    pub written: Written,
    /// The properties of the IF of the statement; `None` without IF.
    pub conditional: Option<Conditional>,
}

/// The properties of an IF that decide which keys the statement may name.
#[derive(Debug, Clone, Copy)]
pub struct Conditional {
    /// True if the statement writes more than static columns, whatever the IF tests.
    pub writes_rows: bool,
}

/// The kinds of writes. They are displayed as in error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    Insert,
    Update,
    Delete,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        })
    }
}

/// The part of the rows that a statement writes. It decides how many key columns the statement must
/// restrict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Only static columns.
    Statics,
    /// The statement writes regular columns, or a row without any value; or it writes static
    /// columns under a condition on a row.
    Rows,
    /// The statement deletes whole rows, or ranges of rows.
    Deleted,
}

/// Checks that no relation of a write is CONTAINS or CONTAINS KEY.
pub(super) fn check_operators(relations: &[Relation], statement: Statement) -> Result<()> {
    for relation in relations {
        if let Relation::Column {
            operator: operator @ (Operator::Contains | Operator::ContainsKey),
            ..
        } = relation
        {
            return invalid(format!("Cannot use {statement} with {}", operator.text()));
        }
    }
    Ok(())
}

/// Checks that the WHERE clause, `parsed`, restricts the key columns in a way that is permitted for
/// a write with the properties `writing`.
pub(super) fn check(parsed: &Parsed, writing: Writing) -> Result<()> {
    let Writing {
        statement,
        written,
        conditional,
    } = writing;
    if !parsed.tokens.is_empty() {
        return invalid(format!(
            "The token function cannot be used in WHERE clauses for {statement} statements"
        ));
    }
    let mut partition = parsed.peek(ColumnKind::PartitionKey);
    if !partition.all(|restriction| {
        matches!(
            restriction.kind,
            RestrictionKind::Equal(_) | RestrictionKind::In(_)
        )
    }) {
        return invalid(format!(
            "Only EQ and IN relation are supported on the partition key (unless you use the \
             token() function) for {statement} statements"
        ));
    }
    let missing = parsed.missing(ColumnKind::PartitionKey);
    if !missing.is_empty() {
        return invalid(format!(
            "Some partition key parts are missing: {}",
            missing.join(", ")
        ));
    }
    let others = parsed.others();
    if !others.is_empty() {
        // Cassandra's message ends with a space, too.
        return invalid(format!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            others.join(", ")
        ));
    }
    let is_restricted = parsed.has(ColumnKind::Clustering);
    // An INSERT with a clustering key creates the row beside the static column. An UPDATE or DELETE
    // of static columns would not touch the row that it names, so it is refused as a mistake.
    if written == Written::Statics && is_restricted && statement != Statement::Insert {
        return invalid(format!(
            "Invalid restrictions on clustering columns since the {statement} statement modifies \
             only static columns"
        ));
    }
    let is_delete = statement == Statement::Delete;
    // Before the checks below, whose errors would not mention the IF.
    if let Some(conditional) = conditional.filter(|_| is_delete) {
        check_conditional_delete(parsed, written, conditional)?;
    }
    let mut clustering = parsed.peek(ColumnKind::Clustering);
    if !is_delete
        && clustering.any(|restriction| matches!(restriction.kind, RestrictionKind::Slice(..)))
    {
        return invalid(format!(
            "Slice restrictions are not supported on the clustering columns in {statement} \
             statements"
        ));
    }
    let needs_all = match written {
        // An INSERT with a part of the clustering key names no row that it could create.
        Written::Statics => is_restricted,
        // `Restrictions::of_write` refuses a DELETE of columns from a range of rows, with another error.
        Written::Rows => !(is_delete && is_restricted),
        // A prefix of the clustering key, or none of it, names a range of rows.
        Written::Deleted => false,
    };
    let missing = parsed.missing(ColumnKind::Clustering);
    if needs_all && !missing.is_empty() {
        invalid(format!(
            "Some clustering keys are missing: {}",
            missing.join(", ")
        ))
    } else {
        Ok(())
    }
}

/// Checks that a DELETE with an IF names a single row, or deletes and tests static columns only.
fn check_conditional_delete(
    parsed: &Parsed,
    written: Written,
    conditional: Conditional,
) -> Result<()> {
    let mut clustering = parsed.peek(ColumnKind::Clustering);
    let is_equal =
        |kind: &RestrictionKind| matches!(kind, RestrictionKind::Equal(_) | RestrictionKind::In(_));
    let is_one_row = parsed.missing(ColumnKind::Clustering).is_empty()
        && clustering.all(|restriction| is_equal(&restriction.kind));
    if is_one_row {
        return Ok(());
    }
    const ALL: &str =
        "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order";
    match (conditional.writes_rows, written) {
        (true, _) => invalid(format!("{ALL} to delete non static columns")),
        (false, Written::Statics) => Ok(()),
        (false, _) => invalid(format!("{ALL} to use IF condition on non static columns")),
    }
}
