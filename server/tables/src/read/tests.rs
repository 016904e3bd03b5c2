//! Tests of each rule of visibility.

use ebb_model::key::{DecodedKey, PartitionKey, ROW};
use ebb_model::row::{Cell, Deletion, HeaderBuilder, Lifetime, Marker, RangeDeletion, RowBuilder};
use ebb_model::schema::{ColumnKind, TableDefinition, TableSchema};
use ebb_model::types::CqlType;

use super::*;

/// The time at which the tests read, in seconds since 1970. It is also the local time of deletions.
const NOW_S: i64 = 1_700_000_000;

/// Returns the table `t (k int, c int, s text STATIC, a int, b text, PRIMARY KEY (k, c))`.
pub(super) fn schema() -> TableSchema {
    let columns = [
        ("k", CqlType::Int, false),
        ("c", CqlType::Int, false),
        ("s", CqlType::Text, true),
        ("a", CqlType::Int, false),
        ("b", CqlType::Text, false),
    ];
    let definition = TableDefinition::new(("app", "t"), &columns, &["k"], &["c"]);
    TableSchema::create(definition).unwrap()
}

fn partition_key() -> PartitionKey {
    PartitionKey::new(&[&1_i32.to_be_bytes()]).unwrap()
}

fn clustering(schema: &TableSchema, c: i32) -> Vec<u8> {
    let mut clustering = Vec::new();
    let encoded = (schema.layout()).encode_clustering(&[&c.to_be_bytes()], &mut clustering);
    encoded.unwrap();
    clustering
}

/// Writes the value "text" of a column into a row, at a timestamp.
fn cell(row: &mut RowBuilder<'_>, schema: &TableSchema, column: &str, timestamp: i64) {
    let cell = Cell {
        timestamp,
        lifetime: Lifetime::Permanent,
        value: b"text",
    };
    row.cell(schema.column(column).unwrap().id.0, cell);
}

/// Returns the operand of an UPDATE of a column.
fn update(schema: &TableSchema, column: &str, timestamp: i64) -> Vec<u8> {
    let mut operand = Vec::new();
    let mut row = RowBuilder::new(&mut operand, timestamp);
    cell(&mut row, schema, column, timestamp);
    row.finish().unwrap();
    operand
}

/// Returns the operand of an INSERT of the primary key alone.
fn insert(timestamp: i64) -> Vec<u8> {
    let mut operand = Vec::new();
    let mut row = RowBuilder::new(&mut operand, timestamp);
    row.marker(Marker {
        timestamp,
        expiry: None,
    });
    row.finish().unwrap();
    operand
}

fn deletion(timestamp: i64) -> Deletion {
    Deletion {
        timestamp,
        local_time_s: NOW_S,
    }
}

