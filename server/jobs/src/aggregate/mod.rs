//! Aggregate: count, sum, smallest, greatest, mean and quantiles of columns, by
//! group.

mod group;
mod sketch;

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, Reducer, TaskError, Values};
use serde::{Deserialize, Serialize};

use self::group::{Group, Measures, combine_in_place};
pub use self::sketch::RELATIVE_ERROR;
use super::application::{Application, Materials};
use super::chain::Work;
use super::error::{JobError, RequestError};
use super::options::{one, part_of_one};
use super::records::csv::{push_fields, record};
use super::records::{Column, Columns, InvalidRow, Number, RecordFormat, UnknownColumn};
use super::seen::SeenColumns;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run aggregate --csv trips.csv --by city --of fare,miles --output -
  ebb run aggregate --table app.events --values json --by user.country --of ms \\
      --quantiles 0.5,0.99 --output latencies.csv

The result has for each column: count, sum, min, max, mean, and the quantiles, which are
within half a percent of the value of that rank. Rows without the column are not counted.
Sums are exact. A mean has 20 digits.";

/// Compute count, sum, min, max, mean and quantiles of columns, by group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AggregateRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
    /// Columns to group by [default: one group of all rows].
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN,...", value_delimiter = ',')
    )]
    pub by: Vec<String>,
    /// Columns of numbers to aggregate.
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN,...", value_delimiter = ',')
    )]
    pub of: Vec<String>,
    /// Quantiles to compute of the aggregated columns, each from 0 to 1.
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "Q,...", value_delimiter = ',')
    )]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::part))]
    pub quantiles: Vec<f64>,
}

impl Application for AggregateRequest {
    const NAME: &'static str = "aggregate";

    fn columns(&self) -> Option<Vec<&str>> {
        let columns = self.by.iter().chain(&self.of);
        Some(columns.map(String::as_str).collect())
    }

    fn reduces(&self) -> Option<u32> {
        Some(self.reduces)
    }

    fn check(&self) -> Result<(), RequestError> {
        (self.quantiles.iter()).try_for_each(|part| part_of_one("quantiles", *part))
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, format) = materials.input(0)?;
        let aggregation = Aggregation::new(format, &self.by, &self.of, self.quantiles.clone());
        let aggregation = aggregation.map_err(JobError::senseless)?;
        let output = materials.destination.output(Arc::new(aggregation.rows()))?;
        Ok(spec(Self::NAME, input, output, aggregation, self.reduces).into())
    }
}

/// The integer types of CQL.
const INTEGERS: [&str; 6] = ["bigint", "counter", "int", "smallint", "tinyint", "varint"];

/// The columns to group by and to aggregate, and the quantiles.
#[derive(Debug, Clone)]
pub struct Aggregation {
    /// The columns to group by, then the columns to aggregate.
    columns: Columns,
    groups: usize,
    quantiles: Vec<f64>,
}

impl Aggregation {
    /// Creates the aggregation of the columns `of`, grouped by the columns `by`, over rows
    /// with the format `schema`. Without `by`, all rows are one group. `quantiles` lie from
    /// 0 to 1.
    ///
    /// # Errors
    /// When `schema` lacks one of the columns.
    pub fn new(
        schema: &RecordFormat,
        by: &[String],
        of: &[String],
        quantiles: Vec<f64>,
    ) -> Result<Self, UnknownColumn> {
        let names: Vec<&String> = by.iter().chain(of).collect();
        Ok(Self {
            columns: Columns::new(schema, &names)?,
            groups: by.len(),
            quantiles,
        })
    }

    fn has_sketch(&self) -> bool {
        !self.quantiles.is_empty()
    }

    fn names(&self) -> (&[String], &[String]) {
        self.columns.names().split_at(self.groups)
    }

    /// Returns the format of the result: the columns of the group (without any, the column
    /// `group`), `rows`, and for each aggregated column `NAME_count`, `NAME_sum`, `NAME_min`,
    /// `NAME_max`, `NAME_avg`, and for example `NAME_p50` for the quantile 0.5.
    pub fn rows(&self) -> RecordFormat {
        let (by, of) = self.columns.columns().split_at(self.groups);
        let group = match by {
            [] => vec![Column::text("group")],
            by => by.to_vec(),
        };
        let mut columns = vec![Column::number("rows").of_type("bigint")];
        for Column { name, ty, .. } in of {
            let is_integer = ty.as_ref().is_some_and(|ty| INTEGERS.contains(&&ty[..]));
            let ends = match ty {
                Some(ty) if is_integer => ty,
                _ => "decimal",
            };
            let sum = if is_integer { "varint" } else { "decimal" };
            for (what, ty) in [
                ("count", "bigint"),
                ("sum", sum),
                ("min", ends),
                ("max", ends),
                ("avg", "decimal"),
            ] {
                columns.push(Column::number(format!("{name}_{what}")).of_type(ty));
            }
            for q in &self.quantiles {
                // Without trailing zeros: 0.999 is p99.9.
                let percent = format!("{:.9}", q * 100.0);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                columns.push(Column::number(format!("{name}_p{percent}")));
            }
        }
        RecordFormat::rows(group, columns)
    }
}

