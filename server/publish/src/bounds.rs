//! The statistics of a Parquet file as Iceberg's manifests have them: by field id, bounds in the
//! serialization of single values (specification, version 2, appendix D).

use std::collections::BTreeMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::NullBuffer;
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::schema::types::ColumnDescriptor;

use crate::iceberg::manifest::Entry;
use crate::types::{IcebergType, NestedField};

/// The greatest size of an upper bound in a manifest, in bytes; a longer one is left out. The Parquet library
/// cuts the bounds of data files to 64 bytes. But if a value begins with the greatest characters or bytes, no
/// shorter bound is above it, and the bound is as long as the value, which may have megabytes. The bounds of
/// locations in delete files are not cut: they are shorter than 8 KiB.
const BOUND_BYTES_MAX: usize = 8 << 10;

/// The sizes, counts and bounds of the columns of a file, by field id. Columns within lists and maps are left
/// out.
pub(crate) struct Columns {
    pub(crate) sizes: Vec<Entry<i64>>,
    pub(crate) values: Vec<Entry<i64>>,
    pub(crate) nulls: Vec<Entry<i64>>,
    pub(crate) lower_bounds: Vec<Entry<Vec<u8>>>,
    pub(crate) upper_bounds: Vec<Entry<Vec<u8>>>,
}

/// The numbers of nulls of the floating-point columns outside of lists and maps, by field id. The writer of a file
/// counts them, because it writes no statistics of these columns. A manifest may leave the number of a column out,
/// but some versions of DuckDB then pass over the file when they search for nulls.
#[derive(Debug, Default)]
pub(crate) struct FloatNulls(BTreeMap<i32, i64>);

/// The sums of a column's sizes and counts, and its bounds, over all row groups of a file.
#[derive(Default)]
struct Sums {
    size_bytes: i64,
    values: i64,
    /// The number of nulls; `None` if the statistics of a row group lack its number.
    nulls: Option<i64>,
    bounds: Bounds,
}

#[derive(Default)]
enum Bounds {
    /// No row group has had a value.
    #[default]
    Empty,
    /// A lower and an upper bound of the column's values, each in Parquet's serialization.
    Known {
        lower: Vec<u8>,
        upper: Vec<u8>,
    },
    Unknown,
}

/// Returns whether the writer of a file leaves out the statistics of a column, because its values
/// are floating-point numbers. Least and greatest values in statistics do not include NaN. DuckDB
/// and Spark order NaN above all numbers, as Cassandra does. With such statistics, they would skip
/// rows with NaN that match a condition.
pub(crate) fn has_no_statistics(column: &ColumnDescriptor) -> bool {
    matches!(
        column.physical_type(),
        PhysicalType::FLOAT | PhysicalType::DOUBLE
    )
}

impl FloatNulls {
    /// Adds the nulls in `values`, which are values of `field`. If `field` is a part of a struct, `around` has the
    /// nulls of the struct: where the struct is null, its parts are null, too.
    pub(crate) fn add(
        &mut self,
        field: &NestedField,
        values: &dyn Array,
        around: Option<&NullBuffer>,
    ) {
        let nulls = NullBuffer::union(around, values.nulls());
        match &field.ty {
            IcebergType::Float | IcebergType::Double => {
                let count = nulls.map_or(0, |nulls| nulls.null_count());
                *self.0.entry(field.id).or_default() += count as i64;
            }
            IcebergType::Struct(parts) => {
                for (part, values) in parts.iter().zip(values.as_struct().columns()) {
                    self.add(part, values, nulls.as_ref());
                }
            }
            _ => {}
        }
    }
}

impl Columns {
    /// Returns the sizes, counts and bounds of the columns of a file with the row groups `groups`. `float_nulls` has
    /// the nulls of the columns without statistics.
    pub(crate) fn of(groups: &[RowGroupMetaData], float_nulls: &FloatNulls) -> Self {
        let mut sums: BTreeMap<i32, (Sums, Form)> = BTreeMap::new();
        for group in groups {
            for column in group.columns() {
                let descriptor = column.column_descr();
                let info = descriptor.self_type().get_basic_info();
                // In lists and maps, levels and values are not those of the rows.
                if !info.has_id() || descriptor.max_rep_level() > 0 {
                    continue;
                }
                let new = || (Sums::new(), Form::of(descriptor));
                let (sums, form) = sums.entry(info.id()).or_insert_with(new);
                sums.add(column, *form);
            }
        }
        let mut columns = Self {
            sizes: Vec::new(),
            values: Vec::new(),
            nulls: Vec::new(),
            lower_bounds: Vec::new(),
            upper_bounds: Vec::new(),
        };
        for (key, (sums, form)) in sums {
            let number = |value| Entry { key, value };
            columns.sizes.push(number(sums.size_bytes));
            columns.values.push(number(sums.values));
            let nulls = sums.nulls.or_else(|| float_nulls.0.get(&key).copied());
            columns.nulls.extend(nulls.map(number));
            if let Bounds::Known { lower, upper } = sums.bounds {
                let bound = |bytes: Vec<u8>| Entry {
                    key,
                    value: form.single_value(bytes),
                };
                columns.lower_bounds.push(bound(lower));
                // Without an upper bound, readers pass over the file only by the lower one.
                if upper.len() <= BOUND_BYTES_MAX {
                    columns.upper_bounds.push(bound(upper));
                }
            }
        }
        columns
    }
}

