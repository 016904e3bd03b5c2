//! Validate: whether values are in order, their number, and a checksum over them, as in
//! TeraValidate. For the input and the output of a sort, number and checksum are equal, and
//! the output has nothing misplaced.

use std::cmp::Ordering;
use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Mapper, Output, TaskError, Values};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::records::{Column, RecordFormat};
use super::seen::SeenColumns;
use super::sort::{Order, OrderRequest};

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run validate --text sorted.txt --output -
  ebb run validate --csv trips.csv --by fare --numeric --output -

The result has the rows checksum, which is the same for the same values in any order;
misplaced, the number of values that should come before the value that they follow; records,
the number of values; and misplaced_first, the first misplaced value, if there is one.";

/// Check whether values are in order; count them and compute a checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ValidateRequest {
    /// The order that values should be in.
    #[serde(default)]
    #[cfg_attr(feature = "args", command(flatten))]
    pub order: OrderRequest,
}

impl Application for ValidateRequest {
    const NAME: &'static str = "validate";

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, format) = materials.input(0)?;
        let order = self.order.of_rows(format)?;
        let output = materials.destination.output(Arc::new(rows()))?;
        Ok(spec(Self::NAME, input, output, order).into())
    }
}

/// Returns the format of the rows that the job writes.
pub fn rows() -> RecordFormat {
    RecordFormat::rows(vec![Column::text("measure")], vec![Column::text("value")])
}

/// Returns a job that checks all values in the order of the input. The rows of the result:
///
/// - `checksum`: the sum of the xxh3 hashes of all values, which is the same in any order
/// - `misplaced`: the number of values that are less than the value before them
/// - `records`: the number of values
/// - `misplaced_first`, if a value is misplaced: the first such value
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    order: Order,
) -> JobSpec {
    let seen = order.seen();
    let mapper = value_mapper(order, Arc::clone(&seen));
    let spec = JobSpec::new(name, input, Arc::new(mapper), output)
        .reducer(Arc::new(emit_result), 1)
        .combiner(Arc::new(combine));
    seen.required(spec)
}

/// The measurements of some consecutive values of the input.
///
/// All summaries are emitted under one key. Combiners and the reducer get the values of a key in
/// the order of the map tasks, and those of a task in the order in which it emitted them. So each
/// step combines summaries of neighbouring values, in the order of the input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    records: u64,
    checksum: u128,
    misplaced: u64,
    /// The sort key of the first value that is summarized, to compare it with `last` of the values
    /// before.
    first: Vec<u8>,
    /// The sort key of the last value that is summarized, to compare it with `first` of the values
    /// that follow.
    last: Vec<u8>,
    /// The first value that is summarized (the first of the input's order, not the least), for the
    /// report if it is misplaced; `None` if its bytes equal its sort key, `first`.
    first_value: Option<Vec<u8>>,
    /// The first value that is less than the value before it; `None` if there is none.
    misplaced_first: Option<Vec<u8>>,
}

impl Summary {
    fn of(ordered: Vec<u8>, value: &[u8]) -> Self {
        Self {
            records: 1,
            checksum: xxh3_64(value).into(),
            misplaced: 0,
            first_value: (ordered != value).then(|| value.to_vec()),
            first: ordered.clone(),
            last: ordered,
            misplaced_first: None,
        }
    }

    /// Extends this summary by `next`, the summary of the values that come right after.
    fn add(&mut self, next: Self) {
        if self.records == 0 {
            *self = next;
            return;
        }
        let late = next.first.cmp(&self.last) == Ordering::Less;
        self.records += next.records;
        self.checksum = self.checksum.wrapping_add(next.checksum);
        self.misplaced += next.misplaced + u64::from(late);
        if self.misplaced_first.is_none() {
            self.misplaced_first = if late {
                Some(next.first_value.unwrap_or(next.first))
            } else {
                next.misplaced_first
            };
        }
        self.last = next.last;
    }

