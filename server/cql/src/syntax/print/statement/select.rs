//! Printing of SELECT, relations and conditions.

use std::fmt::{Display, Formatter, Result};

use crate::syntax::ast::{
    ColumnCondition, ColumnTest, Condition, Part, Relation, Select, Selected, Selection,
};
use crate::syntax::print::{JoinedItems, comma};

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SELECT ")?;
        if self.json {
            f.write_str("JSON ")?;
        }
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        match &self.selection {
            Selection::All => f.write_str("*")?,
            Selection::Some(selected) => comma(selected).fmt(f)?,
        }
        write!(f, " FROM {}", self.from)?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, " USING SNAPSHOT {snapshot}")?;
        }
        Where(&self.relations).fmt(f)?;
        if !self.group_by.is_empty() {
            write!(f, " GROUP BY {}", comma(&self.group_by))?;
        }
        for (at, (column, order)) in self.order_by.iter().enumerate() {
            let before = if at > 0 { ", " } else { " ORDER BY " };
            write!(f, "{before}{column} {order}")?;
        }
        if let Some(limit) = &self.per_partition_limit {
            write!(f, " PER PARTITION LIMIT {limit}")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        if self.allow_filtering {
            f.write_str(" ALLOW FILTERING")?;
        }
        Ok(())
    }
}

impl Display for Selected {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.selector.fmt(f)?;
        match &self.alias {
            Some(alias) => write!(f, " AS {alias}"),
            None => Ok(()),
        }
    }
}

/// Prints ` WHERE a AND b`, or nothing.
pub(super) struct Where<'a>(pub &'a [Relation]);

impl Display for Where<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            [] => Ok(()),
            relations => write!(f, " WHERE {}", JoinedItems(relations, " AND ")),
        }
    }
}

/// Prints ` IF ...`, or nothing.
impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Condition::None => Ok(()),
            Condition::Exists => f.write_str(" IF EXISTS"),
            Condition::All(all) => write!(f, " IF {}", JoinedItems(all, " AND ")),
        }
    }
}

impl Display for ColumnCondition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{} ", self.column, self.part)?;
        match &self.test {
            ColumnTest::Compare(operator, value) => write!(f, "{operator} {value}"),
            ColumnTest::In(values) => write!(f, "IN {values}"),
        }
    }
}

/// Prints `[key]`, `.field`, or nothing.
impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Part::Whole => Ok(()),
            Part::Element(key) => write!(f, "[{key}]"),
            Part::Field(field) => write!(f, ".{field}"),
        }
    }
}
