//! Combine: one row for all rows of a group. The combiners of the map tasks do most of the work, as
//! in Gridmix's job of the same name.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, TaskError, Values};
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::options::one;
use super::records::csv::push_fields;
use super::records::{Column, Columns, RecordFormat, UnknownColumn};
use super::seen::SeenColumns;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run combine --table app.lines --output -
  ebb run combine --csv trips.csv --by city,year --output cities.csv";

/// Count the rows of each group, and the bytes of their values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CombineRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
    /// Columns to group by [default: the key up to its last colon; for lines that were loaded from
    /// files, this is the file].
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN,...", value_delimiter = ',')
    )]
    pub by: Vec<String>,
}

impl Application for CombineRequest {
    const NAME: &'static str = "combine";

    fn reduces(&self) -> Option<u32> {
        Some(self.reduces)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, format) = materials.input(0)?;
        let grouping = Grouping::new(format, &self.by).map_err(JobError::senseless)?;
        let output = materials.destination.output(Arc::new(grouping.rows()))?;
        Ok(spec(Self::NAME, input, output, grouping, self.reduces).into())
    }
}

/// The rule by which rows are put into groups.
#[derive(Debug, Clone)]
pub enum Grouping {
    /// The key up to its last colon, which groups the lines of loaded files by file. A key
    /// without a colon is a group of its own.
    Key,
    /// Rows with the same values of these columns are a group; a column that a row lacks counts as
    /// empty text.
    Columns(Columns),
}

impl Grouping {
    /// Creates the grouping by the columns with the names `by`, of rows with the format `schema`;
    /// by the key if `by` is empty.
    ///
    /// # Errors
    /// When `schema` has no column of one of these names.
    pub fn new<S: AsRef<str>>(schema: &RecordFormat, by: &[S]) -> Result<Self, UnknownColumn> {
        Ok(match by {
            [] => Self::Key,
            by => Self::Columns(Columns::new(schema, by)?),
        })
    }

    /// Returns the format of the result: the columns of the group (for [`Key`](Self::Key), the
    /// column `group`), `rows` and `bytes`.
    pub fn rows(&self) -> RecordFormat {
        let group = match self {
            Self::Key => vec![Column::text("group")],
            Self::Columns(columns) => columns.columns().to_vec(),
        };
        let count = |name| Column::number(name).of_type("bigint");
        RecordFormat::rows(group, ["rows", "bytes"].map(count).to_vec())
    }
}

/// Returns a job that counts the rows of each group, and the bytes of their values, in `reduces`
/// reduce tasks (at least one). A row of the result has the group as its key; this is a CSV record
/// if several columns form the group. Its value is a CSV record of the number of rows and of the
/// number of bytes.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    grouping: Grouping,
    reduces: u32,
) -> JobSpec {
    let seen = SeenColumns::new(match &grouping {
        Grouping::Key => &[],
        Grouping::Columns(columns) => columns.names(),
    });
    let mapper = group_mapper(grouping, Arc::clone(&seen));
    let spec = JobSpec::new(name, input, Arc::new(mapper), output)
        .reducer(Arc::new(add), reduces.max(1))
        .combiner(Arc::new(add));
    seen.required(spec)
}

fn group_mapper(grouping: Grouping, seen: Arc<SeenColumns>) -> impl Mapper {
    move |key: &[u8], value: &[u8], emit: &mut dyn Emit| {
        let one = format!("1,{}", value.len());
        match &grouping {
            Grouping::Key => {
                let group = memchr::memrchr(b':', key).map_or(key, |at| &key[..at]);
                emit.emit(group, one.as_bytes())
            }
            Grouping::Columns(columns) => {
                let mut group = Vec::new();
                columns.read(key, value, |fields| {
                    seen.record(fields);
                    push_fields(&mut group, fields.iter());
                    Ok(())
                })?;
                emit.emit(&group, one.as_bytes())
            }
        }
    }
}

/// Adds up the numbers of rows and bytes of a key, from values that are CSV records `rows,bytes`.
/// The job uses this function as the combiner and as the reducer.
fn add(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    while let Some(value) = values.next_value()? {
        let text = std::str::from_utf8(value).ok();
        let pair = text.and_then(|text| text.split_once(','));
        let pair = pair.and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
        let (more_rows, more_bytes) =
            pair.ok_or_else(|| TaskError::failed("a sum is cut short"))?;
        rows += more_rows;
        bytes += more_bytes;
    }
    emit.emit(key, format!("{rows},{bytes}").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::records::ValueFormat;
    use crate::testing::run;

    #[test]
    fn a_group_has_the_sums_of_its_rows() {
        let lines: Vec<String> = (0..3000_usize)
            .map(|n| {
                format!(
                    "{},{}",
                    ["a", "b", "", "long name"][n * n % 4],
                    "x".repeat(n % 50)
                )
            })
            .collect();
        let mut expected: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for line in &lines {
            let sums = expected
                .entry(line.split(',').next().unwrap().into())
                .or_default();
            *sums = (sums.0 + 1, sums.1 + line.len());
        }
        let expected = expected
            .into_iter()
            .map(|(group, (rows, bytes))| (group, format!("{rows},{bytes}")));
        let unnamed = RecordFormat::file(ValueFormat::UnnamedCsv);
        let grouping = Grouping::new(&unnamed, &["1"]).unwrap();
        let found = run(&lines, 5, |input, output| {
            spec("combine", input, output, grouping, 1)
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn rows_are_grouped_by_the_key_up_to_its_last_colon() {
        let rows: Vec<_> = [("a:1", "x"), ("a:2", "yy"), ("a:b:1", ""), ("c", "z")]
            .map(|(key, value)| (key.into(), value.into()))
            .to_vec();
        let output = ebb_scheduler::runtime::VecOutput::new();
        let input = Arc::new(ebb_scheduler::runtime::VecInput::new(rows, 2));
        crate::testing::report(input, output.clone(), |input, output| {
            spec("combine", input, output, Grouping::Key, 1)
        });
        let rows: Vec<_> = (output.rows().unwrap().into_iter())
            .map(|(group, sums)| format!("{} {}", group.escape_ascii(), sums.escape_ascii()))
            .collect();
        assert_eq!(rows, ["a 2,3", "a:b 1,0", "c 1,1"]);
    }
}
