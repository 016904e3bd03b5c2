//! Sort: rows in the order of their values, or of some columns. The order spans all parts of the
//! output.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, Reducer, TaskError, Values};
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::options::one;
use super::records::number::ordered_text;
use super::records::{Columns, RecordFormat, UnknownColumn, check, number_of};
use super::seen::SeenColumns;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run sort --text lines.txt --output sorted.txt
  ebb run sort --csv trips.csv --by fare --numeric --reverse --limit 10 --output top.csv
  ebb run validate --text sorted.txt --output -

Rows of the result: the rows of the input with their columns; for text only the lines.
Equal rows are all kept.";

/// Sort rows, by their values or by columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SortRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
    /// The order of the rows.
    #[serde(default)]
    #[cfg_attr(feature = "args", command(flatten))]
    pub order: OrderRequest,
}

impl Application for SortRequest {
    const NAME: &'static str = "sort";

    fn reduces(&self) -> Option<u32> {
        Some(self.reduces)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, format) = materials.input(0)?;
        let order = self.order.of_rows(format)?;
        let output = materials.destination.output_of_any_keys(order.rows())?;
        Ok(spec(Self::NAME, input, output, order, self.reduces).into())
    }
}

/// The order of values or rows, as in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OrderRequest {
    /// Columns of the order, the most significant first [default: the whole value].
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN,...", value_delimiter = ',')
    )]
    pub by: Vec<String>,
    /// Compare as numbers. Empty fields come first; other text that is no number fails the job.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub numeric: bool,
    /// Put the largest first.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub reverse: bool,
}

impl OrderRequest {
    pub(super) fn of_rows(&self, schema: &RecordFormat) -> Result<Order, JobError> {
        let order = Order::new(schema, &self.by, self.numeric, self.reverse);
        order.map_err(JobError::senseless)
    }
}

/// The order of rows.
#[derive(Debug, Clone)]
pub struct Order {
    by: Columns,
    numeric: bool,
    reverse: bool,
    schema: Arc<RecordFormat>,
}

impl Order {
    /// Creates the order of rows with the format `schema`: by the columns `by`, the most
    /// significant first, or by the whole value if `by` is empty. Compares numbers if `numeric`,
    /// else bytes. With `reverse`, the largest comes first. Rows without a column come first, or
    /// last with `reverse`; so do empty fields if `numeric`.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn new(
        schema: &RecordFormat,
        by: &[String],
        numeric: bool,
        reverse: bool,
    ) -> Result<Self, UnknownColumn> {
        Ok(Self {
            by: Columns::new(schema, by)?,
            numeric,
            reverse,
            schema: Arc::new(schema.clone()),
        })
    }

    /// Returns the format of the result: that of the input, but without the key if this is only the
    /// file and byte offset of a row.
    pub fn rows(&self) -> Arc<RecordFormat> {
        let without = self.schema.without_place();
        without.map_or_else(|| Arc::clone(&self.schema), Arc::new)
    }

    /// Returns whether the rows of the result have the same keys as those of the input.
    fn keeps_key(&self) -> bool {
        self.schema.without_place().is_none()
    }

    /// Returns whether rows are sorted by exactly the bytes of their values.
    fn is_plain(&self) -> bool {
        self.by.names().is_empty() && !self.numeric && !self.reverse
    }

    /// Returns flags for the columns to sort by, all unset. The map tasks of a job share the flags,
    /// and set those of the columns that occur in a row, so that a job with a misspelt column
    /// fails.
    pub(super) fn seen(&self) -> Arc<SeenColumns> {
        SeenColumns::new(self.by.names())
    }

    /// Appends the sort key of a row to `ordered`: bytes that sort as the rows do. Marks in `seen`
    /// the columns of the order that the row has.
    ///
    /// # Errors
    /// When the row does not match its schema, or a field is not a number.
    pub(super) fn key(
        &self,
        key: &[u8],
        value: &[u8],
        seen: &SeenColumns,
        ordered: &mut Vec<u8>,
    ) -> Result<(), TaskError> {
        if self.by.names().is_empty() {
            check(&self.schema, key, value)?;
            if self.is_plain() {
                ordered.extend_from_slice(value);
                return Ok(());
            }
            self.push(Some(value), key, "value", ordered)?;
        } else {
            self.by.read(key, value, |fields| {
                seen.record(fields);
                for (field, name) in fields.iter().zip(self.by.names()) {
                    self.push(field, key, name, ordered)?;
                }
                Ok(())
            })?;
        }
        if self.reverse {
            ordered.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }

    /// Appends the sort key of a field. No sort key is a prefix of another one.
    fn push(
        &self,
        field: Option<&[u8]>,
        key: &[u8],
        name: &str,
        ordered: &mut Vec<u8>,
    ) -> Result<(), TaskError> {
        const MISSING: u8 = 0;
        const THERE: u8 = 1;
        match (self.numeric, field) {
            (true, field) => match number_of(field, key, name)? {
                None => ordered.push(MISSING),
                Some(number) => {
                    ordered.push(THERE);
                    number.push_ordered(ordered);
                }
            },
            (false, None) => ordered.push(MISSING),
            (false, Some(field)) => {
                ordered.push(THERE);
                ordered_text(field, ordered);
            }
        }
        Ok(())
    }
}

