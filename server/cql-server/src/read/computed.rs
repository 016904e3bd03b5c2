//! Rows of virtual tables as keys and operands.

use bytes::Bytes;
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_storage::Entry;
use ebb_tables::write::{OperandWriter, WriteTimes};

use crate::error::{Result, of_row};
use crate::interrupt;
use crate::system::VirtualRow;

/// Converts the rows of a virtual table to the form of stored rows (keys and operands), in the
/// order of the keys.
///
/// # Errors
/// If a value does not fit its column, or the statement's time is over.
pub fn computed_rows(schema: &TableSchema, rows: Vec<VirtualRow>) -> Result<Vec<Entry>> {
    let row = |row: VirtualRow| {
        let operand = operand(schema, &row.cells)?;
        interrupt::charge_bytes(operand.len())?;
        Ok((row.key.into(), operand))
    };
    rows.into_iter().map(row).collect()
}

/// Encodes a computed row in the form in which a table stores rows (an operand of its merge
/// operator).
fn operand(schema: &TableSchema, values: &[Option<Bytes>]) -> Result<Bytes> {
    let mut cells: Vec<(u32, &Bytes)> = (schema.columns().iter().zip(values))
        .filter(|(column, _)| column.kind == ColumnKind::Regular)
        .filter_map(|(column, value)| Some((column.id.0, value.as_ref()?)))
        .collect();
    cells.sort_unstable_by_key(|(id, _)| *id);
    let mut out = Vec::new();
    let mut row = OperandWriter::row(WriteTimes::at(0), true, None, &mut out);
    for (id, value) in cells {
        row.cell(id, Some(&value[..]));
    }
    row.finish().map_err(of_row)?;
    Ok(out.into())
}
