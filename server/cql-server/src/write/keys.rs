//! The rows that a statement writes: WHERE of UPDATE and DELETE, the key columns of INSERT.

use std::borrow::Cow;
use std::sync::Arc;

use ebb_cql::syntax::ast::Relation;
use ebb_model::key::{ByteRange, KeyLayout, PartitionKey};
use ebb_model::schema::TableSchema;
use ebb_tables::write::original_clustering;

use crate::analyse::markers::{Bound, Markers};
use crate::analyse::restrictions::{Partitions, Restrictions, Writing, check_keys};
use crate::error::{Result, of_key};
use crate::interrupt;

/// The restrictions that select the partitions and rows to write. They contain terms, which are
/// evaluated for each execution.
#[derive(Debug)]
pub(super) struct Keys(Restrictions);

/// The partitions and rows that a statement writes, with evaluated terms.
#[derive(Debug)]
pub(super) struct Targets<'v> {
    pub(super) partitions: Vec<PartitionKey>,
    pub(super) rows: Rows<'v>,
}

/// The rows that a statement writes in each of its partitions.
#[derive(Debug)]
pub(super) enum Rows<'v> {
    /// The static columns or the whole partition: the statement names no clustering column.
    Partition,
    Named(Vec<RowTarget<'v>>),
    Ranges(Vec<ByteRange>),
}

/// The row of a partition to write, as the values of all clustering columns.
#[derive(Debug)]
pub(super) struct RowTarget<'v>(Vec<Cow<'v, [u8]>>);

impl RowTarget<'_> {
    fn size_bytes(&self) -> usize {
        self.0.iter().map(|value| value.len()).sum()
    }

    /// Returns the key of the row. Charges the statement CPU time by the length of the values,
    /// because encoding a long decimal takes milliseconds.
    pub(super) fn key(&self, layout: &KeyLayout, partition: &PartitionKey) -> Result<Vec<u8>> {
        interrupt::charge_bytes(self.size_bytes())?;
        let values: Vec<&[u8]> = self.0.iter().map(Cow::as_ref).collect();
        layout.row_key(partition, &values).map_err(of_key)
    }

    /// Returns the values of the clustering columns as one tuple, if the encoded key does not
    /// determine them exactly; otherwise `None`.
    pub(super) fn original(&self, layout: &KeyLayout) -> Option<Vec<u8>> {
        original_clustering(layout, self.0.iter().map(|value| &**value))
    }
}

impl Keys {
    pub(super) fn prepare(
        schema: &Arc<TableSchema>,
        relations: &[Relation],
        writing: Writing,
        markers: &mut Markers,
    ) -> Result<Self> {
        Restrictions::of_write(schema, relations, writing, markers).map(Self)
    }

    /// Returns the indexes of the bind markers for the columns of the partition key, in the order
    /// of the columns. The result is empty if the value of any of these columns is not a single
    /// marker.
    pub(super) fn partition_markers(&self, schema: &TableSchema) -> Vec<u16> {
        let columns = schema.layout().partition().len();
        let markers = (0..columns).map(|position| self.0.partition.marker(position));
        markers.collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns whether the statement names rows, not only partitions. In a table without clustering
    /// columns every statement does, because each partition is one row.
    pub(super) fn names_rows(&self, schema: &TableSchema) -> bool {
        self.0.on_clustering || schema.layout().clustering().is_empty()
    }

    /// Computes the partitions and rows from the bound values.
    ///
    /// # Errors
    /// Cassandra's error, if a value is null, or a key too long or empty. Also an error if there
    /// are too many rows in all partitions together.
    pub(super) fn targets<'v>(
        &'v self,
        schema: &TableSchema,
        bound: &Bound<'v>,
    ) -> Result<Targets<'v>> {
        let Partitions::Keys(partitions) = self.0.partition.partitions(schema, bound)? else {
            unreachable!("a statement that writes names its partitions");
        };
        let clustering = &self.0.clustering;
        let rows = if clustering.is_full(schema) {
            let rows = clustering.clusterings(schema, bound)?;
            Rows::Named(rows.into_iter().map(RowTarget).collect())
        } else if self.0.on_clustering {
            Rows::Ranges(clustering.ranges(schema, bound)?)
        } else {
            Rows::Partition
        };
        // For a single partition, the rows were checked when they were computed.
        if partitions.len() > 1 {
            let of_partitions = partitions.iter().map(|key| key.as_bytes().len());
            match &rows {
                Rows::Partition => {}
                Rows::Named(rows) => {
                    check_keys(of_partitions, rows.iter().map(RowTarget::size_bytes))?;
                }
                Rows::Ranges(ranges) => {
                    check_keys(of_partitions, ranges.iter().map(ByteRange::size_bytes))?;
                }
            }
        }
        Ok(Targets { partitions, rows })
    }
}
