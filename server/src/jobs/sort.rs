//! Sort: the values of rows in order, over all parts of the output.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, Reducer, TaskError, Values};

use super::Application;
use super::outputs::Column;
use super::records::{Columns, RecordFormat, UnknownColumn, number};

/// What a listing says about it.
pub const APPLICATION: Application = Application {
    name: "sort",
    summary: "Sorts the values, by all of them or by a column.",
};

/// What its rows have.
pub fn columns() -> Vec<Column> {
    vec![Column::text("value")]
}

/// By what values are in order.
#[derive(Debug, Clone)]
pub struct Order {
    by: Columns,
    numeric: bool,
    reverse: bool,
}

impl Order {
    /// By the column called `by` of values in `format`, or by the whole value; as
    /// numbers when `numeric`, else by bytes; the largest first when `reverse`.
    /// Values without the column come first, or last when `reverse`.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn new(
        format: &RecordFormat,
        by: Option<&str>,
        numeric: bool,
        reverse: bool,
    ) -> Result<Self, UnknownColumn> {
        Ok(Self {
            by: Columns::new(format, by.as_slice())?,
            numeric,
            reverse,
        })
    }

    /// Whether the key of a value is the value itself.
    fn is_plain(&self) -> bool {
        self.by.names().is_empty() && !self.numeric && !self.reverse
    }

    /// Bytes in the order of the values.
    ///
    /// # Errors
    /// When `value` of row `key` has no such form, or is no number.
    pub(super) fn key(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>, TaskError> {
        if self.is_plain() {
            return Ok(value.to_vec());
        }
        let (field, column) = match self.by.names() {
            [] => (Some(value.to_vec()), "value"),
            [column, ..] => (self.by.read(key, value)?.pop().flatten(), &column[..]),
        };
        let mut ordered = match field {
            None => vec![0],
            Some(field) => {
                let mut ordered = vec![1];
                if self.numeric {
                    ordered.extend(number::ordered(number::parse(&field, key, column)?));
                } else {
                    ordered.extend(number::ordered_text(&field));
                }
                ordered
            }
        };
        if self.reverse {
            ordered.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(ordered)
    }
}

/// A job that sorts the values in `reduces` reduce tasks, at least one. Its rows
/// have the value as the key and nothing else; equal ones stay as many as they are.
/// Values whose columns are equal come in the order of the input.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    order: Order,
    reduces: u32,
) -> JobSpec {
    let reducer = OrderedReducer {
        is_plain: order.is_plain(),
    };
    let spec = JobSpec::new(name, input, Arc::new(KeyMapper { order }), output)
        .reducer(Arc::new(reducer), reduces.max(1));
    match reduces {
        0 | 1 => spec,
        _ => spec.globally_sorted(),
    }
}

/// Emits the value under the key that it is in order by; nothing but the key
/// where that is the value.
struct KeyMapper {
    order: Order,
}

impl Mapper for KeyMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        match self.order.is_plain() {
            true => emit.emit(value, b""),
            false => emit.emit(&self.order.key(key, value)?, value),
        }
    }
}

struct OrderedReducer {
    is_plain: bool,
}

impl Reducer for OrderedReducer {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        while let Some(value) = values.next_value()? {
            emit.emit(if self.is_plain { key } else { value }, b"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::run_keys;
    use crate::jobs::{
        FileKind, FilesInput, FilesOutput, FilesTarget, RowFormat, RowWriter, SnapshotInput,
    };
    use ebb_scheduler::runtime::{Outcome, Runtime, RuntimeOptions};
    use ebb_storage::{Db, Options, TableOptions};
    use rand::{RngExt, SeedableRng};

    #[test]
    fn values_come_in_order_and_as_often_as_they_are() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut line = |_| -> String {
            let (skip, take) = (rng.random_range(0..4), rng.random_range(0..9));
            "ab \u{e4}".chars().cycle().skip(skip).take(take).collect()
        };
        let mut lines: Vec<String> = (0..3000).map(&mut line).collect();
        let format = RecordFormat::Text;
        for reverse in [false, true] {
            let order = Order::new(&format, None, false, reverse).unwrap();
            let sorted = |reduces| {
                run_keys(&lines, 7, |input, output| {
                    spec("sort", input, output, order.clone(), reduces)
                })
            };
            let (one, four) = (sorted(1), sorted(4));
            lines.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
            if reverse {
                lines.reverse();
            }
            assert_eq!(one, lines);
            assert_eq!(four, lines, "over all parts");
        }
    }

