//! Select: the rows that meet conditions, and some of their columns; or a sample of rows,
//! as in Gridmix's job of this name.

mod condition;

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, TaskError};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub use self::condition::Condition;
use super::application::{Application, Materials};
use super::chain::Work;
use super::error::{JobError, RequestError};
use super::options::part_of_one;
use super::records::csv::push_fields;
use super::records::{Column, Columns, InvalidInput, InvalidRow, RecordFormat, check, double_name};
use super::seen::SeenColumns;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run select --csv trips.csv --where 'fare >= 50' --where 'city = Bonn' \\
      --columns fare,miles --output dear.csv
  ebb run select --table app.lines --keep 0.01 --output sample.tsv

A condition is COLUMN OP VALUE; OP is = != < <= > >= or ~, which is \"contains\". A VALUE
that is a number is compared with numbers, exactly, and any other VALUE with text; a row
whose field is of the other kind fails the job. A VALUE in quotes is compared as text with
any field: --where \"zip = '0123'\". A row without the column meets no condition. The columns
`key` and `value` are the row's key and its whole value.";

/// Select rows by conditions or as a sample, and columns of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectRequest {
    /// Condition that a row has to meet. With several, it has to meet all.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long = "where", value_name = "CONDITION"))]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub conditions: Vec<Condition>,
    /// Columns to write [default: the row unchanged].
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN,...", value_delimiter = ',')
    )]
    pub columns: Vec<String>,
    /// Keep a sample of about this fraction of the rows, 0 to 1.
    #[serde(default = "all")]
    #[cfg_attr(feature = "args", arg(long, value_name = "PART", default_value = "1"))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::part))]
    pub keep: f64,
}

/// Returns the default of `keep`, the fraction of the rows that are kept: 1, all rows.
fn all() -> f64 {
    1.0
}

impl Application for SelectRequest {
    const NAME: &'static str = "select";

    fn columns(&self) -> Option<Vec<&str>> {
        if self.columns.is_empty() {
            return None;
        }
        let conditions = self.conditions.iter().map(Condition::column);
        let columns = self.columns.iter().map(String::as_str);
        Some(columns.chain(conditions).collect())
    }

    fn check(&self) -> Result<(), RequestError> {
        part_of_one("keep", self.keep)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, format) = materials.input(0)?;
        let conditions = self.conditions.clone();
        let selection = Selection::new(format, conditions, &self.columns, self.keep);
        let mut selection = selection.map_err(JobError::senseless)?;
        if materials.writes_json {
            selection = selection.keeping_json();
        }
        let output = materials.destination.output(selection.rows())?;
        Ok(spec(Self::NAME, input, output, selection).into())
    }
}

/// The conditions, columns and sample size of a selection.
#[derive(Debug)]
pub struct Selection {
    conditions: Vec<Condition>,
    /// The columns that the conditions read, then the columns of the result.
    columns: Columns,
    /// If rows of JSON are written as JSON, and columns are selected: the columns of the result, and a
    /// reader that leaves each member in the form that it has in the input. Otherwise `None`.
    json: Option<(Vec<Column>, Columns)>,
    keep: f64,
    schema: Arc<RecordFormat>,
}

impl Selection {
    /// Creates a selection of the rows with the format `schema` that meet all `conditions`. The
    /// result has the columns `wanted`, or all columns if `wanted` is empty. `keep`, 0 to 1, is the
    /// fraction of these rows that are kept, chosen by the hash of the key.
    ///
    /// # Errors
    /// When a condition or `wanted` names a column that does not exist, or when `wanted` names a
    /// column twice.
    pub fn new(
        schema: &RecordFormat,
        conditions: Vec<Condition>,
        wanted: &[String],
        keep: f64,
    ) -> Result<Self, InvalidInput> {
        if let Some(name) = double_name(wanted) {
            return Err(InvalidInput(format!("column {name:?} is selected twice")));
        }
        let names = conditions.iter().map(Condition::column);
        let names: Vec<&str> = names.chain(wanted.iter().map(String::as_str)).collect();
        let columns = Columns::new(schema, &names);
        Ok(Self {
            columns: columns.map_err(|error| InvalidInput(error.to_string()))?,
            conditions,
            json: None,
            keep,
            schema: Arc::new(schema.clone()),
        })
    }

    /// Makes the selection write members of JSON as they are in the input, for an output that is
    /// JSON: a number stays a number. Changes nothing for rows that are not JSON.
    #[must_use]
    pub fn keeping_json(mut self) -> Self {
        if !self.wanted().is_empty() {
            self.json = Columns::as_json(&self.schema, self.wanted());
        }
        self
    }

    /// Returns the format of the result: only the selected columns, or the format of the
    /// input.
    pub fn rows(&self) -> Arc<RecordFormat> {
        match (self.wanted(), &self.json) {
            ([], _) => Arc::clone(&self.schema),
            (_, Some((columns, _))) => Arc::new(RecordFormat::values(columns.clone())),
            (_, None) => {
                let columns = self.columns.columns();
                Arc::new(RecordFormat::values(
                    columns[self.conditions.len()..].to_vec(),
                ))
            }
        }
    }

    fn wanted(&self) -> &[String] {
        &self.columns.names()[self.conditions.len()..]
    }

    fn keeps(&self, key: &[u8]) -> bool {
        self.keep >= 1.0 || (xxh3_64(key) as f64) < self.keep * 2_f64.powi(64)
    }
}