/// Returns a job that sorts rows in `reduces` reduce tasks (0 counts as 1). The result has all rows
/// of the input, duplicates included, in the format [`Order::rows`]. Rows with the same sort key keep
/// the order of the input.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    order: Order,
    reduces: u32,
) -> JobSpec {
    let (is_plain, keeps_key) = (order.is_plain(), order.keeps_key());
    let reducer = ordered_reducer(is_plain, keeps_key);
    let seen = order.seen();
    let mapper = KeyMapper {
        is_plain,
        keeps_key,
        order,
        seen: Arc::clone(&seen),
    };
    let spec = JobSpec::new(name, input, Arc::new(mapper), output)
        .reducer(Arc::new(reducer), reduces.max(1));
    seen.required(match reduces {
        0 | 1 => spec,
        _ => spec.globally_sorted(),
    })
}

/// The mapper of a sort. Emits each row under its sort key. The emitted value has the parts of the row that
/// the result needs: its key, its value, both or neither. The row's value is left out if it is the same as
/// the sort key. Key and value together have this form:
///
/// ```text
///   length of the key, u32 LE | key | value
/// ```
struct KeyMapper {
    order: Order,
    seen: Arc<SeenColumns>,
    is_plain: bool,
    keeps_key: bool,
}

impl Mapper for KeyMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let mut ordered = Vec::new();
        self.order.key(key, value, &self.seen, &mut ordered)?;
        match (self.is_plain, self.keeps_key) {
            (true, true) => emit.emit(&ordered, key),
            (true, false) => emit.emit(&ordered, b""),
            (false, false) => emit.emit(&ordered, value),
            (false, true) => {
                let length = u32::try_from(key.len()).map_err(TaskError::failed)?;
                emit.emit(&ordered, &[&length.to_le_bytes()[..], key, value].concat())
            }
        }
    }
}

