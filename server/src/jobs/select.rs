//! Select: rows that meet conditions, and of them the columns that are wanted;
//! or a sample of rows, as Gridmix's job of this name keeps.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, TaskError};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::Application;
use super::outputs::Column;
use super::records::csv::record;
use super::records::{Columns, RecordFormat, UnknownColumn};

/// What a listing says about it.
pub const APPLICATION: Application = Application {
    name: "select",
    summary: "Selects rows by conditions or as a sample, and columns of them.",
};

/// What its rows have, for the columns that are wanted.
pub fn columns(wanted: &[String]) -> Vec<Column> {
    let key = [Column::text("key")].into_iter();
    match wanted {
        [] => key.chain([Column::text("value")]).collect(),
        wanted => key.chain(wanted.iter().map(Column::text)).collect(),
    }
}

/// `COLUMN OP VALUE`, where OP is `=`, `!=`, `<`, `<=`, `>`, `>=` or `~`, which is
/// "contains". Compared as numbers where both sides are numbers, else as bytes. A
/// row without the column meets none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Condition {
    column: String,
    operator: Operator,
    value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Contains,
}

/// Those of two characters first: `<` is the start of `<=`.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The first operator counts, the longer one of two that begin there.
        let found = OPERATORS.iter().filter_map(|(sign, operator)| {
            let at = text.find(sign)?;
            Some((at, std::cmp::Reverse(sign.len()), *sign, *operator))
        });
        let found = found.min_by_key(|&(at, length, ..)| (at, length));
        let split = found.map(|(at, _, sign, operator)| {
            (text[..at].trim(), operator, text[at + sign.len()..].trim())
        });
        match split {
            Some((column, operator, value)) if !column.is_empty() => Ok(Self {
                column: column.to_string(),
                operator,
                value: value.to_string(),
            }),
            _ => Err("expected COLUMN OP VALUE with OP one of = != < <= > >= ~, \
                      as in \"age >= 18\""
                .to_string()),
        }
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = OPERATORS.iter().find(|(_, other)| *other == self.operator);
        let sign = sign.map_or("", |(sign, _)| sign);
        write!(f, "{} {sign} {}", self.column, self.value)
    }
}

impl Condition {
    fn is_met_by(&self, field: &[u8]) -> bool {
        let wanted = self.value.as_bytes();
        if self.operator == Operator::Contains {
            return memchr::memmem::find(field, wanted).is_some();
        }
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.trim().parse::<f64>().ok();
        let order = match (number(field), number(wanted)) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => Some(field.cmp(wanted)),
        };
        // Not a number is neither below nor above, and not equal.
        match self.operator {
            Operator::Equal => order.is_some_and(|order| order.is_eq()),
            Operator::NotEqual => !order.is_some_and(|order| order.is_eq()),
            Operator::Less => order.is_some_and(|order| order.is_lt()),
            Operator::AtMost => order.is_some_and(|order| order.is_le()),
            Operator::Greater => order.is_some_and(|order| order.is_gt()),
            Operator::AtLeast => order.is_some_and(|order| order.is_ge()),
            Operator::Contains => unreachable!("answered above"),
        }
    }
}

/// What is selected.
#[derive(Debug, Clone)]
pub struct Selection {
    conditions: Vec<Condition>,
    /// The conditions' columns, then those that are wanted.
    columns: Columns,
    keep: f64,
}

impl Selection {
    /// Of values in `format` those that meet all `conditions`, and of them the
    /// `wanted` columns, or all of the value without any; of those a sample of
    /// about the part `keep`, 0 to 1, by the hash of the key.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn new(
        format: &RecordFormat,
        conditions: Vec<Condition>,
        wanted: &[String],
        keep: f64,
    ) -> Result<Self, UnknownColumn> {
        let names = conditions.iter().map(|condition| &condition.column);
        let names: Vec<&String> = names.chain(wanted).collect();
        Ok(Self {
            columns: Columns::new(format, &names)?,
            conditions,
            keep,
        })
    }

    fn keeps(&self, key: &[u8]) -> bool {
        self.keep >= 1.0 || (xxh3_64(key) as f64) < self.keep * 2_f64.powi(64)
    }
}

