//! The aggregates of the columns of a group of rows, and their bytes on the way from maps to reduces:
//!
//! ```text
//!   rows, u64 | 1 | each column: count, u64 | sum, 17 bytes | min, 9 bytes | max, 9 bytes
//!   rows, u64 | 0 | each column: count, u64 | sum | min, max | sketch
//! ```
//!
//! The first form has the same length for all groups of a job. So a map combines rows of a group in
//! place in its buffer, and has one record for each group to sort, not one for each row. The second
//! form is for sketches and for long numbers. It is also the shorter one, so combiners write it.

use super::sketch::{Sketch, take};
use crate::records::Number;

/// The byte after the number of rows, if the columns of the group have the form with a fixed length.
const FIXED: u8 = 1;
/// The byte after the number of rows, if the columns of the group have the compact form.
const COMPACT: u8 = 0;

/// The length of a column's aggregate in the form with a fixed length, in bytes.
const COLUMN_BYTES: usize = size_of::<u64>() + SUM_BYTES + 2 * END_BYTES;
/// The length of an encoded sum, in bytes: a scale and a mantissa of 128 bits. These are enough for
/// the sum of 10^18 numbers that have mantissas of 64 bits and the same scale.
const SUM_BYTES: usize = 1 + size_of::<i128>();
const END_BYTES: usize = 1 + size_of::<i64>();

/// The aggregate of one column over some rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Measures {
    count: u64,
    sum: Number,
    /// The smallest and the greatest value; `None` if there are no values.
    ends: Option<(Number, Number)>,
    sketch: Sketch,
}

