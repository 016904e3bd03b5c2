//! Join: pairs of rows of two inputs that have the same key.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, Reducer, TaskError, Values};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::inputs::{Side, Union};
use super::options::one;
use super::records::csv::push_field;
use super::records::{Column, Columns, Fields, KEY, RecordFormat, UnknownColumn, set_apart};
use super::seen::SeenColumns;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run join --csv cities.csv --on id --with trips.csv --with-on city --output joined.csv
  ebb run join --table app.users --with app.visits --snapshot monday --left --output seen.csv

Rows of the result: for every pair of rows with the same key, the key (with the name of
the left column), the other columns of the left row, and those of the right row. If both
have a column NAME, the right one is called right_NAME. A row whose key is missing, null or
empty is in no pair. --with takes FILE.csv with a header, FILE.jsonl, KEYSPACE.TABLE, or
any other file as lines of text. Files may be compressed by gzip. For each key, up to 64 MiB of
left rows are held in memory, so the left side should be the one with fewer rows per key.";

/// Join rows of two inputs that have the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
    /// The column that is the key on the left side [default: the row's key].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long = "on", value_name = "COLUMN"))]
    pub left_on: Option<String>,
    /// The column that is the key on the right side [default: the row's key].
    #[serde(default)]
    #[cfg_attr(
        feature = "args",
        arg(
            long = "with-on",
            value_name = "COLUMN",
            help = "The column that is the key on the right side [default: as --on]"
        )
    )]
    pub right_on: Option<String>,
    /// Left outer join: keep left rows without a match, with empty columns.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long = "left"))]
    pub keep_left: bool,
}

impl Application for JoinRequest {
    const NAME: &'static str = "join";
    const INPUTS: usize = 2;

    fn reduces(&self) -> Option<u32> {
        Some(self.reduces)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let side = |number, on: &Option<String>| {
            let (input, format) = materials.input(number)?;
            JoinSide::new(input, format, on.as_deref()).map_err(JobError::senseless)
        };
        let (left, right) = (side(0, &self.left_on)?, side(1, &self.right_on)?);
        let kind = if self.keep_left {
            JoinKind::Left
        } else {
            JoinKind::Inner
        };
        let rows = Arc::new(rows(&left, &right));
        let output = materials.destination.output_of_any_keys(rows)?;
        Ok(spec(Self::NAME, left, right, output, kind, self.reduces).into())
    }
}

/// The most memory, in bytes, for the left rows of one key. A reduce task holds all of them at once.
/// The job fails if a key has more.
const LEFT_BYTES_MAX: usize = 64 << 20;

/// The choice of left rows that the result of a join contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Only left rows that have a right row with the same key.
    Inner,
    /// All left rows; if no right row has the same key, the right columns are empty.
    Left,
}

/// One input of a join: its rows, its join key, and those of its columns that the result contains.
pub struct JoinSide {
    input: Arc<dyn Input>,
    on: On,
    key: Column,
    /// All columns of a row of this input.
    row: Columns,
    along: Vec<(usize, Column)>,
}

/// The source of the join key in a row.
#[derive(Debug)]
enum On {
    RowKey,
    /// A column of the row, by its index.
    Column(usize),
    /// A field outside of the columns of the row, for example a member of a JSON object.
    Other(Columns),
}

impl JoinSide {
    /// Creates one side of a join: the rows of `input`, whose format is `schema`, with the column
    /// `on` as the join key; with `None`, the rows' own keys.
    ///
    /// # Errors
    /// When `schema` has no column of the name `on`.
    pub fn new(
        input: Arc<dyn Input>,
        schema: &RecordFormat,
        on: Option<&str>,
    ) -> Result<Self, UnknownColumn> {
        // The place of a row in a file is not part of the row.
        let without = schema.without_place();
        let has_key = without.is_none();
        let schema = without.as_ref().unwrap_or(schema);
        let mut along: Vec<(usize, Column)> = schema.columns().into_iter().enumerate().collect();
        let (on, place, name) = match on {
            None => (On::RowKey, schema.position(KEY).filter(|_| has_key), KEY),
            Some(name) => match schema.position(name) {
                Some(at) => (On::Column(at), Some(at), name),
                None => (On::Other(Columns::new(schema, &[name])?), None, name),
            },
        };
        Ok(Self {
            input,
            on,
            key: match place {
                Some(at) => along.remove(at).1,
                None => Column::text(name),
            },
            row: Columns::all(schema),
            along,
        })
    }
}

