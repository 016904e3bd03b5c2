//! Printing of INSERT, UPDATE, DELETE, BATCH.

use std::fmt::{Display, Formatter, Result};

use super::select::Where;
use crate::syntax::ast::{
    Assignment, Batch, BatchKind, Change, Delete, DeleteTarget, Insert, InsertSource, Term, Update,
    Using, Write,
};
use crate::syntax::print::comma;

impl Display for Write {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Write::Insert(insert) => insert.fmt(f),
            Write::Update(update) => update.fmt(f),
            Write::Delete(delete) => delete.fmt(f),
        }
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "INSERT INTO {} ", self.table)?;
        match &self.source {
            InsertSource::Values { columns, values } => {
                write!(f, "({}) VALUES ({})", comma(columns), comma(values))?;
            }
            InsertSource::Json {
                value,
                default_unset,
            } => {
                write!(f, "JSON {value}")?;
                if *default_unset {
                    f.write_str(" DEFAULT UNSET")?;
                }
            }
        }
        if self.if_not_exists {
            f.write_str(" IF NOT EXISTS")?;
        }
        self.using.fmt(f)
    }
}

/// Prints ` USING ...`, or nothing; markers in the order of their indexes.
impl Display for Using {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.timestamp, &self.ttl) {
            (None, None) => Ok(()),
            (Some(timestamp), None) => write!(f, " USING TIMESTAMP {timestamp}"),
            (None, Some(ttl)) => write!(f, " USING TTL {ttl}"),
            (Some(Term::Marker(timestamp)), Some(Term::Marker(ttl)))
                if ttl.index < timestamp.index =>
            {
                write!(f, " USING TTL {ttl} AND TIMESTAMP {timestamp}")
            }
            (Some(timestamp), Some(ttl)) => {
                write!(f, " USING TIMESTAMP {timestamp} AND TTL {ttl}")
            }
        }
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Update {
            table,
            using,
            assignments,
            relations,
            condition,
        } = self;
        let set = comma(assignments);
        let relations = Where(relations);
        write!(f, "UPDATE {table}{using} SET {set}{relations}{condition}")
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let column = &self.column;
        match &self.change {
            Change::Set(value) => write!(f, "{column} = {value}"),
            Change::Add(value) => write!(f, "{column} = {column} + {value}"),
            Change::Subtract(value) => write!(f, "{column} = {column} - {value}"),
            Change::Prepend(value) => write!(f, "{column} = {value} + {column}"),
            Change::Element { key, value } => write!(f, "{column}[{key}] = {value}"),
            Change::Field { field, value } => write!(f, "{column}.{field} = {value}"),
        }
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("DELETE ")?;
        if !self.targets.is_empty() {
            write!(f, "{} ", comma(&self.targets))?;
        }
        write!(f, "FROM {}", self.table)?;
        if let Some(timestamp) = &self.timestamp {
            write!(f, " USING TIMESTAMP {timestamp}")?;
        }
        write!(f, "{}{}", Where(&self.relations), self.condition)
    }
}

impl Display for DeleteTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", self.column, self.part)
    }
}

impl Display for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let kind = match self.kind {
            BatchKind::Logged => "",
            BatchKind::Unlogged => "UNLOGGED ",
            BatchKind::Counter => "COUNTER ",
        };
        write!(f, "BEGIN {kind}BATCH{} ", self.using)?;
        for write in &self.writes {
            write!(f, "{write}; ")?;
        }
        f.write_str("APPLY BATCH")
    }
}