impl Measures {
    /// Creates the aggregate of one row. `value` is the row's value in the column, `None` if it has none.
    /// `sketched` is the value as a float, if quantiles are to be computed.
    pub fn of_row(value: Option<Number>, sketched: Option<f64>) -> Self {
        let Some(value) = value else {
            return Self::default();
        };
        let mut sketch = Sketch::default();
        if let Some(sketched) = sketched {
            sketch.add(sketched);
        }
        Self {
            count: 1,
            sum: value.clone(),
            ends: Some((value.clone(), value)),
            sketch,
        }
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum += &other.sum;
        self.sketch.merge(&other.sketch);
        self.ends = match (self.ends.take(), other.ends) {
            (Some((min, max)), Some((other_min, other_max))) => {
                Some((min.min(other_min), max.max(other_max)))
            }
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// Appends the fields of the column to a row of the result: count, sum, smallest, greatest, mean
    /// and quantiles. If there are no values, all fields but the count are empty.
    pub fn push_fields(&self, quantiles: &[f64], fields: &mut Vec<String>) {
        fields.push(self.count.to_string());
        let Some((min, max)) = &self.ends else {
            fields.extend((0..4 + quantiles.len()).map(|_| String::new()));
            return;
        };
        let mean = self.sum.mean(self.count);
        fields.extend([&self.sum, min, max, &mean].map(Number::to_string));
        let quantile = |&q: &f64| {
            // The middle of a bucket must not lie beyond the values.
            let value = self.sketch.quantile(q).unwrap_or_default();
            if value <= min.to_f64() {
                min.to_string()
            } else if value >= max.to_f64() {
                max.to_string()
            } else {
                value.to_string()
            }
        };
        fields.extend(quantiles.iter().map(quantile));
    }

    /// Appends the aggregate:
    ///
    /// ```text
    ///   count, u64 | sum if count > 0 | min, max if count > 1 | sketch if has_sketch and count > 0
    /// ```
    ///
    /// With one value, sum, min and max are that value, and only the sum is written.
    fn encode(&self, has_sketch: bool, bytes: &mut Vec<u8>) {
        bytes.extend(self.count.to_le_bytes());
        if let Some((min, max)) = &self.ends {
            self.sum.encode(bytes);
            if self.count > 1 {
                min.encode(bytes);
                max.encode(bytes);
            }
            if has_sketch {
                self.sketch.encode(bytes);
            }
        }
    }

    fn decode(bytes: &mut &[u8], has_sketch: bool) -> Option<Self> {
        let count = u64::from_le_bytes(take(bytes)?);
        if count == 0 {
            return Some(Self::default());
        }
        let sum = Number::decode(bytes)?;
        let ends = match count {
            1 => (sum.clone(), sum.clone()),
            _ => (Number::decode(bytes)?, Number::decode(bytes)?),
        };
        Some(Self {
            count,
            sum,
            ends: Some(ends),
            sketch: if has_sketch {
                Sketch::decode(bytes)?
            } else {
                Sketch::default()
            },
        })
    }

    /// Returns the aggregate without its sketch, in the form with a fixed length; `None` if the sum, the
    /// minimum or the maximum is too long for this form.
    fn encode_fixed(&self) -> Option<[u8; COLUMN_BYTES]> {
        let mut bytes = [0; COLUMN_BYTES];
        let (count, numbers) = bytes.split_at_mut(size_of::<u64>());
        count.copy_from_slice(&self.count.to_le_bytes());
        if let Some((min, max)) = &self.ends {
            let (to_sum, to_ends) = numbers.split_at_mut(SUM_BYTES);
            let (to_min, to_max) = to_ends.split_at_mut(END_BYTES);
            let fit = self.sum.encode_fixed(to_sum)
                && min.encode_fixed(to_min)
                && max.encode_fixed(to_max);
            if !fit {
                return None;
            }
        }
        Some(bytes)
    }

    fn decode_fixed(bytes: &[u8; COLUMN_BYTES]) -> Option<Self> {
        let (&count, numbers) = bytes.split_first_chunk()?;
        let (sum, ends) = numbers.split_at(SUM_BYTES);
        let (min, max) = ends.split_at(END_BYTES);
        let count = u64::from_le_bytes(count);
        if count == 0 {
            return Some(Self::default());
        }
        Some(Self {
            count,
            sum: Number::decode_fixed(sum)?,
            ends: Some((Number::decode_fixed(min)?, Number::decode_fixed(max)?)),
            sketch: Sketch::default(),
        })
    }
}

/// The aggregates of a group: the number of rows, and one entry per column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub rows: u64,
    pub measures: Vec<Measures>,
}

impl Group {
    pub fn new(columns: usize) -> Self {
        Self {
            rows: 0,
            measures: vec![Measures::default(); columns],
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        for (mine, theirs) in self.measures.iter_mut().zip(other.measures) {
            mine.merge(theirs);
        }
    }

    /// Encodes the group in the form with a fixed length, which [`combine_in_place`] requires. A group that
    /// has sketches, or a number too long for this form, is encoded in the compact form.
    pub fn encode_for_map(&self, has_sketch: bool) -> Vec<u8> {
        if has_sketch {
            return self.encode(true);
        }
        let mut bytes = self.rows.to_le_bytes().to_vec();
        bytes.push(FIXED);
        for measures in &self.measures {
            let Some(column) = measures.encode_fixed() else {
                return self.encode(false);
            };
            bytes.extend(column);
        }
        bytes
    }

    /// Returns the group in the compact form.
    pub fn encode(&self, has_sketch: bool) -> Vec<u8> {
        let mut bytes = self.rows.to_le_bytes().to_vec();
        bytes.push(COMPACT);
        for measures in &self.measures {
            measures.encode(has_sketch, &mut bytes);
        }
        bytes
    }

    /// Decodes a group of `columns` columns, which has sketches if `has_sketch`; `None` if the bytes
    /// are not an encoded group.
    pub fn decode(mut bytes: &[u8], columns: usize, has_sketch: bool) -> Option<Self> {
        let bytes = &mut bytes;
        let rows = u64::from_le_bytes(take(bytes)?);
        let [form] = take(bytes)?;
        let mut next = || match form {
            FIXED => Measures::decode_fixed(&take(bytes)?),
            COMPACT => Measures::decode(bytes, has_sketch),
            _ => None,
        };
        let measures = (0..columns).map(|_| next()).collect::<Option<_>>()?;
        Some(Self { rows, measures })
    }
}

/// Combines the group `value` into `into`, if both groups have the form with a fixed length and the
/// sums still fit. If not, returns false and leaves `into` unchanged.
pub(super) fn combine_in_place(into: &mut [u8], value: &[u8]) -> bool {
    let (Some((into_rows, [FIXED, into @ ..])), Some((rows, [FIXED, value @ ..]))) = (
        into.split_first_chunk_mut::<8>(),
        value.split_first_chunk::<8>(),
    ) else {
        return false;
    };
    let (into, _) = into.as_chunks_mut();
    let (value, _) = value.as_chunks();
    // Two passes, because no column may be written if the sum of another does not fit.
    let mut columns = into.iter().zip(value);
    if !columns.all(|(column, value)| combine_columns(column, value).is_some()) {
        return false;
    }
    for (column, value) in into.iter_mut().zip(value) {
        *column = combine_columns(column, value).unwrap_or(*column);
    }
    let sum = u64::from_le_bytes(*into_rows) + u64::from_le_bytes(*rows);
    *into_rows = sum.to_le_bytes();
    true
}

fn combine_columns(
    column: &[u8; COLUMN_BYTES],
    value: &[u8; COLUMN_BYTES],
) -> Option<[u8; COLUMN_BYTES]> {
    let mut measures = Measures::decode_fixed(column)?;
    measures.merge(Measures::decode_fixed(value)?);
    measures.encode_fixed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap()
    }

