//! Tests of files with so many columns that these are encoded one after the other.

use super::tests::with_dictionary;
use super::*;
use crate::types::read_value;
use bytes::Bytes;
use ebb_model::types::elements::{build, build_map, build_tuple};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const PATH: &str = "/t/data/1.parquet";

/// Returns columns of these types, called `c0`, `c1` and so on.
fn columns(types: impl IntoIterator<Item = CqlType>) -> Vec<Column> {
    let numbered = types.into_iter().enumerate();
    testing::columns(numbered.map(|(at, ty)| (format!("c{at}"), ty)))
}

fn writer(columns: &[Column], row_group_bytes: usize) -> DataFileWriter<Vec<u8>> {
    DataFileWriter::new(Vec::new(), columns, OnEmpty::Refuse, row_group_bytes).unwrap()
}

/// Returns the number of complete row groups.
fn row_groups(writer: &DataFileWriter<Vec<u8>>) -> usize {
    let groups = writer.writer.as_ref();
    groups.map_or(0, |groups| groups.complete().len())
}

/// Regression: each column had an encoder, whose table of hashes alone takes 72 KiB, from the first row of a
/// row group to its last one.
#[test]
fn rows_of_500_columns_take_the_memory_of_one_row_group() {
    const ROW_GROUP: usize = 1 << 20;
    let types = [CqlType::Int, CqlType::Bigint, CqlType::Text];
    let columns = columns((0..500).map(|at| types[at % 3].clone()));
    let mut writer = writer(&columns, ROW_GROUP);
    let mut most = 0;
    for row in 0..1_000_i32 {
        let number = (row % 10).to_be_bytes();
        let (unique, text) = (i64::from(row).to_be_bytes(), format!("value {row}"));
        let values = [&number[..], &unique[..], text.as_bytes()];
        writer
            .append((0..500).map(|at| Some(values[at % 3])))
            .unwrap();
        let encoders = writer.writer.as_ref().map_or(0, RowGroups::memory_size);
        most = most.max(writer.row_group_bytes() + encoders);
    }
    // The arrays are measured each 16 rows, of about 4 KiB each.
    let rows = MEASURED_ROWS * (5 << 10);
    assert!(
        (ROW_GROUP / 2..ROW_GROUP + rows).contains(&most),
        "{most} bytes"
    );
    assert!(row_groups(&writer) >= 3);
    let (_, file) = writer.finish(PATH.into()).unwrap();
    assert_eq!(file.record_count, 1_000);
}

#[test]
fn a_row_group_ends_at_the_size_of_its_arrays_and_of_one_column_that_is_encoded() {
    // A row takes a bit in each column, and 20 bytes in the column that is encoded.
    let columns = columns((0..100).map(|_| CqlType::Bigint));
    let mut writer = writer(&columns, 64 << 10);
    for _ in 0..2_031 {
        writer.append([None; 100]).unwrap();
    }
    assert_eq!(row_groups(&writer), 0);
    // 2,017 rows have more than 64 KiB, and the next measurement is that of 2,032.
    writer.append([None; 100]).unwrap();
    assert_eq!(row_groups(&writer), 1);
}

/// Regression: a null took as much memory as a number or the place of a text, so a row group had 256 of these rows. The
/// files of such a table had some MiB, because a file has a limited number of column chunks.
#[test]
fn rows_of_few_values_in_many_columns_share_a_row_group_and_come_back() {
    const COLUMNS: usize = 64;
    const ROWS: usize = 1_600;
    let columns = columns((0..COLUMNS).map(|_| CqlType::Text));
    let mut writer = writer(&columns, 64 << 10);
    for row in 0..ROWS {
        let value = format!("value {row}");
        let cells = (0..COLUMNS).map(|at| (at == row % COLUMNS).then_some(value.as_bytes()));
        writer.append(cells).unwrap();
        assert_eq!(row_groups(&writer), 0, "row {row}");
    }
    let (bytes, file) = writer.finish(PATH.into()).unwrap();
    assert_eq!(file.record_count, 1_600);
    for nulls in file.null_value_counts.iter().flatten() {
        assert_eq!(nulls.value, 1_600 - 1_600 / 64, "column {}", nulls.key);
    }

    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let mut next = 0;
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            for (at, array) in batch.columns().iter().enumerate() {
                let read = read_value(array, row, &CqlType::Text).unwrap();
                let expected = (at == next % COLUMNS).then(|| format!("value {next}"));
                assert_eq!(read, expected.map(String::into_bytes), "row {next}");
            }
            next += 1;
        }
    }
    assert_eq!(next, ROWS);
}

#[test]
fn the_metadata_of_a_file_grows_with_its_row_groups_and_with_its_pages() {
    for (groups, rows, chunks) in [
        (0, 0, 0),
        (17, 35_632, 17 * 500),
        (13, 549_328, 16 * 500),
        (14, 591_584, 17 * 500),
    ] {
        assert_eq!(chunks_of_metadata(500, groups, rows), chunks, "{rows} rows");
    }
}