    /// Of values in order, of which three quarters begin alike.
    fn skewed_lines() -> Vec<String> {
        let line = |n: u32| match n {
            0..15_000 => format!("{n:08} of those that come first"),
            _ => format!(
                "9{:09} and a longer line, to {} than others",
                n * n,
                "be larger"
            ),
        };
        (0..20_000).map(line).collect()
    }

    /// That each of five reduces has a fifth of the bytes of `input`, which has two
    /// splits, give or take a fourth of that.
    fn assert_even(input: Arc<dyn Input>) {
        assert_eq!(input.splits().unwrap().len(), 2);
        let dir = tempfile::tempdir().unwrap();
        let target = FilesTarget::Folder(dir.path().join("sorted"));
        let rows = RowWriter::new(RowFormat::Text, columns());
        let output = Arc::new(FilesOutput::new(target, rows, dir.path()));
        let order = Order::new(&RecordFormat::Text, None, false, false).unwrap();
        let runtime = Runtime::start(RuntimeOptions::new(2)).unwrap();
        let job = runtime
            .submit(spec("sort", input, output, order, 5))
            .unwrap();
        assert_eq!(job.wait().outcome, Outcome::Succeeded);
        let part = |part: u32| {
            let path = dir.path().join(format!("sorted/part-{part:05}.tsv"));
            std::fs::read_to_string(path).unwrap()
        };
        let parts: Vec<String> = (0..5).map(part).collect();
        let rows = parts.iter().flat_map(|part| part.lines());
        assert_eq!(rows.count(), 20_000);
        let bytes: Vec<usize> = parts.iter().map(String::len).collect();
        let even = bytes.iter().sum::<usize>() / 5;
        let is_even = |bytes: &usize| bytes.abs_diff(even) < even / 4;
        assert!(bytes.iter().all(is_even), "{bytes:?}");
    }

    #[test]
    fn reduces_have_even_parts_of_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        std::fs::write(&path, skewed_lines().join("\n")).unwrap();
        for kind in [
            FileKind::Text,
            FileKind::Csv {
                header: false,
                multiline: false,
            },
        ] {
            let input = FilesInput::open(std::slice::from_ref(&path), kind, 2).unwrap();
            assert_even(Arc::new(input));
        }
    }

    #[test]
    fn reduces_have_even_parts_of_a_table_in_order_in_memory_and_on_disk() {
        for flushed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(dir.path(), Options::default()).unwrap();
            let keyspace = db.keyspace("app").unwrap();
            let table = keyspace.table("t", TableOptions::default()).unwrap();
            // Values that do not shrink, so that the index knows where they lie.
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
            let mut noise = || -> String {
                let letter = |_| char::from(rng.random_range(b'!'..=b'~'));
                (0..300).map(letter).collect()
            };
            for (n, line) in (0_u32..).zip(skewed_lines()) {
                let value = format!("{line} {}", noise());
                table.put(&n.to_be_bytes(), value.as_bytes()).unwrap();
            }
            if flushed {
                db.flush().unwrap();
            }
            keyspace.create_snapshot("s").unwrap();
            let snapshot = keyspace.snapshot("s").unwrap().table("t").unwrap();
            let input = SnapshotInput::new(snapshot, 2);
            assert_even(Arc::new(input));
        }
    }

    #[test]
    fn a_column_of_numbers_is_sorted_as_numbers_and_rows_without_it_come_first() {
        let rows = [
            r#"{"n":10,"at":1}"#,
            r#"{"n":-3.5,"at":2}"#,
            r#"{"at":3}"#,
            r#"{"n":9,"at":4}"#,
            r#"{"n":10,"at":5}"#,
        ];
        let sorted = |reverse| {
            let order = Order::new(&RecordFormat::Json, Some("n"), true, reverse).unwrap();
            let sorted = run_keys(&rows, 2, |input, output| {
                spec("sort", input, output, order, 1)
            });
            let at = |row: &String| row.rsplit_once(':').unwrap().1[..1].to_string();
            sorted.iter().map(at).collect::<String>()
        };
        assert_eq!(sorted(false), "32415");
        assert_eq!(sorted(true), "15423");
    }

    #[test]
    fn what_is_no_number_fails_the_job_and_says_where() {
        let order = Order::new(&RecordFormat::Text, None, true, false).unwrap();
        let error = order.key(b"row", b"x1").unwrap_err().to_string();
        assert!(
            error.contains("row") && error.contains("no number"),
            "{error}"
        );
        assert!(Order::new(&RecordFormat::Text, Some("a"), false, false).is_err());
    }
}
