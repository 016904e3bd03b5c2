//! Published results of the thesis: mean latencies of reads, in milliseconds, on 20 machines.

use super::mix::Mix;
use super::reads::Reads;

/// A row of tables 5.3 and 5.4 of the thesis: a target rate, and the latencies measured there.
#[derive(Debug, Clone, Copy)]
pub struct TargetRow {
    /// The rate that the clients requested, in operations per second.
    pub target_ops_per_s: u32,
    /// Mean latencies of reads, in milliseconds, in the order of [`Reads::COLUMNS`].
    pub read_ms: [f64; 4],
}

const fn row(target_ops_per_s: u32, read_ms: [f64; 4]) -> TargetRow {
    TargetRow {
        target_ops_per_s,
        read_ms,
    }
}

/// Table 5.3 of the thesis: for each requested rate (operations per second), mean latencies of
/// reads under workload D in milliseconds, in the order of [`Reads::COLUMNS`].
pub const TABLE_5_3: [TargetRow; 5] = [
    row(1000, [6.09, 6.15, 6.18, 6.54]),
    row(2000, [7.44, 7.46, 7.64, 7.96]),
    row(3000, [10.15, 10.44, 10.51, 11.42]),
    row(4000, [13.18, 13.33, 13.45, 14.06]),
    row(5000, [18.47, 18.46, 18.60, 19.39]),
];

/// Table 5.4 of the thesis: for each requested rate (operations per second), mean latencies of
/// reads under workload A in milliseconds, in the order of [`Reads::COLUMNS`].
pub const TABLE_5_4: [TargetRow; 6] = [
    row(4000, [8.25, 8.47, 8.44, 7.71]),
    row(5000, [9.25, 9.25, 9.22, 8.68]),
    row(6000, [11.32, 11.69, 11.57, 10.38]),
    row(7000, [14.19, 14.42, 14.30, 13.76]),
    row(8000, [15.36, 15.77, 15.45, 14.78]),
    row(9000, [18.59, 18.73, 18.97, 18.17]),
];

/// Table 5.5: mean latencies of reads at full speed, in milliseconds, for each workload: in the
/// thesis's columns Original (without snapshots) and Snapshot.
pub const TABLE_5_5: [(Mix, [f64; 2]); 5] = [
    (Mix::A, [18.59, 18.17]),
    (Mix::B, [18.66, 18.75]),
    (Mix::C, [19.08, 20.04]),
    (Mix::D, [18.47, 19.39]),
    (Mix::E, [12.07, 12.73]),
];

/// Mean latency of S/N (a new snapshot for each execution) in the first and in the last of ten
/// executions, in milliseconds (section 5.2.4.4).
pub const SNAPSHOT_EACH_MS: [f64; 2] = [18.17, 22.87];

/// The number of SSTables in the cluster after ten executions, for Original and S/N (a new snapshot
/// for each execution).
pub const SSTABLES_AFTER: [u32; 2] = [193, 532];

/// Returns the thesis's full speed, in operations per second, of workload D or A: only these have
/// target rates. For D the number is in the text of the thesis. For A the thesis has no number, and
/// the last target of Table 5.4 is used.
pub fn maximum_ops_per_s(workload: Mix) -> f64 {
    match workload {
        Mix::D => 4400.0,
        _ => 9000.0,
    }
}

/// Returns the mean latency of reads of the kind `reads`, divided by that of [`Reads::Original`],
/// in a row of the thesis's table 5.3 or 5.4. `None` if the tables have no such column.
pub fn over_original(row: &TargetRow, reads: Reads) -> Option<f64> {
    let column = Reads::COLUMNS.iter().position(|column| *column == reads)?;
    Some(row.read_ms[column] / row.read_ms[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_where_they_show_the_same_executions() {
        let last = |table: &[TargetRow]| table.last().unwrap().read_ms;
        for (workload, [original, snapshot]) in TABLE_5_5 {
            let [first, .., fourth] = match workload {
                Mix::A => last(&TABLE_5_4),
                Mix::D => last(&TABLE_5_3),
                _ => continue,
            };
            assert_eq!((original, snapshot), (first, fourth));
        }
        assert_eq!(SNAPSHOT_EACH_MS[0], last(&TABLE_5_4)[3]);
    }

    #[test]
    fn snapshots_read_a_tenth_slower_at_most_in_workload_d() {
        for row in &TABLE_5_3 {
            let ratio = over_original(row, Reads::Snapshot).unwrap();
            assert!((1.04..1.13).contains(&ratio), "{ratio}");
            assert_eq!(over_original(row, Reads::NewestSnapshot), None);
        }
    }
}