#[test]
fn a_builder_returns_the_size_of_its_values() {
    let pair = CqlType::tuple([CqlType::Int, CqlType::Text]);
    let number = 7_i32.to_be_bytes();
    // A text or a list has an offset of four bytes, and an array of them one more.
    let sizes = [
        (CqlType::Boolean, vec![1], 1),
        (CqlType::Int, number.to_vec(), 4),
        (CqlType::Bigint, vec![0; 8], 8),
        (CqlType::Blob, vec![0; 3], 3 + 8),
        (CqlType::Uuid, vec![0; 16], 36 + 8),
        (CqlType::list(CqlType::Text), build(["ab", "c"]), 8 + 3 + 12),
        (
            CqlType::map(CqlType::Text, CqlType::Int),
            build_map([("k", number)]),
            8 + (1 + 8) + 4,
        ),
        (
            pair,
            build_tuple([Some(&number[..]), Some(&b"x"[..])]),
            4 + (1 + 8),
        ),
    ];
    for (ty, value, bytes) in sizes {
        let column = columns([ty]).remove(0);
        let mut builder = ColumnBuilder::new(&column.ty, &column.field, OnEmpty::Refuse).unwrap();
        builder.append(Some(&value)).unwrap();
        assert_eq!(builder.bytes(), bytes, "{}", column.ty);
        // The null and the value before it have a bit each.
        builder.append(None).unwrap();
        assert_eq!(builder.bytes(), bytes + 1, "{}", column.ty);
    }
}

/// Returns the value of a row in a column of `ty`. Each fifth value is null.
fn value(ty: &CqlType, row: i32) -> Option<Vec<u8>> {
    let (number, text) = (row.to_be_bytes(), format!("text {row}"));
    let bytes = match ty {
        CqlType::Boolean => vec![u8::from(row % 2 == 0)],
        CqlType::Int => number.to_vec(),
        CqlType::Double => f64::from(row).to_be_bytes().to_vec(),
        CqlType::Text => text.into_bytes(),
        CqlType::List { .. } => build([text.as_bytes(), &b"same"[..]]),
        CqlType::Map { .. } => build_map([(text.as_bytes(), number)]),
        CqlType::Tuple(_) => build_tuple([None, Some(text.as_bytes())]),
        _ => unreachable!("a type without values: {ty}"),
    };
    Some(bytes).filter(|_| row % 5 != 0)
}

#[test]
fn values_of_many_columns_come_back_from_several_row_groups() {
    let types = [
        CqlType::Int,
        CqlType::Double,
        CqlType::Boolean,
        CqlType::Text,
        CqlType::list(CqlType::Text),
        CqlType::map(CqlType::Text, CqlType::Int),
        CqlType::tuple([CqlType::Int, CqlType::Text]),
    ];
    let columns = columns((0..28).map(|at| types[at % 7].clone()));
    let mut writer = writer(&columns, 16 << 10);
    for row in 0..300 {
        let values: Vec<_> = columns
            .iter()
            .map(|column| value(&column.ty, row))
            .collect();
        writer.append(values.iter().map(Option::as_deref)).unwrap();
    }
    assert!(row_groups(&writer) > 1);
    let (bytes, file) = writer.finish(PATH.into()).unwrap();
    assert_eq!(file.record_count, 300);
    assert_eq!(file.file_size_in_bytes, bytes.len() as i64);
    // A column with statistics, and one without, whose nulls the writer counts.
    for column in &columns[..2] {
        let mut nulls = file.null_value_counts.iter().flatten();
        let nulls = nulls.find(|nulls| nulls.key == column.field.id);
        assert_eq!(nulls.map(|nulls| nulls.value), Some(60));
    }

    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let mut next = 0;
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        for at in 0..batch.num_rows() {
            for (column, array) in columns.iter().zip(batch.columns()) {
                let read = read_value(array, at, &column.ty).unwrap();
                assert_eq!(read, value(&column.ty, next), "row {next}: {}", column.ty);
            }
            next += 1;
        }
    }
    assert_eq!(next, 300);
}

/// Regression: a batch of a table of 500 columns had too few rows to judge a column, so all columns had a dictionary.
#[test]
fn of_500_columns_those_of_few_values_have_a_dictionary() {
    let columns = columns((0..500).map(|_| CqlType::Int));
    let mut writer = writer(&columns, 4 << 20);
    for row in 0..1_200_i32 {
        let (unique, few) = (row.to_be_bytes(), (row % 10).to_be_bytes());
        let values = (0..500).map(|at| Some(if at % 2 == 0 { &unique[..] } else { &few[..] }));
        writer.append(values).unwrap();
    }
    let (bytes, _) = writer.finish(PATH.into()).unwrap();
    let few: Vec<_> = (1..500).step_by(2).map(|at| format!("c{at}")).collect();
    assert_eq!(with_dictionary(bytes.into()), [few]);
}

#[test]
fn a_row_of_many_columns_with_too_few_values_fails_the_batch() {
    let columns = columns((0..20).map(|_| CqlType::Int));
    let mut writer = writer(&columns, 1 << 20);
    writer.append([None; 20]).unwrap();
    writer.append([None; 19]).unwrap();
    let error = writer.finish(PATH.into()).unwrap_err().to_string();
    assert!(error.contains("2 != 1 rows"), "{error}");
}

#[test]
fn a_file_of_many_columns_without_rows_is_valid() {
    let columns = columns((0..20).map(|_| CqlType::Int));
    let (bytes, file) = writer(&columns, 1 << 20).finish(PATH.into()).unwrap();
    assert_eq!(file.file_size_in_bytes, bytes.len() as i64);
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    assert_eq!(reader.schema().fields().len(), 20);
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}