impl Sums {
    fn new() -> Self {
        Self {
            nulls: Some(0),
            ..Self::default()
        }
    }

    fn add(&mut self, column: &ColumnChunkMetaData, form: Form) {
        self.size_bytes += column.compressed_size();
        self.values += column.num_values();
        let statistics = column.statistics();
        let nulls = statistics.and_then(|s| s.null_count_opt());
        self.nulls = self.nulls.zip(nulls).map(|(sum, nulls)| sum + nulls as i64);
        if nulls == Some(column.num_values() as u64) {
            return;
        }
        let bounds = statistics.and_then(|s| Some((s.min_bytes_opt()?, s.max_bytes_opt()?)));
        let Some((min, max)) = bounds.filter(|_| form != Form::Unordered) else {
            self.bounds = Bounds::Unknown;
            return;
        };
        match &mut self.bounds {
            Bounds::Empty => {
                self.bounds = Bounds::Known {
                    lower: min.to_vec(),
                    upper: max.to_vec(),
                };
            }
            Bounds::Known { lower, upper } => {
                if form.is_below(min, lower) {
                    *lower = min.to_vec();
                }
                if form.is_below(upper, max) {
                    *upper = max.to_vec();
                }
            }
            Bounds::Unknown => {}
        }
    }
}

/// The form of a bound (a least or greatest value of a column) in Parquet's statistics: it decides
/// how bounds are compared and converted to Iceberg's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An integer with a sign, little endian in Parquet and in Iceberg.
    LittleEndian,
    /// A decimal that Parquet stores as an integer of 32 or 64 bits, little endian. Iceberg, too, stores the
    /// digits without the point as an integer, but big endian, in as few bytes as possible.
    SmallDecimal,
    /// A decimal that Parquet stores as an integer in a byte array of fixed length, big endian. Iceberg's
    /// form differs only in that it has as few bytes as possible.
    LargeDecimal,
    /// Bytes, ordered as unsigned.
    Bytes,
    /// Types without bounds: floating-point numbers, because readers disagree about the place of
    /// NaN, and others, such as booleans, whose bounds would exclude few files.
    Unordered,
}

impl Form {
    fn of(column: &ColumnDescriptor) -> Self {
        let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
            || column.converted_type() == ConvertedType::DECIMAL;
        match column.physical_type() {
            PhysicalType::INT32 | PhysicalType::INT64 if is_decimal => Self::SmallDecimal,
            PhysicalType::INT32 | PhysicalType::INT64 => Self::LittleEndian,
            PhysicalType::FIXED_LEN_BYTE_ARRAY if is_decimal => Self::LargeDecimal,
            PhysicalType::BYTE_ARRAY => Self::Bytes,
            _ => Self::Unordered,
        }
    }

    fn is_below(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Self::Bytes | Self::Unordered => a < b,
            _ => self.integer(a) < self.integer(b),
        }
    }

    fn integer(self, bytes: &[u8]) -> i128 {
        let big_endian = |bytes: &mut dyn Iterator<Item = u8>| {
            let mut value = None;
            for byte in bytes {
                value = Some(match value {
                    None => i128::from(byte as i8),
                    Some(value) => value << 8 | i128::from(byte),
                });
            }
            value.unwrap_or(0)
        };
        match self {
            Self::LargeDecimal => big_endian(&mut bytes.iter().copied()),
            _ => big_endian(&mut bytes.iter().rev().copied()),
        }
    }

    /// Converts a bound from Parquet's form to Iceberg's serialization of single values.
    fn single_value(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::SmallDecimal | Self::LargeDecimal => {
                let value = self.integer(&bytes).to_be_bytes();
                ebb_model::types::number::minimal(&value).to_vec()
            }
            _ => bytes,
        }
    }
}
