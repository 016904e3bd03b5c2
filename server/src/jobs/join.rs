//! Join: rows of two inputs that have the same key, side by side.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, Reducer, TaskError, Values};

use super::Application;
use super::inputs::{Side, Union};
use super::outputs::Column;
use super::records::csv::record;
use super::records::{Columns, RecordFormat, UnknownColumn};

/// What a listing says about it.
pub const APPLICATION: Application = Application {
    name: "join",
    summary: "Puts rows of two inputs that have the same key side by side.",
};

/// How many bytes of left values of one key are held in memory.
const LEFT_BYTES_MAX: usize = 64 << 20;

/// What its rows have: the key, and the values that had it.
pub fn columns() -> Vec<Column> {
    ["key", "left", "right"].map(Column::text).to_vec()
}

/// Which left rows there are in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Those with a right row of the same key.
    Inner,
    /// All; without a right row with an empty right value.
    Left,
}

/// An input and what of it is the key.
pub struct JoinSide {
    input: Arc<dyn Input>,
    on: Columns,
}

impl JoinSide {
    /// The rows of `input`, whose values are in `format`, by the column called
    /// `on`; by their own keys without one.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn new(
        input: Arc<dyn Input>,
        format: &RecordFormat,
        on: Option<&str>,
    ) -> Result<Self, UnknownColumn> {
        Ok(Self {
            input,
            on: Columns::new(format, on.as_slice())?,
        })
    }
}

/// A job that joins in `reduces` reduce tasks, at least one. Its rows: the key, and
/// as a CSV record the left and the right value, for every pair of rows that have
/// the key. Rows whose column is missing have no key and are in no pair.
///
/// The left values of one key are held in memory, up to 64 MiB; right ones are
/// streamed, so the side with fewer rows per key should be the left one.
pub fn spec(
    name: impl Into<String>,
    left: JoinSide,
    right: JoinSide,
    output: Arc<dyn Output>,
    kind: JoinKind,
    reduces: u32,
) -> JobSpec {
    let input = Arc::new(Union::new(left.input, right.input));
    let mapper = SideMapper {
        left: left.on,
        right: right.on,
    };
    let reducer = PairReducer {
        kind,
        left_bytes_max: LEFT_BYTES_MAX,
    };
    JobSpec::new(name, input, Arc::new(mapper), output).reducer(Arc::new(reducer), reduces.max(1))
}

/// Emits the value with the byte of its side before it.
struct SideMapper {
    left: Columns,
    right: Columns,
}

const LEFT: u8 = 0;
const RIGHT: u8 = 1;

impl Mapper for SideMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let (side, key) = Side::of(key);
        let (on, side) = match side {
            Side::Left => (&self.left, LEFT),
            Side::Right => (&self.right, RIGHT),
        };
        let key = match on.names() {
            [] => Some(key.to_vec()),
            _ => on.read(key, value)?.pop().flatten(),
        };
        match key {
            Some(key) => emit.emit(&key, &[&[side][..], value].concat()),
            None => Ok(()),
        }
    }
}

struct PairReducer {
    kind: JoinKind,
    left_bytes_max: usize,
}

impl Reducer for PairReducer {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        // The left side's maps are the first, so its values are too.
        let mut left: Vec<Vec<u8>> = Vec::new();
        let (mut left_bytes, mut has_right) = (0, false);
        while let Some(value) = values.next_value()? {
            let (&side, value) = value
                .split_first()
                .ok_or_else(|| TaskError::failed("a value without a side"))?;
            if side == LEFT {
                left_bytes += value.len();
                if left_bytes > self.left_bytes_max {
                    return Err(TaskError::failed(format!(
                        "key {:?} has more than {} bytes of values on the left side; \
                         swap the sides if the right one has fewer",
                        key.escape_ascii().to_string(),
                        self.left_bytes_max
                    )));
                }
                left.push(value.to_vec());
                continue;
            }
            has_right = true;
            for left in &left {
                emit.emit(key, &record([&left[..], value]))?;
            }
        }
        if !has_right && self.kind == JoinKind::Left {
            for left in &left {
                emit.emit(key, &record([&left[..], b""]))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{input, run};
    use rand::{RngExt, SeedableRng};

    const UNNAMED: RecordFormat = RecordFormat::Csv { names: None };

    fn joined(left: &[String], right: &[String], kind: JoinKind) -> Vec<(String, String)> {
        let left = JoinSide::new(input(left, 3), &UNNAMED, Some("1")).unwrap();
        let right = JoinSide::new(input(right, 4), &UNNAMED, Some("2")).unwrap();
        let nothing: [&str; 0] = [];
        run(&nothing, 1, |_, output| {
            spec("join", left, right, output, kind, 3)
        })
    }

    #[test]
    fn every_pair_with_the_same_key_is_there_once() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut rows = |count| -> Vec<(u32, u32)> {
            (0..count).map(|n| (rng.random_range(0..60), n)).collect()
        };
        let (left, right) = (rows(80), rows(150));
        let lines = |rows: &[(u32, u32)], line: fn(u32, u32) -> String| -> Vec<String> {
            rows.iter().map(|&(key, n)| line(key, n)).collect()
        };
        let left_lines = lines(&left, |key, n| format!("k{key},l{n}"));
        let mut right_lines = lines(&right, |key, n| format!("r{n},k{key}"));
        right_lines.push("has no second column".into());
        for kind in [JoinKind::Inner, JoinKind::Left] {
            // By nested loops over the rows.
            let mut expected = Vec::new();
            for (key, l) in &left {
                let matches = right.iter().filter(|(other, _)| other == key);
                let before = expected.len();
                for (_, r) in matches {
                    let value = format!("\"k{key},l{l}\",\"r{r},k{key}\"");
                    expected.push((format!("k{key}"), value));
                }
                if kind == JoinKind::Left && expected.len() == before {
                    expected.push((format!("k{key}"), format!("\"k{key},l{l}\",")));
                }
            }
            let mut found = joined(&left_lines, &right_lines, kind);
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn rows_are_joined_by_their_own_keys_where_no_column_is_named() {
        let side =
            |lines: &[&str]| JoinSide::new(input(lines, 1), &RecordFormat::Text, None).unwrap();
        let (left, right) = (side(&["a", "b"]), side(&["c", "d", "e"]));
        let nothing: [&str; 0] = [];
        let rows = run(&nothing, 1, |_, output| {
            spec("join", left, right, output, JoinKind::Inner, 1)
        });
        let rows: Vec<_> = rows.iter().map(|(k, v)| format!("{k} {v}")).collect();
        assert_eq!(rows, ["0000 a,c", "0001 b,d"]);
    }
}