/// Returns the format of the result: the key with its name on the left side, then the other
/// columns of the left row and of the right row. A name that is already taken gets the
/// prefix `right_`.
pub fn rows(left: &JoinSide, right: &JoinSide) -> RecordFormat {
    let along = left.along.iter().chain(&right.along);
    let columns = [&left.key]
        .into_iter()
        .chain(along.map(|(_, column)| column));
    let mut columns: Vec<Column> = columns.cloned().collect();
    set_apart(&mut columns, "right_");
    let value = columns.split_off(1);
    RecordFormat::rows(columns, value)
}

/// Returns a job that joins two inputs in `reduces` reduce tasks, at least one. The result has one row (see
/// [`rows`]) for every pair of rows with the same key. Rows whose key is missing or empty are in no pair:
/// they have nothing in common, as nulls in SQL. A left join ([`JoinKind::Left`]) also has a row for each
/// left row that is in no pair.
///
/// The left rows of one key are held in memory, up to 64 MiB; right ones are streamed, so the side with fewer
/// rows per key should be the left one.
pub fn spec(
    name: impl Into<String>,
    left: JoinSide,
    right: JoinSide,
    output: Arc<dyn Output>,
    kind: JoinKind,
    reduces: u32,
) -> JobSpec {
    let input = Arc::new(Union::new(
        Arc::clone(&left.input),
        Arc::clone(&right.input),
    ));
    let (left_columns, right_columns) = (left.along.len(), right.along.len());
    let reducer = PairReducer {
        kind,
        right_nothing: vec![b','; right_columns.saturating_sub(1)],
        has_both: left_columns > 0 && right_columns > 0,
        left_bytes_max: LEFT_BYTES_MAX,
    };
    let is_record = left_columns + right_columns > 1;
    let seen = SeenColumns::of_sides(&left.key.name, &right.key.name);
    let mapper = SideMapper {
        left,
        right,
        kind,
        is_record,
        unpaired_keys: if reduces > 1 { UNPAIRED_KEYS } else { 1 },
        seen: Arc::clone(&seen),
    };
    let spec = JobSpec::new(name, input, Arc::new(mapper), output)
        .reducer(Arc::new(reducer), reduces.max(1));
    seen.required(spec)
}

/// The mapper of a join. A record that it emits has those columns of the row that are in the result, as a
/// CSV record, or unchanged if the result has only one column beside the key:
///
/// ```text
///   row                            key of the record         value of the record
///   with a join key                JOINED | join key         LEFT or RIGHT | columns
///   left row without a join key    UNPAIRED | two bytes      columns
/// ```
///
/// A left row without a join key is emitted in a left join only, a right row without one never.
struct SideMapper {
    left: JoinSide,
    right: JoinSide,
    kind: JoinKind,
    is_record: bool,
    /// The number of keys under which left rows without a join key are emitted. It is 1 if there is one
    /// reduce task, so that the result has these rows in the order of the input.
    unpaired_keys: u64,
    seen: Arc<SeenColumns>,
}

const LEFT: u8 = 0;
const RIGHT: u8 = 1;

/// The first byte of the key of a record whose row has no join key. It is smaller than [`JOINED`], so a
/// reduce task gets these records first.
const UNPAIRED: u8 = 0;
/// The first byte of the key of a record whose row has a join key.
const JOINED: u8 = 1;
/// The number of keys under which left rows without a join key are emitted if there are several reduce
/// tasks. A hash assigns keys to tasks. Of 10,000 tasks, the most that a request may ask for, each gets 6
/// or 7 of the keys on average, and about 14 get none, so nearly all share the work.
const UNPAIRED_KEYS: u64 = 1 << 16;

