//! What statements that write may ask of keys, which is less than a SELECT may.

use std::fmt;

use ebb_model::schema::ColumnKind;

use super::relations::{Ask, Parsed};
use crate::error::{Result, invalid};

/// A statement that writes, as far as its keys are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Writing {
    pub statement: Statement,
    /// What of the rows it writes.
    pub written: Written,
    pub conditional: Option<Conditional>,
}

/// A statement with an IF, as far as its keys are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Conditional {
    /// It writes more than static columns, whatever it asks.
    pub writes_rows: bool,
}

/// The statements that write; shown as messages name them.
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

/// What of the rows a statement writes: its keys need not say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Static columns and no others.
    Statics,
    /// Columns of rows.
    Rows,
    /// Whole rows go: ranges of them too.
    Deleted,
}

/// Holds relations to what such a statement may say.
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
    if !partition.all(|asked| matches!(asked.ask, Ask::Equal(_) | Ask::In(_))) {
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
        return invalid(format!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            others.join(", ")
        ));
    }
    let is_restricted = parsed.has(ColumnKind::Clustering);
    if written == Written::Statics && is_restricted && statement != Statement::Insert {
        return invalid(format!(
            "Invalid restrictions on clustering columns since the {statement} statement modifies \
             only static columns"
        ));
    }
    let is_delete = statement == Statement::Delete;
    if let Some(conditional) = conditional.filter(|_| is_delete) {
        check_conditional_delete(parsed, written, conditional)?;
    }
    let mut clustering = parsed.peek(ColumnKind::Clustering);
    if !is_delete && clustering.any(|asked| matches!(asked.ask, Ask::Slice(..))) {
        return invalid(format!(
            "Slice restrictions are not supported on the clustering columns in {statement} \
             statements"
        ));
    }
    let needs_all = match written {
        Written::Statics => is_restricted,
        Written::Rows => !(is_delete && is_restricted),
        Written::Deleted => false,
    };
    let missing = parsed.missing(ColumnKind::Clustering);
    match needs_all && !missing.is_empty() {
        true => invalid(format!(
            "Some clustering keys are missing: {}",
            missing.join(", ")
        )),
        false => Ok(()),
    }
}

/// A DELETE with an IF is of one row, or of static columns.
fn check_conditional_delete(
    parsed: &Parsed,
    written: Written,
    conditional: Conditional,
) -> Result<()> {
    let mut clustering = parsed.peek(ColumnKind::Clustering);
    let is_equal = |ask: &Ask| matches!(ask, Ask::Equal(_) | Ask::In(_));
    let is_one_row = parsed.missing(ColumnKind::Clustering).is_empty()
        && clustering.all(|asked| is_equal(&asked.ask));
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