/// Returns a job that aggregates in `reduces` reduce tasks, at least one. The rows of the result
/// have the format [`Aggregation::rows`]. All numbers are exact, except for means (see
/// [`Number::mean`]) and quantiles, whose relative error is at most [`RELATIVE_ERROR`].
///
/// A row that lacks a column to aggregate, or has an empty field there, does not count for that
/// column. In a column to group by, a missing field counts as empty text. The job fails if it reads
/// rows and one of the columns occurs in none of them, or if a field to aggregate is no number.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    aggregation: Aggregation,
    reduces: u32,
) -> JobSpec {
    let seen = SeenColumns::new(aggregation.columns.names());
    let has_sketch = aggregation.has_sketch();
    let aggregation = Arc::new(aggregation);
    let combiner = group_combiner(Arc::clone(&aggregation));
    let reducer = fields_reducer(Arc::clone(&aggregation));
    let mapper = GroupMapper {
        aggregation,
        seen: Arc::clone(&seen),
    };
    let mut spec = JobSpec::new(name, input, Arc::new(mapper), output)
        .reducer(Arc::new(reducer), reduces.max(1))
        .combiner(Arc::new(combiner));
    if !has_sketch {
        // Groups with sketches have no fixed length, so maps would look them up in vain.
        spec = spec.in_place_combiner(Arc::new(combine_in_place));
    }
    seen.required(spec)
}

/// The mapper of an aggregation. Emits each row as the aggregates of a group with one row.
struct GroupMapper {
    aggregation: Arc<Aggregation>,
    seen: Arc<SeenColumns>,
}

impl Mapper for GroupMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let Aggregation {
            columns, groups, ..
        } = &*self.aggregation;
        let has_sketch = self.aggregation.has_sketch();
        let mut name = Vec::new();
        let mut group = Group {
            rows: 1,
            measures: Vec::with_capacity(columns.names().len() - groups),
        };
        columns.read(key, value, |fields| {
            self.seen.record(fields);
            push_fields(&mut name, fields.iter().take(*groups));
            for at in *groups..fields.len() {
                let number = columns.number(at, fields.get(at), key)?;
                let sketched = match (&number, has_sketch) {
                    (Some(number), true) => Some(sketched(number, key, &columns.names()[at])?),
                    _ => None,
                };
                group.measures.push(Measures::of_row(number, sketched));
            }
            Ok(())
        })?;
        if *groups == 0 {
            name.extend_from_slice(b"all");
        }
        emit.emit(&name, &group.encode_for_map(has_sketch))
    }
}

/// Returns the float that represents a number in a sketch. It is an error if the absolute value of
/// the number is beyond the range of floats: larger than about 1e308, or below about 1e-323 and not
/// 0.
fn sketched(number: &Number, key: &[u8], column: &str) -> Result<f64, TaskError> {
    let float = number.to_f64();
    let is_there = float.is_finite() && (float != 0.0 || *number == Number::default());
    if is_there {
        Ok(float)
    } else {
        Err(InvalidRow::error(
            key,
            format!(
                "column {column} is {number}, and quantiles take numbers of a size from 1e-323 \
                 to 1e308 only"
            ),
        ))
    }
}

/// Combines the values of a group, which are aggregates of parts of its rows.
fn combine(values: &mut Values<'_>, aggregation: &Aggregation) -> Result<Group, TaskError> {
    let columns = aggregation.names().1.len();
    let mut group = Group::new(columns);
    while let Some(value) = values.next_value()? {
        let part = Group::decode(value, columns, aggregation.has_sketch());
        group.merge(part.ok_or_else(|| TaskError::failed("a group is cut short"))?);
    }
    Ok(group)
}

fn group_combiner(aggregation: Arc<Aggregation>) -> impl Reducer {
    move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
        let group = combine(values, &aggregation)?;
        emit.emit(key, &group.encode(aggregation.has_sketch()))
    }
}

