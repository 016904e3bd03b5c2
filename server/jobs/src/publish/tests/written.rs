//! A CQL table to which a test writes directly.

use ebb_model::schema::ColumnKind;
use ebb_tables::write::OperandWriter;

use super::*;

/// A CQL table to which a test writes directly.
pub(super) struct Written {
    pub(super) table: Table,
    pub(super) schema: TableSchema,
}

impl Written {
    pub(super) fn store_schema(&self) {
        let key = ebb_model::key::SCHEMA_KEY;
        self.table.put(key, &self.schema.encode()).unwrap();
    }

    /// Returns the values of the key columns of the kind `kind`, in their order. `values` must contain all of
    /// them.
    fn key<'v>(&self, kind: ColumnKind, values: &'v [Value<'_>]) -> Vec<&'v [u8]> {
        let columns = self.schema.columns_of(kind).iter();
        let value = |name: &str| values.iter().find(|value| value.0 == name).unwrap();
        columns.map(|column| &value(&column.name).1[..]).collect()
    }

    pub(super) fn row_key(&self, values: &[Value<'_>]) -> Vec<u8> {
        let layout = self.schema.layout();
        let partition = self.key(ColumnKind::PartitionKey, values);
        let partition = layout.partition_key(&partition).unwrap();
        let clustering = self.key(ColumnKind::Clustering, values);
        layout.row_key(&partition, &clustering).unwrap()
    }

    pub(super) fn header_key(&self, values: &[Value<'_>]) -> Vec<u8> {
        let partition = self.key(ColumnKind::PartitionKey, values);
        let partition = self.schema.layout().partition_key(&partition).unwrap();
        partition.header_key()
    }

    /// Inserts the static columns in `values`, and a row if `values` has its whole key.
    pub(super) fn insert(&self, values: &[Value<'_>], times: WriteTimes) {
        let kind_of = |name: &str| self.schema.column(name).unwrap().kind;
        let has = |kind| values.iter().any(|(name, _)| kind_of(name) == kind);
        if has(ColumnKind::Static) {
            let mut operand = Vec::new();
            let row = OperandWriter::statics(times, &mut operand);
            self.assign(row, ColumnKind::Static, values);
            self.merge(&self.header_key(values), &operand);
        }
        let clustering = self.schema.columns_of(ColumnKind::Clustering);
        if has(ColumnKind::Clustering) || clustering.is_empty() {
            let mut operand = Vec::new();
            let row = OperandWriter::row(times, true, None, &mut operand);
            self.assign(row, ColumnKind::Regular, values);
            self.merge(&self.row_key(values), &operand);
        }
    }

    fn assign(&self, mut row: OperandWriter<'_>, kind: ColumnKind, values: &[Value<'_>]) {
        let column =
            |(name, value): &'_ Value<'_>| (self.schema.column(name).unwrap(), value.clone());
        let columns = values.iter().map(column);
        let mut columns: Vec<_> = columns.filter(|(column, _)| column.kind == kind).collect();
        columns.sort_by_key(|(column, _)| column.id);
        for (column, value) in &columns {
            row.assign(column, value).unwrap();
        }
        row.finish().unwrap();
    }

    pub(super) fn merge(&self, key: &[u8], operand: &[u8]) {
        self.table.merge(key, operand).unwrap();
    }
}