fn header(write: impl FnOnce(HeaderBuilder<'_>)) -> Vec<u8> {
    let mut operand = Vec::new();
    write(HeaderBuilder::new(&mut operand));
    operand
}

fn deleted_at(timestamp: i64) -> Vec<u8> {
    header(|mut header| header.deletion(deletion(timestamp)))
}

/// Calls `check` with a partition that has this stored header: its deletions and static columns.
fn with_partition<T>(
    schema: &TableSchema,
    header: Option<&[u8]>,
    check: impl FnOnce(&Partition<'_>) -> T,
) -> T {
    let key = partition_key().header_key();
    let key = DecodedKey::read(&key).unwrap();
    check(&Partition::new(schema, key, header, NOW_S).unwrap())
}

/// Returns whether the row with the clustering 5 exists.
fn is_there(schema: &TableSchema, header: Option<&[u8]>, row: &[u8]) -> bool {
    with_partition(schema, header, |partition| {
        let row = partition.row(&clustering(schema, 5), row).unwrap();
        row.is_some()
    })
}

#[test]
fn a_deletion_of_the_partition_hides_rows_up_to_its_timestamp() {
    let schema = schema();
    for row in [update(&schema, "a", 7), insert(7)] {
        assert!(is_there(&schema, None, &row));
        assert!(is_there(&schema, Some(&deleted_at(6)), &row));
        assert!(!is_there(&schema, Some(&deleted_at(7)), &row));
    }
}

#[test]
fn a_deletion_of_a_range_hides_the_rows_in_it() {
    let schema = schema();
    let row = update(&schema, "a", 7);
    for (from, to, is_hidden) in [(0, 6, true), (5, 6, true), (0, 5, false), (6, 9, false)] {
        let (start, end) = (clustering(&schema, from), clustering(&schema, to));
        let header = header(|mut header| {
            let range = RangeDeletion {
                start: &start,
                end: Some(&end),
                deletion: deletion(7),
            };
            header.ranges(&[range]).unwrap();
        });
        let is_there = is_there(&schema, Some(&header), &row);
        assert_eq!(is_there, !is_hidden, "from {from} to {to}");
    }
}

#[test]
fn a_row_that_has_only_cells_of_a_dropped_column_is_not_there() {
    let schema = schema();
    let row = update(&schema, "a", 7);
    let dropped = schema.drop_column("a", 7).unwrap();
    assert!(!is_there(&dropped, None, &row));
    assert!(is_there(&dropped, None, &update(&schema, "b", 7)));
    assert!(is_there(&dropped, None, &insert(7)));
    let again = dropped.add_column("a", CqlType::Int, false).unwrap();
    assert!(!is_there(&again, None, &row));
    assert!(is_there(&again, None, &update(&schema, "a", 8)));
}

#[test]
fn static_values_are_a_row_if_there_is_no_other() {
    let mut schema = schema();
    let statics = |timestamp| {
        header(|header| {
            let mut row = header.static_row(timestamp);
            cell(&mut row, &self::schema(), "s", timestamp);
            row.finish().unwrap();
        })
    };
    let has_static_row = |schema: &TableSchema, header: &[u8], has_rows| {
        with_partition(schema, Some(header), |partition| {
            partition.has_static_row(has_rows).unwrap()
        })
    };
    assert!(has_static_row(&schema, &statics(7), false));
    assert!(!has_static_row(&schema, &statics(7), true));
    assert!(!has_static_row(&schema, &deleted_at(7), false));
    schema = schema.drop_column("s", 7).unwrap();
    assert!(!has_static_row(&schema, &statics(7), false));
    schema = schema.add_column("s", CqlType::Text, true).unwrap();
    assert_eq!(schema.columns_of(ColumnKind::Static).len(), 1);
    assert!(!has_static_row(&schema, &statics(7), false));
    assert!(has_static_row(&schema, &statics(8), false));
}

#[test]
fn a_write_above_the_greatest_timestamp_is_visible() {
    let schema = schema();
    let (row, five) = (update(&schema, "a", 7), clustering(&schema, 5));
    for (header, greatest) in [(deleted_at(3), 7), (deleted_at(9), 9)] {
        let found = with_partition(&schema, Some(&header), |partition| {
            partition.greatest_timestamp_of_row(&five, Some(&row))
        });
        assert_eq!(found.unwrap(), greatest);
        assert!(is_there(
            &schema,
            Some(&header),
            &update(&schema, "a", greatest + 1)
        ));
    }
    let back = schema.drop_column("a", 20).unwrap();
    let back = back.add_column("a", CqlType::Int, false).unwrap();
    let dropped_up_to = |name: &str| back.dropped_up_to(back.column(name).unwrap().id);
    assert_eq!((dropped_up_to("a"), dropped_up_to("b")), (Some(20), None));
    assert!(is_there(&back, None, &update(&schema, "a", 21)));
    // The drop hides cells of its own column only.
    let found = with_partition(&back, None, |partition| {
        partition.greatest_timestamp_of_row(&five, Some(&row))
    });
    assert_eq!(found.unwrap(), 7);
    assert!(is_there(&back, None, &update(&schema, "b", 8)));
}

#[test]
fn damage_is_reported_with_its_table_and_key() {
    let schema = schema();
    let key = partition_key().header_key();
    let decoded = DecodedKey::read(&key).unwrap();
    let Err(TableError::Damaged(damage)) = Partition::new(&schema, decoded, Some(b"?"), NOW_S)
    else {
        panic!("no header begins with this byte");
    };
    assert_eq!((&damage.table[..], &damage.key), ("app.t", &key));
    let five = clustering(&schema, 5);
    let found = with_partition(&schema, None, |partition| {
        partition.row(&five, b"?").map(|row| row.is_some())
    });
    let Err(TableError::Damaged(damage)) = found else {
        panic!("no row begins with this byte");
    };
    assert_eq!(
        damage.key,
        [&partition_key().prefix()[..], &[ROW], &five].concat()
    );
    let text = damage.to_string();
    assert!(
        text.starts_with("a row of table app.t is damaged: "),
        "{text}"
    );
}
