//! Decoding of the server's responses to values.

use super::Result;
use crate::conditional::Answer;
use crate::schema::Schema;
use crate::select::{Aggregate, Item, Select};
use crate::server::Page;
use crate::value::{Type, Value};

/// Decodes the response to a request with IF. Fails if the columns are not those of `expected`.
pub(super) fn answer(
    schema: &Schema,
    expected: &Answer,
    rows: &ebb_cql::protocol::Rows,
) -> Result<Answer> {
    let cells: Vec<Option<Vec<u8>>> = rows.cells().map(|cell| cell.map(<[u8]>::to_vec)).collect();
    let applied = matches!(cells.first(), Some(Some(byte)) if byte[..] == [1]);
    let columns = rows.column_count();
    let names = |columns: &ebb_cql::protocol::Columns| {
        let names = columns.iter().skip(1).map(|column| column.name.to_owned());
        names.collect::<Vec<_>>()
    };
    let names = rows.columns.as_ref().map_or(Vec::new(), names);
    let name = |item: &Item| match item {
        Item::Partition(at) => schema.partition_names()[*at].to_owned(),
        Item::Clustering(at) => schema.clustering_names()[*at].to_owned(),
        Item::Column(id) => schema
            .column(*id)
            .map_or(String::new(), |one| one.name.clone()),
        _ => String::new(),
    };
    let expected_names: Vec<String> = expected.items.iter().map(name).collect();
    if names != expected_names {
        return Err(format!(
            "the columns are {names:?} and must be {expected_names:?}"
        ));
    }
    let rows: Vec<Vec<Option<Value>>> = match columns {
        0 | 1 => Vec::new(),
        columns => {
            let row = |row: &[Option<Vec<u8>>]| {
                let cells = expected.items.iter().zip(&row[1..]);
                cells
                    .map(|(item, cell)| value_of(schema, item, cell.as_deref()))
                    .collect::<Result<Vec<_>>>()
            };
            cells.chunks(columns).map(row).collect::<Result<_>>()?
        }
    };
    Ok(Answer {
        applied,
        items: expected.items.clone(),
        rows,
    })
}

/// Decodes the cells of a page.
pub(super) fn rows(
    schema: &Schema,
    select: &Select,
    page: &Page,
) -> Result<Vec<Vec<Option<Value>>>> {
    let one = |(item, cell): (&Item, &Option<Vec<u8>>)| value_of(schema, item, cell.as_deref());
    let row = |cells: &Vec<Option<Vec<u8>>>| select.items.iter().zip(cells).map(one).collect();
    page.rows.iter().map(row).collect()
}

fn value_of(schema: &Schema, item: &Item, cell: Option<&[u8]>) -> Result<Option<Value>> {
    let Some(cell) = cell else {
        return Ok(None);
    };
    let value = match item {
        Item::Aggregate(aggregate, of) if *aggregate != Aggregate::Count => {
            return value_of(schema, of, Some(cell));
        }
        Item::Clustering(at) => schema.clustering[*at].read(cell),
        Item::Writetime(_) | Item::Floor(_) | Item::Count | Item::Aggregate(..) => {
            let bytes = cell.try_into().ok();
            bytes.map(|bytes| Value::Bigint(i64::from_be_bytes(bytes)))
        }
        Item::Column(id) => (schema.column(*id)).and_then(|column| Value::read(column.ty, cell)),
        Item::Partition(_) | Item::Ttl(_) => Value::read(Type::Int, cell),
    };
    match value {
        Some(value) => Ok(Some(value)),
        None => Err(format!("{item:?} has the bytes {cell:02x?}")),
    }
}

pub(super) fn table(rows: &[Vec<Option<Value>>]) -> String {
    let cell = |cell: &Option<Value>| match cell {
        Some(value) => value.to_string(),
        None => "null".to_owned(),
    };
    let row = |row: &Vec<Option<Value>>| {
        let cells: Vec<String> = row.iter().map(cell).collect();
        format!("  {}", cells.join(" | "))
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}
