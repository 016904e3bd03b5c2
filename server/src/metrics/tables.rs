//! The metrics of each table: memory, files, runs, bookmarks, and the bytes that snapshots pin.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use ebb_storage::TableStats;

use super::sheet::Sheet;

/// The most names of tables with metrics of their own: those of the largest live tables, then those of
/// dropped tables. All other tables share one label, because every value of a label is a time series for the
/// monitoring system to keep.
const NAMED_MAX: usize = 200;
/// The label, in place of a keyspace's and a table's name, of the sums over the tables beyond [`NAMED_MAX`].
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

const FIGURES: [Figure; 11] = figures! { table:
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
};

/// The metrics of damage. They also count the dropped tables that stay for snapshots: damage in such a table
/// makes reads of the snapshots fail.
const DAMAGE: [Figure; 3] = figures! { table:
    "table_damaged_files": table.quarantine.len(),
        "Files of a table that are damaged, dropped or not: reads that need one of them fail";
    "table_left_out_runs": table.left_out_runs,
        "Runs of a table, dropped or not, that could not be read, and that merges leave out";
    "table_unmergeable_bytes": table.unmergeable_bytes,
        "Bytes of the runs that merges leave out because a file is damaged or could not be read";
};

/// The labels of a time series: the name of the keyspace, then that of the table.
type Labels<'t> = [(&'static str, &'t str); 2];

/// The tables whose sums share their labels: all tables of one name (dropped ones, and the live one if there is
/// one), or the [`OTHERS`].
struct Group<'t> {
    labels: Labels<'t>,
    tables: Vec<&'t TableStats>,
}

pub(super) fn write(sheet: &mut Sheet<'_>, tables: &[TableStats]) -> fmt::Result {
    let groups = groups(tables);
    for (figures, with_dropped) in [(&FIGURES[..], false), (&DAMAGE[..], true)] {
        for &(name, help, figure) in figures {
            let sums = groups.iter().filter_map(|group| {
                let tables = group.tables.iter();
                let counted = tables.filter(|table| with_dropped || !table.dropped);
                let sum = counted.map(|table| figure(table)).reduce(|a, b| a + b)?;
                Some((group.labels, sum))
            });
            sheet.gauges(name, help, sums)?;
        }
    }
    let live = tables.iter().filter(|table| !table.dropped);
    let pressure = live.map(|table| table.pressure).fold(0.0, f64::max);
    let help =
        "How much writers are held up, of the table where it is most: 0 not at all, 1 altogether";
    sheet.gauge("write_pressure_ratio", help, pressure)
}

/// Groups the tables by name: first the live tables, the largest first, then the dropped ones. Tables whose
/// name comes after [`NAMED_MAX`] names are in the group [`OTHERS`].
fn groups(tables: &[TableStats]) -> Vec<Group<'_>> {
    let mut order: Vec<&TableStats> = tables.iter().collect();
    order.sort_by_key(|table| {
        let bytes = table.file_bytes + table.memtable_bytes;
        (table.dropped, Reverse(bytes))
    });
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for table in order {
        let own = (&*table.keyspace, &*table.name);
        let has_own = places.contains_key(&own) || places.len() < NAMED_MAX;
        let (keyspace, name) = if has_own { own } else { (OTHERS, OTHERS) };
        let place = *places.entry((keyspace, name)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                labels: [("keyspace", keyspace), ("table", name)],
                tables: Vec::new(),
            });
        }
        groups[place].tables.push(table);
    }
    groups
}