/// Returns a job without reduces. A row of the result has the key of a selected row. Its value is
/// that of the row, unchanged, or the selected columns: several columns are a CSV record, and
/// missing ones are empty there.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    selection: Selection,
) -> JobSpec {
    let seen = SeenColumns::new(selection.columns.names());
    let mapper = SelectMapper {
        selection,
        seen: Arc::clone(&seen),
    };
    seen.required(JobSpec::new(name, input, Arc::new(mapper), output))
}

struct SelectMapper {
    selection: Selection,
    seen: Arc<SeenColumns>,
}

impl Mapper for SelectMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let Selection {
            conditions,
            columns,
            json,
            schema,
            ..
        } = &self.selection;
        if !self.selection.keeps(key) {
            // A column may occur in these rows alone, and is not misspelt then. A row without the
            // declared format is no error, because it is not in the sample.
            if !self.seen.have_all_occurred() {
                drop(columns.read(key, value, |fields| {
                    self.seen.record(fields);
                    Ok(())
                }));
            }
            return Ok(());
        }
        let has_all = self.selection.wanted().is_empty();
        let mut wanted = Vec::new();
        let is_met = columns.read(key, value, |fields| {
            self.seen.record(fields);
            for (condition, field) in conditions.iter().zip(fields.iter()) {
                let Some(field) = field else {
                    return Ok(false);
                };
                let is_met = condition.is_met_by(field);
                if !is_met.map_err(|problem| InvalidRow::error(key, problem))? {
                    return Ok(false);
                }
            }
            push_fields(&mut wanted, fields.iter().skip(conditions.len()));
            Ok(true)
        })?;
        if !is_met {
            return Ok(());
        }
        if has_all {
            // Only the columns of the conditions were decoded, without conditions none. So the format of
            // the whole row is checked here.
            check(schema, key, value)?;
            return emit.emit(key, value);
        }
        if let Some((_, columns)) = json {
            // The fields above are decoded texts. The members are read again, as the input has them. Only
            // rows that meet the conditions come here, so no other row is read twice.
            wanted.clear();
            columns.read(key, value, |fields| {
                push_fields(&mut wanted, fields.iter());
                Ok(())
            })?;
        }
        emit.emit(key, &wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ValueFormat;
    use crate::testing::run;
    use crate::{RowFormat, RowWriter};

    fn selected(conditions: &[&str], wanted: &[&str], keep: f64) -> Vec<(String, String)> {
        let lines: Vec<String> = (0..2000)
            .map(|n| match n % 10 {
                9 => format!(r#"{{"n":{n}}}"#),
                _ => format!(r#"{{"n":{n},"name":"name {}","x":{}.5}}"#, n % 7, n % 13),
            })
            .collect();
        let conditions = conditions.iter().map(|text| text.parse().unwrap());
        let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
        let json = RecordFormat::file(ValueFormat::Json);
        let selection = Selection::new(&json, conditions.collect(), &wanted, keep).unwrap();
        run(&lines, 4, |input, output| {
            spec("select", input, output, selection)
        })
    }

    #[test]
    fn rows_that_meet_all_conditions_come_with_the_selected_columns() {
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
    fn a_sample_has_about_the_requested_size_and_is_the_same_every_time() {
        let found = selected(&[], &["n"], 0.25);
        assert!((400..600).contains(&found.len()), "{}", found.len());
        assert_eq!(selected(&[], &["n"], 0.25), found);
        assert_eq!(selected(&[], &["n"], 0.0), []);
        let twice = ["n".to_string(), "n".to_string()];
        let json = RecordFormat::file(ValueFormat::Json);
        assert!(Selection::new(&json, Vec::new(), &twice, 1.0).is_err());
    }

    /// Regression: the job failed, because no row of the sample had the column.
    #[test]
    fn a_column_that_only_rows_outside_of_the_sample_have_is_not_missing() {
        let json = RecordFormat::file(ValueFormat::Json);
        let half = || {
            let wanted = ["n".to_string(), "rare".to_string()];
            Selection::new(&json, Vec::new(), &wanted, 0.5).unwrap()
        };
        // The keys of the rows are their numbers in four digits.
        let sample = half();
        let mut rare = 0;
        let lines: Vec<String> = (0..100)
            .map(|n| {
                if sample.keeps(format!("{n:04}").as_bytes()) {
                    format!(r#"{{"n":{n}}}"#)
                } else {
                    rare += 1;
                    format!(r#"{{"n":{n},"rare":1}}"#)
                }
            })
            .collect();
        assert!((1..100).contains(&rare), "{rare}");
        let found = run(&lines, 4, |input, output| {
            spec("select", input, output, half())
        });
        assert_eq!(found.len(), 100 - rare);
    }

    #[test]
    fn for_an_output_of_json_selected_members_stay_as_they_are_written() {
        let lines = [r#"{"n":1.50,"s":"17","l":[1, 2]}"#, r#"{"n":"x","l":null}"#];
        let wanted = ["n", "s", "l"].map(str::to_string);
        let json = RecordFormat::file(ValueFormat::Json);
        let selection = Selection::new(&json, Vec::new(), &wanted, 1.0).unwrap();
        let selection = selection.keeping_json();
        let mut writer = RowWriter::new(RowFormat::JsonLines, selection.rows());
        let found = run(&lines.map(str::to_string), 1, |input, output| {
            spec("select", input, output, selection)
        });
        let mut written = Vec::new();
        for (key, value) in found {
            let (key, value) = (key.as_bytes(), value.as_bytes());
            written.extend_from_slice(writer.line(key, value).unwrap());
        }
        let expected = "{\"n\":1.50,\"s\":\"17\",\"l\":[1, 2]}\n\
                        {\"n\":\"x\",\"s\":null,\"l\":null}\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
