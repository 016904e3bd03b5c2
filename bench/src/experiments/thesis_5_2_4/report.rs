//! The JSON: all measurements, and the thesis's ratios beside ours.

use serde::Serialize;

use super::args::Scale;
use super::mix::Mix;
use super::plan::Run;
use super::published::{self, TABLE_5_3, TABLE_5_4, TABLE_5_5};
use super::reads::Reads;
use super::results::{Ratio, Results, RunResult};

/// The content of `--json-file`.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    pub settings: &'a Scale,
    /// The number of processors that each process may use.
    pub cpus: usize,
    /// Operations per second of workloads D and A at full speed. Target rates are fractions of these.
    /// `None` if the workload did not run at full speed.
    pub full_speed_ops_per_s: [Option<f64>; 2],
    /// The number of executions whose throughput was less than 99% of the requested rate.
    pub executions_behind: usize,
    /// For each cell of tables 5.3 to 5.5, except for the column of [`Reads::Original`]: the mean
    /// latency of reads divided by that of this column, in the thesis and here.
    pub comparisons: Vec<Comparison>,
    /// The results of all processes, in the order in which they ran.
    pub runs: &'a [RunResult],
}

/// The mean latency of reads in one column of a table of the thesis, divided by that in the column
/// Original (reads without snapshots): in the thesis and as measured here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The table of the thesis: `5.3`, `5.4`, `5.5`.
    pub table: &'static str,
    /// The row of the thesis's table: a target in operations per second, or a workload.
    pub row: String,
    pub column: &'static str,
    /// The mean latency of reads in `column`, divided by that in the column Original, from the
    /// numbers of the thesis.
    pub thesis: f64,
    /// The same ratio as measured here, and the ratios of other costs; `None` if one of the two
    /// runs has no result.
    pub here: Option<Ratio>,
}

impl<'a> Report<'a> {
    pub fn new(settings: &'a Scale, results: &'a Results) -> Self {
        Self {
            settings,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            full_speed_ops_per_s: [Mix::D, Mix::A].map(|mix| results.full_speed_ops_per_s(mix)),
            executions_behind: results.behind(),
            comparisons: comparisons(results),
            runs: results.done(),
        }
    }
}

/// Returns the ratios of all cells of tables 5.3 to 5.5.
fn comparisons(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (table, workload, rows) in [
        ("5.3", Mix::D, &TABLE_5_3[..]),
        ("5.4", Mix::A, &TABLE_5_4[..]),
    ] {
        for (position, row) in rows.iter().enumerate() {
            let run = |reads| Run::in_row(workload, reads, rows, position);
            for reads in &Reads::COLUMNS[1..] {
                let thesis = published::over_original(row, *reads);
                comparisons.push(Comparison {
                    table,
                    row: row.target_ops_per_s.to_string(),
                    column: reads.label(),
                    thesis: thesis.expect("it is a column of the table"),
                    here: results.ratio(run(*reads), run(Reads::Original), 0),
                });
            }
        }
    }
    for (workload, [original, snapshot]) in TABLE_5_5 {
        let run = |reads| Run::saturating(workload, reads);
        comparisons.push(Comparison {
            table: "5.5",
            row: workload.letter().to_string(),
            column: Reads::Snapshot.label(),
            thesis: snapshot / original,
            here: results.ratio(run(Reads::Snapshot), run(Reads::Original), 0),
        });
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn every_cell_of_the_tables_beside_original_is_compared() {
        let original = Run::saturating(Mix::A, Reads::Original);
        let snapshot = Run::saturating(Mix::A, Reads::Snapshot);
        let results = results(&[(original, &[10.0]), (snapshot, &[9.0])]);
        let comparisons = comparisons(&results);
        assert_eq!(comparisons.len(), 5 * 3 + 6 * 3 + 5);
        let measured: Vec<_> = comparisons.iter().filter(|c| c.here.is_some()).collect();
        let places: Vec<_> = measured
            .iter()
            .map(|c| (c.table, c.row.as_str(), c.column))
            .collect();
        assert_eq!(places, [("5.4", "9000", "S/SR"), ("5.5", "A", "S/SR")]);
        for comparison in measured {
            assert!((comparison.thesis - 0.977).abs() < 1e-3);
            assert!((comparison.here.unwrap().mean - 0.9).abs() < 1e-9);
        }
    }
}