    /// Returns a group of one row with these values, one for each column. If `sketched` is `Some`, the sketch
    /// of each column with a value has this number.
    fn row(values: &[Option<&str>], sketched: Option<f64>) -> Group {
        let measures = values.iter().map(|text| {
            let value = text.map(number);
            let sketched = sketched.filter(|_| value.is_some());
            Measures::of_row(value, sketched)
        });
        Group {
            rows: 1,
            measures: measures.collect(),
        }
    }

    #[test]
    fn a_group_reads_back_from_its_bytes() {
        for (sketched, long) in [(None, "7"), (None, "1e400"), (Some(2.5), "1e400")] {
            let has_sketch = sketched.is_some();
            let mut group = Group::new(2);
            for text in ["2.5", "-7", long] {
                group.merge(row(&[None, Some(text)], sketched));
            }
            let measures = &group.measures[1];
            assert_eq!(measures.ends, Some((number("-7"), number(long))));
            assert_eq!(
                (group.rows, measures.count, group.measures[0].count),
                (3, 3, 0)
            );
            for bytes in [group.encode(has_sketch), group.encode_for_map(has_sketch)] {
                let short = &bytes[..bytes.len() - 1];
                assert_eq!(Group::decode(short, 2, has_sketch), None);
                assert_eq!(Group::decode(&bytes, 2, has_sketch), Some(group.clone()));
                let mut of_no_form = bytes;
                of_no_form[8] = 2;
                assert_eq!(Group::decode(&of_no_form, 2, has_sketch), None);
            }
        }
    }

    #[test]
    fn groups_are_combined_in_place_as_apart() {
        let rows = [
            row(&[Some("1.5"), None], None),
            row(&[Some("-20"), Some("3")], None),
            row(&[None, Some("9223372036854775807")], None),
            row(&[Some("0.125"), Some("-9223372036854775808")], None),
        ];
        let mut apart = Group::new(2);
        let mut in_place = Group::new(2).encode_for_map(false);
        for row in rows {
            assert!(combine_in_place(&mut in_place, &row.encode_for_map(false)));
            apart.merge(row);
        }
        assert_eq!(Group::decode(&in_place, 2, false), Some(apart));
    }

    #[test]
    fn a_group_that_cannot_be_combined_in_place_stays_as_it_is() {
        let fixed = row(&[Some("1"), Some("7e-38")], None).encode_for_map(false);
        // The sum of the second column would need more than 128 bits.
        let long_sum = row(&[Some("1"), Some("7000")], None).encode_for_map(false);
        let compact = row(&[Some("1"), Some("1e30")], None).encode_for_map(false);
        assert_eq!((long_sum.len(), compact[8]), (fixed.len(), COMPACT));
        for value in [&long_sum[..], &compact, &fixed[..8], &[]] {
            let mut into = fixed.clone();
            assert!(!combine_in_place(&mut into, value));
            assert_eq!(into, fixed);
        }
    }
}
