//! The file options of a table: compression and filters.

use ebb_model::schema::{Compressor, TableSchema};
use ebb_storage::{Compression, FilterPrefix, SsTableOptions};

/// Returns the file options of a table. If the table has clustering columns, filters also contain
/// the prefixes of partitions, so that a read of a partition skips files without this partition. Without
/// clustering columns a partition has one row, which is found by its key. If the table has compression,
/// flushes use a fast one, like Cassandra's `flush_compression: fast`, and merges into the oldest run use
/// the compressor of the schema.
pub(super) fn form(schema: &TableSchema) -> SsTableOptions {
    let has_rows = !schema.layout().clustering().is_empty();
    let (compression, bottom_compression) = match schema.options().compressor() {
        Compressor::None => (Compression::None, None),
        Compressor::Fast => (Compression::Lz4, None),
        Compressor::Strong => (Compression::Lz4, Some(Compression::Zstd)),
    };
    SsTableOptions {
        filter_prefix: has_rows.then_some(FilterPrefix::Operator),
        compression,
        bottom_compression,
        ..SsTableOptions::default()
    }
}