fn ordered_reducer(is_plain: bool, keeps_key: bool) -> impl Reducer {
    move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
        while let Some(row) = values.next_value()? {
            match (is_plain, keeps_key) {
                (true, true) => emit.emit(row, key)?,
                (true, false) => emit.emit(b"", key)?,
                (false, false) => emit.emit(b"", row)?,
                (false, true) => {
                    let parts = row.split_first_chunk().and_then(|(length, rest)| {
                        rest.split_at_checked(u32::from_le_bytes(*length) as usize)
                    });
                    let (key, value) =
                        parts.ok_or_else(|| TaskError::failed("a row is cut short"))?;
                    emit.emit(key, value)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ValueFormat;
    use crate::testing::{options, run, run_values};
    use crate::{
        FileKind, FilesInput, FilesOutput, FilesTarget, RowFormat, RowWriter, SnapshotInput,
    };
    use ebb_scheduler::runtime::{Outcome, Runtime};
    use ebb_storage::{Db, Options, TableOptions};
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn values_come_in_order_and_keep_their_number() {
        for_seeds("values_come_in_order_and_keep_their_number", 1, |seed| {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let mut line = |_| -> String {
                let (skip, take) = (rng.random_range(0..4), rng.random_range(0..9));
                "ab \u{e4}".chars().cycle().skip(skip).take(take).collect()
            };
            let mut lines: Vec<String> = (0..3000).map(&mut line).collect();
            let format = RecordFormat::text();
            for reverse in [false, true] {
                let order = Order::new(&format, &[], false, reverse).unwrap();
                let sorted = |reduces| {
                    run_values(&lines, 7, |input, output| {
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
        });
    }

    /// Returns values in order, three quarters of which have the same start.
    fn skewed_lines() -> Vec<String> {
        let line = |n: u32| match n {
            0..15_000 => format!("{n:08} of those that come first"),
            _ => format!(
                "9{:09} and a longer line to {} than others",
                n * n,
                "be larger"
            ),
        };
        (0..20_000).map(line).collect()
    }

    /// Checks that each of the five reduce tasks of a sort of `input`, which has two splits, gets
    /// between 3/4 and 5/4 of a fifth of the bytes.
    fn assert_even(input: Arc<dyn Input>) {
        assert_eq!(input.splits().unwrap().len(), 2);
        let dir = tempfile::tempdir().unwrap();
        let target = FilesTarget::Folder(dir.path().join("sorted"));
        let order = Order::new(&RecordFormat::text(), &[], false, false).unwrap();
        let rows = RowWriter::new(RowFormat::Text, order.rows());
        let output = Arc::new(FilesOutput::new(target, rows, dir.path()));
        let runtime = Runtime::start(options(2)).unwrap();
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
        for kind in [FileKind::Text, FileKind::csv(false)] {
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
            // Values that do not compress, so that the index has an entry for every few
            // rows.
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
            r#"{"n":" ","at":3}"#,
            r#"{"n":9,"at":4}"#,
            r#"{"n":10,"at":5}"#,
        ];
        let sorted = |reverse| {
            let json = RecordFormat::file(ValueFormat::Json);
            let order = Order::new(&json, &["n".into()], true, reverse).unwrap();
            let sorted = run_values(&rows, 2, |input, output| {
                spec("sort", input, output, order, 1)
            });
            let at = |row: &String| row.rsplit_once(':').unwrap().1[..1].to_string();
            sorted.iter().map(at).collect::<String>()
        };
        assert_eq!(sorted(false), "32415");
        assert_eq!(sorted(true), "15423");
    }

    #[test]
    fn a_field_that_is_no_number_fails_the_job_and_is_named() {
        let order = Order::new(&RecordFormat::text(), &[], true, false).unwrap();
        let error = order
            .key(b"row", b"x1", &order.seen(), &mut Vec::new())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("row") && error.contains("no number"),
            "{error}"
        );
        assert!(Order::new(&RecordFormat::text(), &["a".into()], false, false).is_err());
    }

    #[test]
    fn rows_with_keys_keep_them_and_are_sorted_by_several_columns() {
        let names = ["city", "n"].map(str::to_string);
        let csv = ValueFormat::csv(Some(&names)).unwrap();
        let table = RecordFormat::table(csv).unwrap();
        let lines = ["b,2", "a,2", "b,10", "a,1", "b,"];
        let sorted = |by: &[&str], numeric, reverse| {
            let by: Vec<String> = by.iter().map(|name| name.to_string()).collect();
            let order = Order::new(&table, &by, numeric, reverse).unwrap();
            let rows = run(&lines, 2, |input, output| {
                spec("sort", input, output, order, 2)
            });
            let row = |(key, value): &(String, String)| format!("{} {value}", &key[3..]);
            rows.iter().map(row).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted(&[], false, false), "3 a,1 1 a,2 4 b, 2 b,10 0 b,2");
        assert_eq!(
            sorted(&["city", "n"], false, false),
            "3 a,1 1 a,2 4 b, 2 b,10 0 b,2"
        );
        assert_eq!(sorted(&["n"], true, false), "4 b, 3 a,1 0 b,2 1 a,2 2 b,10");
        assert_eq!(
            sorted(&["key"], false, true),
            "4 b, 3 a,1 2 b,10 1 a,2 0 b,2"
        );
    }
}