    /// Encodes the summary, with integers in little-endian order:
    ///
    /// ```text
    ///   records, u64 | checksum, u128 | misplaced, u64
    ///   | four times: 1 if it is there, else 0 | length, u32 | bytes
    ///     (first, last, first_value, misplaced_first)
    /// ```
    fn encode(&self) -> Result<Vec<u8>, TaskError> {
        let mut bytes = self.records.to_le_bytes().to_vec();
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(self.misplaced.to_le_bytes());
        for text in [
            Some(&self.first),
            Some(&self.last),
            self.first_value.as_ref(),
            self.misplaced_first.as_ref(),
        ] {
            bytes.push(u8::from(text.is_some()));
            let text = text.map_or(&[][..], Vec::as_slice);
            let length = u32::try_from(text.len()).map_err(TaskError::failed)?;
            bytes.extend(length.to_le_bytes());
            bytes.extend(text);
        }
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.split_first_chunk()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let (misplaced, mut rest) = rest.split_first_chunk()?;
        let mut text = || {
            let (&is_there, after) = rest.split_first()?;
            let (length, after) = after.split_first_chunk()?;
            let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = after;
            Some((is_there == 1).then(|| text.to_vec()))
        };
        Some(Self {
            records: u64::from_le_bytes(*records),
            checksum: u128::from_le_bytes(*checksum),
            misplaced: u64::from_le_bytes(*misplaced),
            first: text()??,
            last: text()??,
            first_value: text()?,
            misplaced_first: text()?,
        })
    }

    fn combine(values: &mut Values<'_>) -> Result<Self, TaskError> {
        let mut all = Self::default();
        while let Some(value) = values.next_value()? {
            let next = Self::decode(value);
            all.add(next.ok_or_else(|| TaskError::failed("a summary is cut short"))?);
        }
        Ok(all)
    }
}

fn value_mapper(order: Order, seen: Arc<SeenColumns>) -> impl Mapper {
    move |key: &[u8], value: &[u8], emit: &mut dyn Emit| {
        let mut ordered = Vec::new();
        order.key(key, value, &seen, &mut ordered)?;
        emit.emit(b"", &Summary::of(ordered, value).encode()?)
    }
}

fn combine(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    emit.emit(key, &Summary::combine(values)?.encode()?)
}

fn emit_result(_key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let all = Summary::combine(values)?;
    emit.emit(b"checksum", format!("{:x}", all.checksum).as_bytes())?;
    emit.emit(b"misplaced", all.misplaced.to_string().as_bytes())?;
    if let Some(value) = &all.misplaced_first {
        emit.emit(b"misplaced_first", value)?;
    }
    emit.emit(b"records", all.records.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::run;

    fn validate(lines: &[String], splits: usize) -> BTreeMap<String, String> {
        let order = Order::new(&RecordFormat::text(), &[], false, false).unwrap();
        let rows = run(lines, splits, |input, output| {
            spec("validate", input, output, order)
        });
        rows.into_iter().collect()
    }

    #[test]
    fn misplaced_values_are_found_wherever_splits_end() {
        let mut lines: Vec<String> = (0..5000).map(|n| format!("{n:05}")).collect();
        let sorted = validate(&lines, 1);
        assert_eq!(sorted["records"], "5000");
        assert_eq!(sorted["misplaced"], "0");
        assert!(!sorted.contains_key("misplaced_first"));
        for splits in [2, 7, 500] {
            assert_eq!(validate(&lines, splits), sorted, "{splits}");
        }
        lines.swap(2499, 2500);
        lines.swap(4000, 4500);
        // Counted with other code: pairs of neighbours that descend.
        let descents: Vec<_> = lines.windows(2).filter(|pair| pair[0] > pair[1]).collect();
        for splits in [1, 2, 7, 500] {
            let swapped = validate(&lines, splits);
            assert_eq!(swapped["misplaced"], descents.len().to_string());
            assert_eq!(swapped["misplaced_first"], descents[0][1]);
            assert_eq!(swapped["checksum"], sorted["checksum"]);
        }
        lines[17] = "00018".into();
        assert_ne!(validate(&lines, 3)["checksum"], sorted["checksum"]);
    }

    #[test]
    fn a_summary_reads_back_and_a_short_one_does_not() {
        let mut summary = Summary::of(b"key".to_vec(), b"value");
        summary.misplaced_first = Some(b"late".to_vec());
        let bytes = summary.encode().unwrap();
        assert_eq!(Summary::decode(&bytes), Some(summary));
        assert_eq!(Summary::decode(&bytes[..40]), None);
        assert_eq!(Summary::decode(&[]), None);
    }
}
