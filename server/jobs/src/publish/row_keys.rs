//! The keys of published rows in the store, made of the columns of the primary key.

use std::sync::Arc;

use ebb_model::key::{KeyError, KeyLayout};
use ebb_model::schema::TableSchema;

/// The kind of rows that an Iceberg table has. It decides how the keys of these rows in the store are
/// made.
#[derive(Debug, Clone)]
pub(super) enum KeyForm {
    /// Rows of one key and one value each, of a plain table (one that was not created by CQL).
    Plain,
    /// The rows of a CQL table.
    Rows(Arc<TableSchema>),
    /// The static columns of the partitions of a CQL table. The key of such a row is the key of the
    /// partition's header, the stored entry that holds the partition's static columns.
    Statics(Arc<TableSchema>),
}

impl KeyForm {
    /// Returns the number of columns of the partition key. These columns come first.
    pub(super) fn partition_columns(&self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Rows(schema) | Self::Statics(schema) => schema.layout().partition().len(),
        }
    }

    /// Returns the key of a row in the store, from the values of the columns of the primary key. A
    /// value of `None` is an empty value of the key, which `--empty-as-null` publishes as null.
    ///
    /// # Errors
    /// If the values are not valid as a key.
    pub(super) fn key_of(&self, values: &[Option<Vec<u8>>]) -> Result<Vec<u8>, KeyError> {
        let values: Vec<&[u8]> = values
            .iter()
            .map(|value| value.as_deref().unwrap_or_default())
            .collect();
        match self {
            Self::Plain => Ok(values.concat()),
            Self::Rows(schema) => {
                let layout = schema.layout();
                let (partition, clustering) = split(layout, &values);
                let partition = layout.partition_key(partition)?;
                layout.row_key(&partition, clustering)
            }
            Self::Statics(schema) => {
                let layout = schema.layout();
                let (partition, _) = split(layout, &values);
                Ok(layout.partition_key(partition)?.header_key())
            }
        }
    }
}

/// Splits the values of a primary key into those of the partition key and those of the clustering
/// columns.
fn split<'v, 'b>(layout: &KeyLayout, values: &'v [&'b [u8]]) -> (&'v [&'b [u8]], &'v [&'b [u8]]) {
    values.split_at(layout.partition().len().min(values.len()))
}

#[cfg(test)]
mod tests {
    use ebb_model::schema::TableDefinition;
    use ebb_model::types::CqlType;

    use super::*;

    #[test]
    fn keys_of_rows_and_of_static_columns_are_those_of_the_store() {
        let columns = [
            ("k", CqlType::Int, false),
            ("j", CqlType::Text, false),
            ("c", CqlType::Int, false),
        ];
        let definition = TableDefinition::new(("app", "t"), &columns, &["k", "j"], &["c"]);
        let schema = TableSchema::create(definition);
        let schema = Arc::new(schema.unwrap());
        let layout = schema.layout();
        let (k, c) = (1_i32.to_be_bytes(), 2_i32.to_be_bytes());
        let partition = layout.partition_key(&[&k, b""]).unwrap();
        let values = [Some(k.to_vec()), None, Some(c.to_vec())];
        let rows = KeyForm::Rows(Arc::clone(&schema));
        let key = layout.row_key(&partition, &[&c]).unwrap();
        assert_eq!(rows.key_of(&values).unwrap(), key);
        let statics = KeyForm::Statics(Arc::clone(&schema));
        assert_eq!(
            statics.key_of(&values[..2]).unwrap(),
            partition.header_key()
        );
        assert_eq!(KeyForm::Plain.key_of(&values[..1]).unwrap(), k);
        assert!(rows.key_of(&values[..1]).is_err());
    }
}