impl SideMapper {
    /// Returns whether the result contains rows of one side that have no match on the other side.
    /// `side` is the byte [`LEFT`] or [`RIGHT`].
    fn keeps_unpaired(&self, side: u8) -> bool {
        side == LEFT && self.kind == JoinKind::Left
    }

    /// Returns the key of the record of a left row that has no join key: one of
    /// [`unpaired_keys`](Self::unpaired_keys) keys, chosen by a hash of the row's own key and value. Such
    /// rows may be most of the left side, and one key for all of them would send them to one reduce task.
    fn unpaired_key(&self, key: &[u8], value: &[u8]) -> [u8; 3] {
        let hash = xxh3_64_with_seed(value, xxh3_64(key));
        let [.., first, second] = (hash % self.unpaired_keys).to_be_bytes();
        [UNPAIRED, first, second]
    }
}

impl Mapper for SideMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let (side, key) = Side::of(key);
        let (of, side) = match side {
            Side::Left => (&self.left, LEFT),
            Side::Right => (&self.right, RIGHT),
        };
        let other = match &of.on {
            On::Other(column) => {
                let field = |fields: &Fields| {
                    self.seen.record_one(usize::from(side), fields.has(0));
                    Ok(fields.get(0).map(<[u8]>::to_vec))
                };
                let field = column.read(key, value, field)?;
                if field.is_none() && !self.keeps_unpaired(side) {
                    return Ok(());
                }
                field
            }
            On::RowKey | On::Column(_) => None,
        };
        let mut row = Vec::new();
        let joined = of.row.read(key, value, |fields| {
            for (at, _) in &of.along {
                let field = fields.get(*at).unwrap_or_default();
                if self.is_record {
                    push_field(&mut row, field);
                } else {
                    row.extend_from_slice(field);
                }
            }
            Ok(match &of.on {
                On::Column(at) => fields.get(*at).map(<[u8]>::to_vec),
                On::RowKey | On::Other(_) => None,
            })
        })?;
        let joined = match (&of.on, &joined, &other) {
            (On::RowKey, ..) => key,
            (_, Some(field), _) | (_, _, Some(field)) => field,
            _ => &b""[..],
        };
        if joined.is_empty() {
            if self.keeps_unpaired(side) {
                emit.emit(&self.unpaired_key(key, value), &row)?;
            }
            return Ok(());
        }
        row.insert(0, side);
        emit.emit(&[&[JOINED][..], joined].concat(), &row)
    }
}

struct PairReducer {
    kind: JoinKind,
    /// The value of the right columns, all empty, for a left row without a match.
    right_nothing: Vec<u8>,
    /// Whether the result has columns of both the left and the right side.
    has_both: bool,
    left_bytes_max: usize,
}

impl PairReducer {
    /// Emits a row of the result, with an empty key, for each left row in a group of left rows without a join
    /// key. No right row matches them, so they need not be held in memory. They may be most of the left side.
    fn reduce_unpaired(
        &self,
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        while let Some(left) = values.next_value()? {
            emit.emit(b"", &self.pair(left, &self.right_nothing))?;
        }
        Ok(())
    }

    /// Returns the value of a result row: the columns of the left row, then those of the right one.
    fn pair(&self, left: &[u8], right: &[u8]) -> Vec<u8> {
        let comma = if self.has_both { &b","[..] } else { b"" };
        [left, comma, right].concat()
    }
}

/// The columns of the left rows of a key, in two allocations. A key may have very many short rows,
/// and an allocation for each of them would take many times the bytes of its columns.
#[derive(Default)]
struct LeftRows {
    /// The columns of all rows, one row after the other.
    columns: Vec<u8>,
    /// For each row, the end of its columns in `columns`.
    ends: Vec<u32>,
}

