//! One input of a join, and the format of the result of two.

use std::sync::Arc;

use ebb_scheduler::runtime::Input;

use crate::records::{Column, Columns, KEY, RecordFormat, UnknownColumn, set_apart};

/// One input of a join: its rows, its join key, and those of its columns that the result contains.
pub struct JoinSide {
    pub(super) input: Arc<dyn Input>,
    pub(super) on: On,
    pub(super) key: Column,
    /// All columns of a row of this input.
    pub(super) row: Columns,
    /// The other columns, which are in the result: the index of each in the row, and the column.
    pub(super) along: Vec<(usize, Column)>,
}

/// The source of the join key in a row.
#[derive(Debug)]
pub(super) enum On {
    RowKey,
    /// A column of the row, by its index.
    Column(usize),
    /// A field outside of the columns of the row, for example a member of a JSON object.
    Other(Columns),
}

impl JoinSide {
    /// Creates one side of a join: the rows of `input`, whose format is `schema`, with the column
    /// `on` as the join key; with `None`, the rows' own keys.
    ///
    /// # Errors
    /// When `schema` has no column of the name `on`.
    pub fn new(
        input: Arc<dyn Input>,
        schema: &RecordFormat,
        on: Option<&str>,
    ) -> Result<Self, UnknownColumn> {
        // The place of a row in a file is not part of the row.
        let without = schema.without_place();
        let has_key = without.is_none();
        let schema = without.as_ref().unwrap_or(schema);
        let mut along: Vec<(usize, Column)> = schema.columns().into_iter().enumerate().collect();
        let (on, place, name) = match on {
            None => (On::RowKey, schema.position(KEY).filter(|_| has_key), KEY),
            Some(name) => match schema.position(name) {
                Some(at) => (On::Column(at), Some(at), name),
                None => (On::Other(Columns::new(schema, &[name])?), None, name),
            },
        };
        Ok(Self {
            input,
            on,
            key: match place {
                Some(at) => along.remove(at).1,
                None => Column::text(name),
            },
            row: Columns::all(schema),
            along,
        })
    }
}

/// Returns the format of the result: the key with its name on the left side, then the other
/// columns of the left row and of the right row. A name that is already taken gets the
/// prefix `right_`.
pub fn rows(left: &JoinSide, right: &JoinSide) -> RecordFormat {
    let along = left.along.iter().chain(&right.along);
    let columns = [&left.key]
        .into_iter()
        .chain(along.map(|(_, column)| column));
    let mut columns: Vec<Column> = columns.cloned().collect();
    set_apart(&mut columns, "right_");
    let value = columns.split_off(1);
    RecordFormat::rows(columns, value)
}
