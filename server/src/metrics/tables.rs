//! The metrics of each table: memory, files, runs, bookmarks, and the bytes that snapshots pin.

use std::cmp::Reverse;
use std::fmt;

use ebb_storage::TableStats;

use super::sheet::Sheet;

/// The most tables that have metrics of their own: the largest tables. The sums of the others share one
/// label, because every value of a label is a time series for the monitoring system to keep.
const NAMED_MAX: usize = 200;
/// The label, in place of a table's name, of the sums over all tables beyond [`NAMED_MAX`].
const OTHERS: &str = "(others)";

/// A metric of a table: its name, its help text, and its value.
type Figure = (&'static str, &'static str, fn(&TableStats) -> f64);

/// Makes an array of `Figure` from `table:` and entries `"name": value, "help";`. Each value is
/// computed from the `TableStats` in `table`.
macro_rules! figures {
    ($table:ident: $($name:literal: $value:expr, $help:literal;)*) => {
        [$(($name, $help, |$table: &TableStats| $value as f64)),*]
    };
}

const FIGURES: [Figure; 13] = figures! { table:
    "table_memtable_bytes": table.memtable_bytes, "Memory of a table's memtables";
    "table_frozen_memtables": table.frozen_memtables, "Memtables that wait for their flush";
    "table_file_bytes": table.file_bytes, "Bytes of a table's files";
    "table_files": table.files, "Files of a table";
    "table_runs": table.runs.len(), "Runs of a table";
    "table_versions": table.versions, "Versions of rows in a table, hidden ones included";
    "table_bookmarks": table.bookmarks, "Distinct commits at which snapshots cover a table";
    "table_pinned_bytes": table.kept_bytes,
        "About how many bytes only snapshots, holds and views need";
    "table_pinned_error_bytes": table.kept_error_bytes,
        "Likely error of the bytes that only snapshots, holds and views need";
    "table_garbage_bytes": table.garbage_bytes, "Bytes kept for snapshots and views that are gone";
    "table_compaction_debt_bytes": table.compaction_debt_bytes,
        "Bytes that merges of a table have to read";
    "table_damaged_files": table.quarantine.len(),
        "Files of a table that are damaged: reads that need one of them fail";
    "table_left_out_runs": table.left_out_runs,
        "Runs of a table that could not be read, and that merges leave out";
};

pub(super) fn write(sheet: &mut Sheet<'_>, tables: &[TableStats]) -> fmt::Result {
    let mut order: Vec<&TableStats> = tables.iter().filter(|table| !table.dropped).collect();
    order.sort_by_key(|table| Reverse(table.file_bytes + table.memtable_bytes));
    let (named, others) = order.split_at(order.len().min(NAMED_MAX));
    for (name, help, figure) in FIGURES {
        let of = |table: &&TableStats| figure(table);
        let named =
            (named.iter()).map(|table| (labels(&table.keyspace, &table.name), figure(table)));
        let others =
            (!others.is_empty()).then(|| (labels(OTHERS, OTHERS), others.iter().map(of).sum()));
        sheet.gauges(name, help, named.chain(others))?;
    }
    let pressure = order.iter().map(|table| table.pressure).fold(0.0, f64::max);
    let help =
        "How much writers are held up, of the table where it is most: 0 not at all, 1 altogether";
    sheet.gauge("write_pressure_ratio", help, pressure)
}

fn labels<'t>(keyspace: &'t str, table: &'t str) -> [(&'static str, &'t str); 2] {
    [("keyspace", keyspace), ("table", table)]
}
