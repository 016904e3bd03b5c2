//! Join: pairs of rows of two inputs that have the same key.
//!
//! | file | content |
//! | --- | --- |
//! | `side` | one input of a join, with its key and its columns |
//! | `mapper` | the record of each row of a side, by its key |
//! | `reducer` | the pairs of the rows of a key |

mod mapper;
mod reducer;
mod side;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ebb_scheduler::runtime::{JobSpec, Output};
use serde::{Deserialize, Serialize};

use self::mapper::{SideMapper, UNPAIRED_KEYS};
use self::reducer::{LEFT_BYTES_MAX, PairReducer};
pub use self::side::{JoinSide, rows};
use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::inputs::Union;
use super::options::one;
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

/// The choice of left rows that the result of a join contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Only left rows that have a right row with the same key.
    Inner,
    /// All left rows; if no right row has the same key, the right columns are empty.
    Left,
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
    let columns = (left.along.len(), right.along.len());
    let reducer = PairReducer::new(kind, columns, LEFT_BYTES_MAX);
    let seen = SeenColumns::of_sides(&left.key.name, &right.key.name);
    let mapper = SideMapper {
        left,
        right,
        kind,
        is_record: columns.0 + columns.1 > 1,
        unpaired_keys: if reduces > 1 { UNPAIRED_KEYS } else { 1 },
        seen: Arc::clone(&seen),
    };
    let spec = JobSpec::new(name, input, Arc::new(mapper), output)
        .reducer(Arc::new(reducer), reduces.max(1));
    seen.required(spec)
}