fn fields_reducer(aggregation: Arc<Aggregation>) -> impl Reducer {
    move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
        let group = combine(values, &aggregation)?;
        let mut fields = vec![group.rows.to_string()];
        for measures in &group.measures {
            measures.push_fields(&aggregation.quantiles, &mut fields);
        }
        emit.emit(key, &record(&fields))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::records::ValueFormat;
    use crate::testing::run;
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn format() -> RecordFormat {
        let columns = names(&["city", "kind", "n", "x"]);
        RecordFormat::file(ValueFormat::csv(Some(&columns)).unwrap())
    }

    #[test]
    fn every_group_has_its_numbers() {
        for_seeds("every_group_has_its_numbers", 1, |seed| {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let mut lines = Vec::new();
            // By group: rows, and the numbers themselves.
            let mut expected: BTreeMap<String, (u64, Vec<i64>)> = BTreeMap::new();
            for _ in 0..4000 {
                let city = ["Aarhus", "Bonn", "Cork, IE"][rng.random_range(0..3)];
                let n: i64 = rng.random_range(-1000..1000);
                let (rows, numbers) = expected.entry(city.into()).or_default();
                *rows += 1;
                let field = match rng.random_range(0..10) {
                    0 => String::new(),
                    _ => {
                        numbers.push(n);
                        n.to_string()
                    }
                };
                lines.push(format!("\"{city}\",k,{field},1"));
            }
            let quantiles = vec![0.5, 0.999];
            let aggregation =
                Aggregation::new(&format(), &names(&["city"]), &names(&["n"]), quantiles).unwrap();
            let columns = aggregation.rows().columns();
            let columns: Vec<_> = columns.iter().map(|column| &column.name[..]).collect();
            assert_eq!(
                columns,
                [
                    "city", "rows", "n_count", "n_sum", "n_min", "n_max", "n_avg", "n_p50",
                    "n_p99.9"
                ]
            );
            let found = run(&lines, 6, |input, output| {
                spec("aggregate", input, output, aggregation, 1)
            });
            assert_eq!(found.len(), expected.len());
            for ((group, row), (city, (rows, mut numbers))) in found.into_iter().zip(expected) {
                assert_eq!(group, city);
                numbers.sort();
                let fields: Vec<f64> = row.split(',').map(|field| field.parse().unwrap()).collect();
                let (count, sum) = (numbers.len() as f64, numbers.iter().sum::<i64>() as f64);
                let (min, max) = (numbers[0] as f64, numbers[numbers.len() - 1] as f64);
                assert_eq!(
                    fields[..6],
                    [rows as f64, count, sum, min, max, sum / count]
                );
                for (field, q) in fields[6..].iter().zip([0.5, 0.999]) {
                    let exact = numbers[(q * count).ceil() as usize - 1] as f64;
                    // A little more than the bound: the middle of a bucket is rounded, too.
                    assert!(
                        (field - exact).abs() <= exact.abs() * RELATIVE_ERROR * 1.000_002,
                        "{field} {exact}"
                    );
                }
            }
        });
    }

    #[test]
    fn rows_without_groups_or_columns_are_counted() {
        let aggregation = Aggregation::new(&format(), &[], &[], vec![]).unwrap();
        let found = run(&["a,b,1,2", "b,,,", "c,,,"], 2, |input, output| {
            spec("aggregate", input, output, aggregation, 1)
        });
        assert_eq!(found, [("all".to_string(), "3".to_string())]);
        let by = names(&["city", "kind"]);
        let aggregation = Aggregation::new(&format(), &by, &names(&["x"]), vec![]).unwrap();
        let found = run(&["a,\"b,c\",1,", "a,\"b,c\",2,  "], 2, |input, output| {
            spec("aggregate", input, output, aggregation, 1)
        });
        let row = ("a,\"b,c\"".to_string(), "2,0,,,,".to_string());
        assert_eq!(found, [row]);
    }

    #[test]
    fn sums_and_ends_are_exact_and_what_a_sketch_cannot_hold_is_refused() {
        let lines = [
            "a,k,9007199254740993,0.1",
            "a,k,1,0.2",
            "a,k,-9007199254740993,1e400",
        ];
        let of = names(&["n", "x"]);
        let aggregation = Aggregation::new(&format(), &names(&["city"]), &of, vec![]).unwrap();
        let found = run(&lines, 2, |input, output| {
            spec("aggregate", input, output, aggregation, 1)
        });
        let digits = format!("1{}", "0".repeat(400));
        let numbers = "3,3,1,-9007199254740993,9007199254740993,0.33333333333333333333,3";
        let expected = format!("{numbers},{digits}.3,0.1,1e400,3.3333333333333333333e399");
        assert_eq!(found, [("a".to_string(), expected)]);
        let error = sketched(&Number::parse(b"1e400").unwrap(), b"row7", "x").unwrap_err();
        assert!(error.to_string().contains("row7"), "{error}");
        assert!(sketched(&Number::default(), b"row7", "x").is_ok());
    }
}
