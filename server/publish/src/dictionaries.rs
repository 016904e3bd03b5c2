//! The choice of the columns of a data file that get a dictionary.

use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use xxhash_rust::xxh3::xxh3_64;

/// A column gets no dictionary if more than this percentage of its first values are distinct.
///
/// The Parquet library gives up a dictionary only at 1 MiB, and begins a new one in each row group.
/// A column of unique values of 8 bytes has 131,072 rows by then, each with an index of up to 17
/// bits that does not compress. Such a dictionary saves nothing.
///
/// A batch of rows of 93 bytes has n = 11,000 values. If they are drawn uniformly from D values,
/// the expected share of distinct ones is D(1 - e^(-n/D))/n. This is 0.90 for D = 50,000, and 0.96
/// for D = 131,072, the number of values of 8 bytes at which a dictionary is full.
const DISTINCT_PERCENT_MAX: usize = 95;

/// The least number of values that are not null for a decision about a column. A column with fewer
/// gets a dictionary: few values are mostly distinct even if later ones repeat them.
const VALUES_MIN: usize = 1_000;

/// The greatest number of hashes of all columns together, 2 MiB, if each column then has at least [`VALUES_MIN`].
/// A batch of up to 16 columns has no more values, because it has at most 16,384 rows.
const HASHES_MAX: usize = 1 << 18;

/// The values of the first batch of a file, which decide which columns get a dictionary.
pub(crate) struct FirstValues {
    /// The greatest number of values of a column that are judged. Later values are left out.
    values_max: usize,
    /// The columns in their order. `None` stands for a column of a nested type. Its parts are
    /// columns of their own in Parquet, which are not judged and keep their dictionaries.
    columns: Vec<Option<FirstOfColumn>>,
}

struct FirstOfColumn {
    path: ColumnPath,
    /// The hashes of the values that are not null. The hash function has no random seed, so the
    /// same rows always make the same file.
    hashes: Vec<u64>,
}

impl FirstValues {
    pub(crate) fn new(schema: &SchemaDescriptor) -> Self {
        let columns = schema.root_schema().get_fields().iter().map(|field| {
            field.is_primitive().then(|| FirstOfColumn {
                path: ColumnPath::from(field.name()),
                hashes: Vec::new(),
            })
        });
        Self {
            values_max: values_max(schema.num_columns()),
            columns: columns.collect(),
        }
    }

    /// Adds a value that is not null to column number `column`.
    pub(crate) fn add(&mut self, column: usize, value: &[u8]) {
        if let Some(column) = &mut self.columns[column]
            && column.hashes.len() < self.values_max
        {
            column.hashes.push(xxh3_64(value));
        }
    }

    /// Turns off the dictionaries of the columns whose values are almost all distinct.
    pub(crate) fn choose(self, mut properties: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
        for FirstOfColumn { path, hashes } in self.columns.into_iter().flatten() {
            if are_almost_unique(hashes) {
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        properties
    }
}

/// Returns the greatest number of values of a column that are judged, for a file with `columns` columns in Parquet.
fn values_max(columns: usize) -> usize {
    (HASHES_MAX / columns.max(1)).max(VALUES_MIN)
}

/// Returns whether there are at least [`VALUES_MIN`] values, and almost all of them are distinct.
/// `hashes` has the hash of each value.
fn are_almost_unique(mut hashes: Vec<u64>) -> bool {
    let values = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    values >= VALUES_MIN && hashes.len() * 100 > values * DISTINCT_PERCENT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_of_many_columns_are_limited() {
        for (columns, values) in [(1, 262_144), (16, 16_384), (100, 2_621), (500, 1_000)] {
            assert_eq!(values_max(columns), values, "{columns} columns");
        }
    }

    #[test]
    fn values_are_almost_unique_if_more_than_95_percent_are_distinct() {
        // Values 0 to `distinct - 1`, and the last of them again.
        let judge = |count: u64, distinct: u64| {
            let hashes = (0..count).map(|value| value.min(distinct - 1));
            are_almost_unique(hashes.collect())
        };
        assert!(judge(10_000, 10_000) && judge(10_000, 9_501));
        assert!(!judge(10_000, 9_500) && !judge(10_000, 1));
        assert!(judge(1_000, 1_000) && !judge(999, 999));
        assert!(!are_almost_unique(Vec::new()));
    }
}
