//! Tests of the operands of writes.

use std::borrow::Cow;

use ebb_model::row::{Deletion, LiveColumn, RowRef, RowView, parts};
use ebb_model::schema::{Column, ColumnKind, TableDefinition, TableSchema};
use ebb_model::types::{CqlType, elements};

use super::*;

const TIMES: WriteTimes = WriteTimes {
    timestamp_us: 5_000_000,
    now_s: 7,
    ttl_s: None,
};

/// Returns the table `t (k int PRIMARY KEY, a text, b set<int>)`.
fn schema() -> TableSchema {
    let columns = [
        ("k", CqlType::Int, false),
        ("a", CqlType::Text, false),
        ("b", CqlType::set(CqlType::Int), false),
    ];
    let definition = TableDefinition::new(("app", "t"), &columns, &["k"], &[]);
    TableSchema::create(definition).unwrap()
}

/// Returns the columns `a` and `b`, by ascending id.
fn columns(schema: &TableSchema) -> Vec<&Column> {
    let mut columns: Vec<&Column> = schema.columns_of(ColumnKind::Regular).iter().collect();
    columns.sort_by_key(|column| column.id.0);
    columns
}

#[test]
fn an_assignment_has_the_same_operand_with_and_without_a_buffer() {
    let schema = schema();
    let set = elements::build([&1_i32.to_be_bytes()[..], &2_i32.to_be_bytes()[..]]);
    let mut direct = Vec::new();
    let mut writer = OperandWriter::row(TIMES, true, None, &mut direct);
    let mut buffer = RowBuffer::new(TIMES);
    for column in columns(&schema) {
        let id = column.id.0;
        if !column.ty.is_multi_cell() {
            writer.assign(column, b"text").unwrap();
            buffer.cell(id, Some(Cow::Borrowed(&b"text"[..])));
            continue;
        }
        writer.assign(column, &set).unwrap();
        buffer.clear_older(id);
        for part in parts(&column.ty, &set, |_, _| Vec::new()).unwrap() {
            let part = part.unwrap();
            buffer.element(id, part.path, None, Some(Cow::Owned(part.value.to_vec())));
        }
    }
    writer.finish().unwrap();
    let mut buffered = Vec::new();
    buffer.write_row(true, None, &mut buffered).unwrap();
    assert_eq!(direct, buffered);
}

#[test]
fn a_deletion_has_the_same_operand_with_and_without_a_buffer() {
    let schema = schema();
    let (mut direct, mut buffered) = (Vec::new(), Vec::new());
    let mut writer = OperandWriter::row(TIMES, true, None, &mut direct);
    let mut buffer = RowBuffer::new(TIMES);
    for column in columns(&schema) {
        writer.delete(column);
        if column.ty.is_multi_cell() {
            buffer.clear(column.id.0);
        } else {
            buffer.cell(column.id.0, None);
        }
    }
    writer.finish().unwrap();
    buffer.write_row(true, None, &mut buffered).unwrap();
    assert_eq!(direct, buffered);
}

#[test]
fn a_null_value_deletes_its_cell() {
    let mut buffer = RowBuffer::new(TIMES);
    buffer.cell(3, None);
    assert!(!buffer.is_empty() && !buffer.has_values());
    let mut operand = Vec::new();
    buffer.write_row(false, None, &mut operand).unwrap();
    let row = RowView::new(RowRef::parse(&operand).unwrap(), None, TIMES.now_s);
    assert!(row.column(3).unwrap().is_none());
    let mut operand = Vec::new();
    let mut writer = OperandWriter::row(TIMES, false, None, &mut operand);
    writer.cell(3, Some(b""));
    writer.finish().unwrap();
    let row = RowView::new(RowRef::parse(&operand).unwrap(), None, TIMES.now_s);
    let cell = row.column(3).unwrap();
    assert!(matches!(cell, Some(LiveColumn::Cell(cell)) if cell.value.is_empty()));
}

#[test]
fn a_replaced_collection_loses_the_elements_before_the_write() {
    let older = Deletion {
        timestamp: 4_999_999,
        local_time_s: 7,
    };
    assert_eq!(TIMES.older_deletion(), Some(older));
    // Nothing is older than the least timestamp.
    assert_eq!(WriteTimes::at(i64::MIN + 1).older_deletion(), None);
}