/// A job of maps only. Its rows: the key of a selected row, and its value as it
/// is, or the wanted columns; several as a CSV record, missing ones empty.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    selection: Selection,
) -> JobSpec {
    let mapper = SelectMapper { selection };
    JobSpec::new(name, input, Arc::new(mapper), output)
}

struct SelectMapper {
    selection: Selection,
}

impl Mapper for SelectMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let Selection {
            conditions,
            columns,
            ..
        } = &self.selection;
        if !self.selection.keeps(key) {
            return Ok(());
        }
        let fields = columns.read(key, value)?;
        let (conditioned, wanted) = fields.split_at(conditions.len());
        let is_met = |(condition, field): (&Condition, &Option<Vec<u8>>)| {
            field
                .as_deref()
                .is_some_and(|field| condition.is_met_by(field))
        };
        if !conditions.iter().zip(conditioned).all(is_met) {
            return Ok(());
        }
        let bytes = |field: &Option<Vec<u8>>| field.clone().unwrap_or_default();
        match wanted {
            [] => emit.emit(key, value),
            [field] => emit.emit(key, &bytes(field)),
            several => emit.emit(key, &record(several.iter().map(bytes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::run;

    fn selected(conditions: &[&str], wanted: &[&str], keep: f64) -> Vec<(String, String)> {
        let lines: Vec<String> = (0..2000)
            .map(|n| match n % 10 {
                9 => format!(r#"{{"n":{n}}}"#),
                _ => format!(r#"{{"n":{n},"name":"name {}","x":{}.5}}"#, n % 7, n % 13),
            })
            .collect();
        let conditions = conditions.iter().map(|text| text.parse().unwrap());
        let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
        let selection =
            Selection::new(&RecordFormat::Json, conditions.collect(), &wanted, keep).unwrap();
        run(&lines, 4, |input, output| {
            spec("select", input, output, selection)
        })
    }

    #[test]
    fn rows_that_meet_all_conditions_come_with_the_wanted_columns() {
        let found = selected(&["x >= 10.5", "name != name 3"], &["n", "name"], 1.0);
        let expected: Vec<_> = (0..2000)
            .filter(|n| n % 10 != 9 && n % 13 >= 10 && n % 7 != 3)
            .map(|n| (format!("{n:04}"), format!("{n},name {}", n % 7)))
            .collect();
        assert_eq!(found, expected);
        let found = selected(&["n<10", "x ~ .5"], &["n"], 1.0);
        let expected = (0..9).map(|n| (format!("{n:04}"), n.to_string()));
        assert_eq!(found, expected.collect::<Vec<_>>());
        let found = selected(&["n = 9"], &[], 1.0);
        assert_eq!(found, [("0009".to_string(), r#"{"n":9}"#.to_string())]);
    }

    #[test]
    fn a_sample_is_about_as_large_as_wanted_and_the_same_every_time() {
        let found = selected(&[], &["n"], 0.25);
        assert!((400..600).contains(&found.len()), "{}", found.len());
        assert_eq!(selected(&[], &["n"], 0.25), found);
        assert_eq!(selected(&[], &["n"], 0.0), []);
    }

    #[test]
    fn a_condition_is_read_and_told_in_the_same_words() {
        for (text, told) in [
            ("age>=18", "age >= 18"),
            ("a != b", "a != b"),
            ("name ~ =x", "name ~ =x"),
            ("a =", "a = "),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), told);
        }
        for bad in ["", "age", "=3", " < 3"] {
            assert!(bad.parse::<Condition>().is_err(), "{bad}");
        }
        let met = |text: &str, field: &str| {
            text.parse::<Condition>()
                .unwrap()
                .is_met_by(field.as_bytes())
        };
        assert!(met("a < 10", "9") && !met("a < x10", "x9"));
        assert!(met("a = 1.0", "1") && met("a != 1", "x"));
    }
}