impl LeftRows {
    fn push(&mut self, columns: &[u8]) -> Result<(), TaskError> {
        self.columns.extend_from_slice(columns);
        let end = u32::try_from(self.columns.len()).map_err(TaskError::failed)?;
        self.ends.push(end);
        Ok(())
    }

    /// Returns the bytes of the rows in memory.
    fn bytes(&self) -> usize {
        self.columns.len() + size_of_val(&self.ends[..])
    }

    /// Returns the columns of each row, in the order of the rows.
    fn columns(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let places = starts.zip(&self.ends);
        places.map(move |(&start, &end)| &self.columns[start as usize..end as usize])
    }
}

/// Splits a value that a map emitted into the byte of its side and the columns of its row.
fn split_side(value: &[u8]) -> Result<(u8, &[u8]), TaskError> {
    let (&side, columns) = value
        .split_first()
        .ok_or_else(|| TaskError::failed("a value without a side"))?;
    Ok((side, columns))
}

impl Reducer for PairReducer {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let key = match key.split_first() {
            Some((&JOINED, key)) => key,
            Some((&UNPAIRED, _)) => return self.reduce_unpaired(values, emit),
            _ => return Err(TaskError::failed("a key that no map of a join emits")),
        };
        // The maps of the left side are the first ones, so the left values come first.
        let (mut left, mut has_right) = (LeftRows::default(), false);
        while let Some(value) = values.next_value()? {
            let (side, value) = split_side(value)?;
            if side == LEFT {
                left.push(value)?;
                if left.bytes() > self.left_bytes_max {
                    return Err(TaskError::failed(format!(
                        "the rows of key {:?} on the left side take more than {} bytes of memory; \
                         swap the sides if the right one has fewer",
                        key.escape_ascii().to_string(),
                        self.left_bytes_max
                    )));
                }
                continue;
            }
            has_right = true;
            for left in left.columns() {
                emit.emit(key, &self.pair(left, value))?;
            }
        }
        if !has_right && self.kind == JoinKind::Left {
            for left in left.columns() {
                emit.emit(key, &self.pair(left, &self.right_nothing))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ValueFormat;
    use crate::testing::{input, report, run};
    use ebb_scheduler::runtime::{HashPartitioner, Outcome, Partitioner, VecOutput};
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeSet;

    fn csv(names: &[&str]) -> RecordFormat {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        RecordFormat::file(ValueFormat::csv(Some(&names)).unwrap())
    }

    fn joined(left: &[String], right: &[String], kind: JoinKind) -> Vec<(String, String)> {
        let left = JoinSide::new(input(left, 3), &csv(&["k", "n"]), Some("1")).unwrap();
        let right = JoinSide::new(input(right, 4), &csv(&["n", "k"]), Some("2")).unwrap();
        let nothing: [&str; 0] = [];
        run(&nothing, 1, |_, output| {
            spec("join", left, right, output, kind, 3)
        })
    }

    #[test]
    fn every_pair_with_the_same_key_is_there_once() {
        for_seeds("every_pair_with_the_same_key_is_there_once", 1, |seed| {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let mut rows = |count| -> Vec<(u32, u32)> {
                (0..count).map(|n| (rng.random_range(0..60), n)).collect()
            };
            let (left, right) = (rows(80), rows(150));
            let lines = |rows: &[(u32, u32)], line: fn(u32, u32) -> String| -> Vec<String> {
                rows.iter().map(|&(key, n)| line(key, n)).collect()
            };
            let left_lines = lines(&left, |key, n| format!("k{key},l{n}"));
            let right_lines = lines(&right, |key, n| format!("r{n},k{key}"));
            for kind in [JoinKind::Inner, JoinKind::Left] {
                // Computed by nested loops over the rows.
                let mut expected = Vec::new();
                for (key, l) in &left {
                    let matches = right.iter().filter(|(other, _)| other == key);
                    let before = expected.len();
                    for (_, r) in matches {
                        expected.push((format!("k{key}"), format!("l{l},r{r}")));
                    }
                    if kind == JoinKind::Left && expected.len() == before {
                        expected.push((format!("k{key}"), format!("l{l},")));
                    }
                }
                let mut found = joined(&left_lines, &right_lines, kind);
                found.sort();
                expected.sort();
                assert_eq!(found, expected);
            }
        });
    }

    /// Regression: a row without columns besides the key counted as no memory, and each row took tens
    /// of bytes beyond its columns. Here each of the 100 left rows of the key takes four bytes.
    #[test]
    fn a_key_with_too_many_left_rows_fails_the_job_and_is_named_however_short_they_are() {
        for (left_bytes_max, is_enough) in [(400, true), (399, false)] {
            let side = |lines: &[&str]| {
                JoinSide::new(input(lines, 2), &RecordFormat::text(), Some("value")).unwrap()
            };
            let (left, right) = (side(&["hub"; 100]), side(&["hub", "x"]));
            let reducer = PairReducer {
                kind: JoinKind::Inner,
                right_nothing: Vec::new(),
                has_both: false,
                left_bytes_max,
            };
            let nothing: [&str; 0] = [];
            let output = VecOutput::new();
            let ended = report(input(&nothing, 1), output.clone(), |_, output| {
                spec("join", left, right, output, JoinKind::Inner, 1).reducer(Arc::new(reducer), 1)
            });
            match ended.outcome {
                Outcome::Failed { cause } if !is_enough => {
                    assert!(cause.contains("the rows of key \"hub\""), "{cause}");
                }
                outcome => assert!(is_enough && outcome == Outcome::Succeeded, "{outcome:?}"),
            }
            let rows = output.rows().map(|rows| rows.len());
            assert_eq!(rows, is_enough.then_some(100));
        }
    }

    #[test]
    fn rows_are_joined_by_their_own_keys_where_no_column_is_named() {
        let side =
            |lines: &[&str]| JoinSide::new(input(lines, 1), &RecordFormat::text(), None).unwrap();
        let (left, right) = (side(&["a", "b"]), side(&["c", "d", "e"]));
        let nothing: [&str; 0] = [];
        let rows = run(&nothing, 1, |_, output| {
            spec("join", left, right, output, JoinKind::Inner, 1)
        });
        let rows: Vec<_> = rows.iter().map(|(k, v)| format!("{k} {v}")).collect();
        assert_eq!(rows, ["0000 a,c", "0001 b,d"]);
    }

    #[test]
    fn rows_without_a_key_are_in_no_pair_and_a_left_join_keeps_the_left_ones() {
        // Nulls and empty fields once were pairs, and a left join lost rows without the column.
        let left_lines = [
            r#"{"k": null, "n": 1}"#,
            r#"{"n": 2}"#,
            r#"{"k": "", "n": 3}"#,
            r#"{"k": "a", "n": 4}"#,
            r#"{"k": "b", "n": 5}"#,
        ];
        let json = RecordFormat::file(ValueFormat::Json);
        let nothing: [&str; 0] = [];
        for (kind, expected) in [
            (JoinKind::Inner, &["a|r2"][..]),
            (JoinKind::Left, &["a|r2", "b|", "|", "|", "|"][..]),
        ] {
            let left = JoinSide::new(input(&left_lines, 2), &json, Some("k")).unwrap();
            let right_lines = [",r1", "a,r2", ",r3"];
            let right =
                JoinSide::new(input(&right_lines, 2), &csv(&["k", "n"]), Some("k")).unwrap();
            let rows = run(&nothing, 1, |_, output| {
                spec("join", left, right, output, kind, 2)
            });
            // The last column is that of the right side.
            let shown = rows.iter().map(|(key, row)| {
                let (_, right) = row.rsplit_once(',').unwrap();
                format!("{key}|{right}")
            });
            let mut found: Vec<String> = shown.collect();
            found.sort();
            assert_eq!(found, expected, "{kind:?}");
        }
    }

    /// An emitter that collects the numbers of the tasks that would reduce the emitted records, if there were
    /// four reduce tasks.
    #[derive(Default)]
    struct ReduceTasks(BTreeSet<u32>);

    impl Emit for ReduceTasks {
        fn emit(&mut self, key: &[u8], _: &[u8]) -> Result<(), TaskError> {
            self.0.insert(HashPartitioner.partition(key, 4));
            Ok(())
        }

        fn checkpoint(&mut self) -> Result<(), TaskError> {
            Ok(())
        }
    }

    /// Regression: all left rows without a key went to one reduce task.
    #[test]
    fn left_rows_without_a_key_are_spread_over_the_reduce_tasks() {
        let side = || {
            let nothing: [&str; 0] = [];
            JoinSide::new(input(&nothing, 1), &csv(&["k", "n"]), Some("k")).unwrap()
        };
        // For a single reduce task they all have one key, and so stay in the order of the input.
        for (reduces, expected) in [(4, 4), (1, 1)] {
            let output = Arc::new(VecOutput::new());
            let job = spec("join", side(), side(), output, JoinKind::Left, reduces);
            let mut tasks = ReduceTasks::default();
            for number in 0..100 {
                // The key of a record of the left side begins with a zero.
                let key = format!("\0{number:04}");
                job.mapper.map(key.as_bytes(), b",7", &mut tasks).unwrap();
            }
            assert_eq!(tasks.0.len(), expected, "{:?}", tasks.0);
        }
    }

    #[test]
    fn columns_have_the_names_of_their_sides_and_those_of_the_right_are_set_apart() {
        let side = |schema: &RecordFormat, on| {
            JoinSide::new(input(&[] as &[&str], 1), schema, on).unwrap()
        };
        let names = |left: &JoinSide, right: &JoinSide| {
            let columns = rows(left, right).columns().into_iter();
            columns
                .map(|column| column.name)
                .collect::<Vec<_>>()
                .join(",")
        };
        let cities = side(&csv(&["id", "name", "size"]), Some("name"));
        let trips = side(&csv(&["id", "city", "name"]), Some("city"));
        assert_eq!(names(&cities, &trips), "name,id,size,right_id,right_name");
        let json = RecordFormat::file(ValueFormat::Json);
        let lines = side(&json, Some("user.city"));
        assert_eq!(names(&cities, &lines), "name,id,size,value");
        assert_eq!(names(&lines, &cities), "user.city,value,id,size");
        let table = side(&RecordFormat::table(ValueFormat::text()).unwrap(), None);
        assert_eq!(names(&table, &table), "key,value,right_value");
        let of_value = side(&RecordFormat::text(), Some("value"));
        assert_eq!(names(&of_value, &table), "value,right_value");
    }

    #[test]
    fn a_side_without_other_columns_adds_none() {
        let text = RecordFormat::text();
        let table = RecordFormat::table(ValueFormat::text()).unwrap();
        let nothing: [&str; 0] = [];
        for (left_line, schema, right_line, right_on, expected) in [
            ("0000", &table, "x, y", None, "0000 x, y"),
            ("a", &table, "a", Some("value"), "a 0000"),
            ("a", &text, "a", Some("value"), "a "),
            ("b", &table, "a", None, "b "),
        ] {
            let left = JoinSide::new(input(&[left_line], 1), &text, Some("value")).unwrap();
            let right = JoinSide::new(input(&[right_line], 1), schema, right_on).unwrap();
            let found = run(&nothing, 1, |_, output| {
                spec("join", left, right, output, JoinKind::Left, 1)
            });
            let found: Vec<_> = found.iter().map(|(k, v)| format!("{k} {v}")).collect();
            assert_eq!(found, [expected]);
        }
    }
}
