//! INSERT JSON. The values of its row follow those that are bound to the statement's markers, as if
//! the statement had a further marker for each column of the table.

use ebb_cql::protocol::Value;
use ebb_cql::syntax::ast;
use ebb_model::schema::TableSchema;
use ebb_model::types::CqlType;

use crate::analyse::markers::{Bound, Markers, Receiver};
use crate::analyse::term::{self, Evaluated, Term};
use crate::error::{Result, invalid};
use crate::functions::json_row;

/// The JSON text of INSERT JSON, and the treatment of columns that are not in the text.
#[derive(Debug)]
pub(super) struct JsonRow {
    text: Term,
    /// True if columns that are not in the text keep their values; otherwise they become null.
    default_unset: bool,
    markers: usize,
}

/// The values in a JSON text, in the order of the table's columns. The outer `None` is a column
/// that is not in the text, the inner one a null.
pub(super) type JsonValues = Vec<Option<Option<Vec<u8>>>>;

/// Returns the index, among the bound values of a statement with `markers` markers, of the value
/// for column number `at` of the table. The values from JSON follow those of the markers.
///
/// # Errors
/// If the statement has too many markers.
pub(super) fn index_of(markers: usize, at: usize) -> Result<u16> {
    u16::try_from(markers + at).or_else(|_| invalid("Too many markers"))
}

impl JsonRow {
    /// Prepares the JSON text of a statement. A constant text is parsed at once.
    ///
    /// # Errors
    /// Cassandra's error, if a constant text is no row of the table.
    pub(super) fn prepare(
        value: &ast::Term,
        default_unset: bool,
        schema: &TableSchema,
        markers: &mut Markers,
    ) -> Result<Self> {
        let receiver = Receiver::new("[json]", CqlType::Text);
        let row = Self {
            text: term::prepare(value, &receiver, markers)?,
            default_unset,
            markers: markers.count(),
        };
        if let Term::Value(_) = &row.text {
            row.read(schema, &Bound::default())?;
        }
        Ok(row)
    }

    /// Evaluates the JSON text with the bound values, and parses it.
    ///
    /// # Errors
    /// Cassandra's error, if the text is no row of the table.
    pub(super) fn read(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<JsonValues> {
        match self.text.evaluate(bound)? {
            Evaluated::Null => invalid("Got null for INSERT JSON values"),
            Evaluated::Unset => invalid("Got unset value for INSERT JSON values"),
            Evaluated::Value(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let columns = schema.columns().iter();
                json_row(columns.map(|column| (&*column.name, &column.ty)), &text)
            }
        }
    }

    /// Returns the bound values, followed by the values in the JSON text.
    pub(super) fn bind<'v>(&self, values: &'v JsonValues, bound: &Bound<'v>) -> Bound<'v> {
        let value = |value: &'v Option<Option<Vec<u8>>>| match value {
            Some(Some(bytes)) => Value::Bytes(bytes),
            None if self.default_unset => Value::Unset,
            _ => Value::Null,
        };
        bound.with_json(self.markers, values.iter().map(value))
    }
}
