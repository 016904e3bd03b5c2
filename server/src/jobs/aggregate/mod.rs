//! Aggregate: count, sum, smallest, greatest, mean and quantiles of columns, by
//! group.

mod sketch;

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, Reducer, TaskError, Values};

pub use self::sketch::RELATIVE_ERROR;
use self::sketch::{Sketch, take};
use super::Application;
use super::outputs::Column;
use super::records::csv::record;
use super::records::{Columns, RecordFormat, UnknownColumn, number};

/// What a listing says about it.
pub const APPLICATION: Application = Application {
    name: "aggregate",
    summary: "Count, sum, min, max, mean and quantiles of columns, by group.",
};

/// What is computed of which columns.
#[derive(Debug, Clone)]
pub struct Aggregation {
    /// The group's columns, then those that are aggregated.
    columns: Columns,
    groups: usize,
    quantiles: Vec<f64>,
}

impl Aggregation {
    /// Of values in `format`: the columns `of`, grouped by the columns `by`; all
    /// rows are one group without any. `quantiles` lie from 0 to 1.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn new(
        format: &RecordFormat,
        by: &[String],
        of: &[String],
        quantiles: Vec<f64>,
    ) -> Result<Self, UnknownColumn> {
        let names: Vec<&String> = by.iter().chain(of).collect();
        Ok(Self {
            columns: Columns::new(format, &names)?,
            groups: by.len(),
            quantiles,
        })
    }

    fn names(&self) -> (&[String], &[String]) {
        self.columns.names().split_at(self.groups)
    }

    /// What the rows have: the group (as a CSV record where it is of several
    /// columns), `rows`, and of each column `NAME_count`, `NAME_sum`, `NAME_min`,
    /// `NAME_max`, `NAME_avg`, and `NAME_p50` for the quantile 0.5.
    pub fn row_columns(&self) -> Vec<Column> {
        let (by, of) = self.names();
        let group = match by {
            [] => "group".to_string(),
            by => by.join(","),
        };
        let mut columns = vec![Column::text(group), Column::number("rows")];
        for name in of {
            for what in ["count", "sum", "min", "max", "avg"] {
                columns.push(Column::number(format!("{name}_{what}")));
            }
            for q in &self.quantiles {
                // 0.999 is p99.9: as short as it can be said.
                let percent = format!("{:.9}", q * 100.0);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                columns.push(Column::number(format!("{name}_p{percent}")));
            }
        }
        columns
    }
}

/// A job that aggregates in `reduces` reduce tasks, at least one. Its rows: the
/// group, and as a CSV record what [`Aggregation::row_columns`] names. Of a row
/// without a column, or with an empty one, that column is not counted; one that is
/// no number fails the job. A group column that is missing is the empty text.
/// Quantiles lie within [`RELATIVE_ERROR`] of the value that has the rank.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    aggregation: Aggregation,
    reduces: u32,
) -> JobSpec {
    let aggregation = Arc::new(aggregation);
    let fold = FoldReducer {
        aggregation: Arc::clone(&aggregation),
    };
    let tell = TellReducer {
        aggregation: Arc::clone(&aggregation),
    };
    JobSpec::new(name, input, Arc::new(GroupMapper { aggregation }), output)
        .reducer(Arc::new(tell), reduces.max(1))
        .combiner(Arc::new(fold))
}

/// What is known of a column of some rows.
#[derive(Debug, Clone, PartialEq)]
struct Measures {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    sketch: Sketch,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sketch: Sketch::default(),
        }
    }
}

impl Measures {
    fn add(&mut self, value: f64, has_sketch: bool) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if has_sketch {
            self.sketch.add(value);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sketch.merge(&other.sketch);
    }

    fn tell(&self, quantiles: &[f64], fields: &mut Vec<String>) {
        fields.push(self.count.to_string());
        if self.count == 0 {
            fields.extend((0..4 + quantiles.len()).map(|_| String::new()));
            return;
        }
        let mean = self.sum / self.count as f64;
        fields.extend([self.sum, self.min, self.max, mean].map(|number| number.to_string()));
        let quantile = |&q: &f64| {
            // No bucket's middle may lie beyond the values.
            let value = self.sketch.quantile(q).unwrap_or_default();
            value.clamp(self.min, self.max).to_string()
        };
        fields.extend(quantiles.iter().map(quantile));
    }
}

/// What is known of a group: how many rows, and its columns.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    rows: u64,
    measures: Vec<Measures>,
}

impl Group {
    fn new(columns: usize) -> Self {
        Self {
            rows: 0,
            measures: vec![Measures::default(); columns],
        }
    }

    fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        for (mine, theirs) in self.measures.iter_mut().zip(&other.measures) {
            mine.merge(theirs);
        }
    }

    /// ```text
    ///   rows, u64 | per column: count, u64 | sum, min, max, f64 | sketch
    /// ```
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.rows.to_le_bytes().to_vec();
        for measures in &self.measures {
            bytes.extend(measures.count.to_le_bytes());
            for number in [measures.sum, measures.min, measures.max] {
                bytes.extend(number.to_le_bytes());
            }
            measures.sketch.encode(&mut bytes);
        }
        bytes
    }

    fn decode(mut bytes: &[u8], columns: usize) -> Option<Self> {
        let bytes = &mut bytes;
        let rows = u64::from_le_bytes(take(bytes)?);
        let measures = |_| {
            Some(Measures {
                count: u64::from_le_bytes(take(bytes)?),
                sum: f64::from_le_bytes(take(bytes)?),
                min: f64::from_le_bytes(take(bytes)?),
                max: f64::from_le_bytes(take(bytes)?),
                sketch: Sketch::decode(bytes)?,
            })
        };
        let measures = (0..columns).map(measures).collect::<Option<_>>()?;
        Some(Self { rows, measures })
    }

    fn fold(values: &mut Values<'_>, aggregation: &Aggregation) -> Result<Self, TaskError> {
        let columns = aggregation.names().1.len();
        let mut group = Self::new(columns);
        while let Some(value) = values.next_value()? {
            let part = Self::decode(value, columns);
            group.merge(&part.ok_or_else(|| TaskError::failed("a group is cut short"))?);
        }
        Ok(group)
    }
}

/// Emits a group of one row.
struct GroupMapper {
    aggregation: Arc<Aggregation>,
}

impl Mapper for GroupMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let (by, of) = self.aggregation.names();
        let fields = self.aggregation.columns.read(key, value)?;
        let (grouped, measured) = fields.split_at(by.len());
        let bytes = |field: &Option<Vec<u8>>| field.clone().unwrap_or_default();
        let name = match grouped {
            [] => b"all".to_vec(),
            [field] => bytes(field),
            several => record(several.iter().map(bytes)),
        };
        let mut group = Group::new(of.len());
        group.rows = 1;
        let has_sketch = !self.aggregation.quantiles.is_empty();
        for ((field, column), measures) in measured.iter().zip(of).zip(&mut group.measures) {
            if let Some(field) = field
                .as_deref()
                .filter(|field| !field.trim_ascii().is_empty())
            {
                measures.add(number::parse(field, key, column)?, has_sketch);
            }
        }
        emit.emit(&name, &group.encode())
    }
}

struct FoldReducer {
    aggregation: Arc<Aggregation>,
}

impl Reducer for FoldReducer {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        emit.emit(key, &Group::fold(values, &self.aggregation)?.encode())
    }
}

struct TellReducer {
    aggregation: Arc<Aggregation>,
}

impl Reducer for TellReducer {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let group = Group::fold(values, &self.aggregation)?;
        let mut fields = vec![group.rows.to_string()];
        for measures in &group.measures {
            measures.tell(&self.aggregation.quantiles, &mut fields);
        }
        emit.emit(key, &record(&fields))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::jobs::testing::run;
    use rand::{RngExt, SeedableRng};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn format() -> RecordFormat {
        RecordFormat::Csv {
            names: Some(names(&["city", "kind", "n", "x"])),
        }
    }

    #[test]
    fn every_group_has_its_numbers() {
        let seed = rand::random();
        println!("seed {seed}");
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
        let columns = aggregation.row_columns();
        let columns: Vec<_> = columns.iter().map(|column| &column.name[..]).collect();
        assert_eq!(
            columns,
            [
                "city", "rows", "n_count", "n_sum", "n_min", "n_max", "n_avg", "n_p50", "n_p99.9"
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
                assert!(
                    (field - exact).abs() <= exact.abs() * 0.00500001,
                    "{field} {exact}"
                );
            }
        }
    }

    #[test]
    fn rows_without_groups_or_columns_are_counted() {
        let aggregation = Aggregation::new(&format(), &[], &[], vec![]).unwrap();
        let found = run(&["a", "b", "c"], 2, |input, output| {
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
    fn a_group_reads_back_from_its_bytes() {
        let mut group = Group::new(2);
        group.measures[1].add(2.5, true);
        let bytes = group.encode();
        assert_eq!(Group::decode(&bytes, 2), Some(group));
        assert_eq!(Group::decode(&bytes[..bytes.len() - 1], 2), None);
    }
}
