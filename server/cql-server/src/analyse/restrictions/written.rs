//! The restrictions that writes permit on keys, which are fewer than those of SELECT.

use std::fmt;

use ebb_cql::syntax::ast::{Operator, Relation};
use ebb_model::schema::ColumnKind;

use super::relations::{Parsed, Restriction, RestrictionKind};
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
    /// True if the statement writes more than static columns. The columns that the IF tests do not
    /// matter here.
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
pub(super) fn check_keys(parsed: &Parsed, writing: Writing) -> Result<()> {
    let Writing {
        statement, written, ..
    } = writing;
    if !parsed.tokens.is_empty() {
        return invalid(format!(
            "The token function cannot be used in WHERE clauses for {statement} statements"
        ));
    }
    let missing = parsed.missing(ColumnKind::PartitionKey);
    if !missing.is_empty() {
        return invalid(format!(
            "Some partition key parts are missing: {}",
            missing.join(", ")
        ));
    }
    let is_slice =
        |restriction: &Restriction| matches!(restriction.kind, RestrictionKind::Slice(..));
    if parsed.peek(ColumnKind::PartitionKey).any(is_slice) {
        return invalid(format!(
            "Only EQ and IN relation are supported on the partition key (unless you use the \
             token() function) for {statement} statements"
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
    // A DELETE may name a range of rows. `check_rows` refuses the ranges that a DELETE may not name.
    if statement == Statement::Delete {
        return Ok(());
    }
    if parsed.peek(ColumnKind::Clustering).any(is_slice) {
        return invalid(format!(
            "Slice restrictions are not supported on the clustering columns in {statement} \
             statements"
        ));
    }
    let missing = parsed.missing(ColumnKind::Clustering);
    // An INSERT of static columns with a part of the clustering key names no row that it could create.
    if !missing.is_empty() && (written != Written::Statics || is_restricted) {
        return invalid(format!(
            "Some clustering keys are missing: {}",
            missing.join(", ")
        ));
    }
    Ok(())
}

/// Checks the rest of the WHERE clause of a write, after [`check_keys`] has accepted the
/// restrictions on keys. `parsed` has the remaining restrictions: one on a column outside of the
/// key is an error. `names_rows` is true if the restrictions on keys name single rows. Otherwise
/// they name ranges of rows, which is an error except for two kinds of writes: those that delete
/// whole rows without IF, and those of static columns alone whose IF, if there is one, tests no
/// regular column.
pub(super) fn check_rows(parsed: &Parsed, names_rows: bool, writing: Writing) -> Result<()> {
    let others = parsed.others();
    if !others.is_empty() {
        // Cassandra's message ends with a space, too.
        return invalid(format!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            others.join(", ")
        ));
    }
    if names_rows || writing.written == Written::Statics {
        return Ok(());
    }
    // Only a DELETE may name ranges of rows.
    const ALL: &str =
        "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order";
    match (writing.conditional, writing.written) {
        (Some(Conditional { writes_rows: true }), _) => {
            invalid(format!("{ALL} to delete non static columns"))
        }
        (Some(_), _) => invalid(format!("{ALL} to use IF condition on non static columns")),
        (None, Written::Rows) => invalid("Range deletions are not supported for specific columns"),
        (None, _) => Ok(()),
    }
}
