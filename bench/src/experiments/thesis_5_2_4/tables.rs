//! The tables: the thesis's ratios beside ours.

use super::mix::Mix;
use super::plan::{Part, Run, SSTABLE_FREQUENCIES};
use super::published::{
    self, SNAPSHOT_EACH_MS, SSTABLES_AFTER, TABLE_5_3, TABLE_5_4, TABLE_5_5, TargetRow,
};
use super::reads::Reads;
use super::results::{Ratio, Results, Spread};
use super::table::Table;
use crate::columns::row;
use crate::number::{NONE, fixed};

/// The numbers of the snapshots whose reads Figure 5.13 shows, in addition to the last snapshot of
/// the series. Snapshot n was created before the n-th execution.
const SNAPSHOTS_SHOWN: [usize; 3] = [1, 3, 5];

/// Returns the tables of some parts, in the order of the thesis.
pub fn all(results: &Results, parts: &[Part]) -> Vec<Table> {
    let of_part = |part: &Part| match part {
        Part::Throughput => vec![
            targets(results, ("5.3", "5.7"), Mix::D, &TABLE_5_3),
            targets(results, ("5.4", "5.8"), Mix::A, &TABLE_5_4),
            searched(results),
            frequencies(results),
        ],
        Part::Workloads => vec![workloads(results)],
        Part::Snapshots => vec![iterations(results), searched_in_snapshots(results)],
    };
    parts.iter().flat_map(of_part).collect()
}

/// Returns the numbers of the snapshots for which the report shows how many SSTables reads
/// searched: the first, the third and the fifth, if they exist, and the last one, `iterations`.
pub fn snapshots_shown(iterations: usize) -> Vec<usize> {
    let shown = SNAPSHOTS_SHOWN.into_iter();
    let mut shown: Vec<_> = shown.filter(|count| *count <= iterations).collect();
    if !shown.contains(&iterations) {
        shown.push(iterations);
    }
    shown
}

/// Returns the number of iterations of the series that ran; 1 if none has run yet.
pub fn iterations_of(results: &Results) -> u32 {
    let iterations = results.done().iter().map(|done| done.run.iterations);
    iterations.max().unwrap_or(1)
}

fn targets(
    results: &Results,
    (table, figure): (&str, &str),
    workload: Mix,
    rows: &[TargetRow],
) -> Table {
    let mut header = vec!["thesis's target".to_string(), "ops/s".to_string()];
    header.extend(Reads::COLUMNS.map(|reads| format!("{}, us", reads.label())));
    for reads in &Reads::COLUMNS[1..] {
        header.push(format!("{}: thesis", reads.label()));
        header.push("here".to_string());
        header.push("blocks".to_string());
    }
    let line = |position: usize| {
        let row = &rows[position];
        let run = |reads| Run::in_row(workload, reads, rows, position);
        let original = run(Reads::Original);
        let throughput = results.spread(original, 0, |e| e.throughput_ops_per_s);
        let mut cells = vec![row.target_ops_per_s.to_string(), count(throughput)];
        cells.extend(Reads::COLUMNS.map(|reads| microseconds(results.read_us(run(reads), 0))));
        for reads in &Reads::COLUMNS[1..] {
            let thesis = published::over_original(row, *reads);
            cells.push(ratio(thesis));
            cells.extend(mean_and_blocks(results.ratio(run(*reads), original, 0)));
        }
        cells
    };
    let note = match workload {
        Mix::D => {
            "The last row is full speed. Blocks: those that a read fetched from the disk, divided \
             by Original's."
        }
        _ => {
            "The last row is full speed. S/R and Original are the same code as long as there is no \
             snapshot: how far they differ is noise."
        }
    };
    Table {
        title: format!(
            "Table {table}, Figure {figure}: workload {}, mean latency of reads by target",
            workload.letter()
        ),
        header,
        rows: (0..rows.len()).map(line).collect(),
        note: note.to_string(),
    }
}

fn workloads(results: &Results) -> Table {
    let header = [
        "workload",
        "Original, us",
        "S/SR, us",
        "S/SR: thesis",
        "here",
        "blocks",
        "CPU",
        "in memory: Original, us",
        "S/SR, us",
        "S/SR by Original",
        "p50",
        "CPU",
    ];
    let line = |(workload, [original, snapshot]): (Mix, [f64; 2])| {
        let mut cells = vec![workload.letter().to_string()];
        let run = |reads| Run::saturating(workload, reads);
        cells.extend(Reads::TWO.map(|reads| microseconds(results.read_us(run(reads), 0))));
        cells.push(ratio(Some(snapshot / original)));
        let scarce = results.ratio(run(Reads::Snapshot), run(Reads::Original), 0);
        cells.extend(mean_and_blocks(scarce));
        cells.push(ratio(scarce.map(|ratio| ratio.cpu)));
        let run = |reads| Run::in_memory(workload, reads);
        cells.extend(Reads::TWO.map(|reads| microseconds(results.read_us(run(reads), 0))));
        let ample = results.ratio(run(Reads::Snapshot), run(Reads::Original), 0);
        let of: [fn(Ratio) -> f64; 3] = [|it| it.mean, |it| it.p50, |it| it.cpu];
        cells.extend(of.map(|of| ratio(ample.map(of))));
        cells
    };
    Table {
        title: "Table 5.5, Figure 5.11: workloads at full speed, mean latency of reads".into(),
        header: header.map(String::from).into(),
        rows: TABLE_5_5.map(line).into(),
        note: "In C, reads that are followed by a write are not counted. CPU: the CPU time of an \
               operation, merges included, divided by Original's."
            .into(),
    }
}

/// Returns the columns of Figure 5.9: the fractions of the reads that searched 0, 1, 2, ...
/// SSTables.
pub fn shares_searched(results: &Results) -> [(String, Vec<f64>); 3] {
    [Reads::Original, Reads::BesideSnapshot, Reads::Snapshot].map(|reads| {
        let shares = results.shares_by_sstables(Run::saturating(Mix::A, reads), 0);
        (reads.label().to_string(), shares)
    })
}

fn searched(results: &Results) -> Table {
    Table {
        title: "Figure 5.9: SSTables that a read of workload A searched, part of the reads".into(),
        note: "0: a memtable had the record. In the thesis half of Original's reads check two or \
               more, and all reads of a snapshot check one."
            .into(),
        ..distribution(&shares_searched(results))
    }
}

fn searched_in_snapshots(results: &Results) -> Table {
    let iterations = iterations_of(results);
    let run = Run::series(Reads::NewestSnapshot, iterations);
    let shares: Vec<_> = snapshots_shown(iterations as usize)
        .into_iter()
        .map(|count| {
            let name = match count {
                1 => "1 snapshot".to_string(),
                count => format!("{count} snapshots"),
            };
            (name, results.shares_by_sstables(run, count - 1))
        })
        .collect();
    Table {
        title: "Figure 5.13: SSTables that a read of the newest snapshot searched, part of \
                the reads"
            .into(),
        note: "0: a memtable had the record. In the thesis all reads search one SSTable with one \
               snapshot, and more with three and five."
            .into(),
        ..distribution(&shares)
    }
}

/// Returns a table of how many SSTables reads searched. Each of `columns` has a name and, at index
/// n, the share of the reads that searched n SSTables. The last row has the means.
fn distribution(columns: &[(String, Vec<f64>)]) -> Table {
    let most = columns.iter().map(|(_, shares)| shares.len()).max();
    let names = columns.iter().map(|(name, _)| name.clone());
    let mut rows: Vec<Vec<_>> = (0..most.unwrap_or(0))
        .map(|number| {
            let share = |shares: &Vec<f64>| shares.get(number).copied().unwrap_or(0.0);
            let cells = columns
                .iter()
                .map(|(_, shares)| format!("{:.3}", share(shares)));
            row(number.to_string(), cells)
        })
        .collect();
    let means = columns
        .iter()
        .map(|(_, shares)| format!("{:.2}", mean(shares)));
    rows.push(row("mean", means));
    Table {
        title: String::new(),
        header: row("SSTables", names),
        rows,
        note: String::new(),
    }
}

/// Returns the mean number of SSTables that reads searched; `shares[n]` is the share of those that
/// searched n.
fn mean(shares: &[f64]) -> f64 {
    let weighted = shares.iter().enumerate();
    weighted.map(|(number, share)| number as f64 * share).sum()
}

fn frequencies(results: &Results) -> Table {
    let header = [
        "frequency",
        "Original, us",
        "S/SR, us",
        "Original: SSTables per read",
        "S/SR: SSTables per read",
        "S/SR by Original",
        "blocks",
    ];
    let line = |frequency: u32| {
        let run = |reads| Run::at_frequency(frequency, reads);
        let mut cells = vec![format!("{frequency}x")];
        cells.extend(Reads::TWO.map(|reads| microseconds(results.read_us(run(reads), 0))));
        cells.extend(Reads::TWO.map(|reads| {
            let shares = results.shares_by_sstables(run(reads), 0);
            format!("{:.2}", mean(&shares))
        }));
        let over = results.ratio(run(Reads::Snapshot), run(Reads::Original), 0);
        cells.extend(mean_and_blocks(over));
        cells
    };
    Table {
        title: "Figure 5.10: workload A at full speed, by how often SSTables are created".into(),
        header: header.map(String::from).into(),
        rows: SSTABLE_FREQUENCIES.map(line).into(),
        note: "In the thesis Original gets slower from 1x to 8x, and reads of the snapshot do not \
               change."
            .into(),
    }
}

fn iterations(results: &Results) -> Table {
    let iterations = iterations_of(results);
    // In the order of the columns: Original, S/1 (always the first snapshot) and S/N (the newest).
    let runs = Reads::OVER_ITERATIONS.map(|reads| Run::series(reads, iterations));
    let header = [
        "execution",
        "Original, us",
        "S/1, us",
        "S/N, us",
        "S/1 by Original",
        "S/N by Original",
        "blocks",
        "Original: SSTables (runs)",
        "S/1",
        "S/N",
    ];
    let line = |iteration: usize| {
        let mut cells = vec![(iteration + 1).to_string()];
        cells.extend(runs.map(|run| microseconds(results.read_us(run, iteration))));
        let one = results.ratio(runs[1], runs[0], iteration);
        cells.push(ratio(one.map(|ratio| ratio.mean)));
        // Two cells: the ratio of the latencies, and that of the blocks fetched from the disk.
        cells.extend(mean_and_blocks(results.ratio(runs[2], runs[0], iteration)));
        cells.extend(runs.map(|run| {
            let sstables = results.spread(run, iteration, |e| e.sstables as f64);
            let runs = results.spread(run, iteration, |e| e.runs as f64);
            format!("{} ({})", count(sstables), count(runs))
        }));
        cells
    };
    // The absolute numbers of the thesis are those of its cluster, so the note compares ratios. There
    // is a last iteration, because `iterations_of` returns at least 1.
    let last = iterations as usize - 1;
    let grew = |run| {
        let over_first = results.ratio_of((run, last), (run, 0));
        ratio(over_first.map(|ratio| ratio.mean))
    };
    let sstables = |run| {
        let sstables = results.spread(run, last, |e| e.sstables as f64);
        sstables.map(|sstables| sstables.mean)
    };
    let more_sstables = sstables(runs[2]).zip(sstables(runs[0])).map(|(a, b)| a / b);
    Table {
        title: format!("Figure 5.12: workload A {iterations} times, mean latency of reads"),
        header: header.map(String::from).into(),
        rows: (0..iterations as usize).map(line).collect(),
        note: format!(
            "SSTables are counted when merges are done. Last execution / first: Original {}, \
             S/1 {}, S/N {} (thesis: S/N {:.2}). SSTables after the last execution, \
             S/N / Original: {} (thesis: {:.2}).",
            grew(runs[0]),
            grew(runs[1]),
            grew(runs[2]),
            SNAPSHOT_EACH_MS[1] / SNAPSHOT_EACH_MS[0],
            ratio(more_sstables),
            f64::from(SSTABLES_AFTER[1]) / f64::from(SSTABLES_AFTER[0]),
        ),
    }
}

fn microseconds(spread: Option<Spread>) -> String {
    spread.map_or(NONE.into(), |Spread { mean, deviation }| {
        format!("{mean:.1} ± {deviation:.1}")
    })
}

fn count(spread: Option<Spread>) -> String {
    fixed(spread.map(|spread| spread.mean), 0)
}

fn ratio(ratio: Option<f64>) -> String {
    fixed(ratio, 2)
}

fn mean_and_blocks(of: Option<Ratio>) -> [String; 2] {
    [
        ratio(of.map(|of| of.mean)),
        ratio(of.and_then(|of| of.blocks)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::results::RunResult;
    use super::super::results::tests::{execution, results};
    use super::*;

    #[test]
    fn a_row_has_the_latencies_and_the_ratios_of_the_thesis_and_ours() {
        let run = |reads| Run::in_row(Mix::D, reads, &TABLE_5_3, 0);
        let results = results(&[
            (run(Reads::Original), &[10.0, 12.0]),
            (run(Reads::Snapshot), &[11.0, 13.2]),
        ]);
        let table = targets(&results, ("5.3", "5.7"), Mix::D, &TABLE_5_3);
        assert_eq!(table.rows.len(), 5);
        let row = &table.rows[0];
        assert_eq!(row.len(), table.header.len());
        assert_eq!(row[0], "1000");
        assert_eq!(row[2], "11.0 ± 1.4");
        assert_eq!(row[3], NONE);
        assert_eq!(row[row.len() - 3..], ["1.07", "1.10", "1.00"]);
    }

    #[test]
    fn a_distribution_ends_with_its_mean() {
        let columns = [
            ("one".to_string(), vec![0.0, 1.0]),
            ("more".to_string(), vec![0.25, 0.25, 0.5]),
        ];
        let table = distribution(&columns);
        assert_eq!(table.header, ["SSTables", "one", "more"]);
        assert_eq!(table.rows[2], ["2", "0.000", "0.500"]);
        assert_eq!(table.rows[3], ["mean", "1.00", "1.25"]);
    }

    #[test]
    fn the_series_has_the_ratio_of_the_last_to_the_first() {
        let mut results = Results::default();
        for reads in Reads::OVER_ITERATIONS {
            results.add(RunResult {
                run: Run::series(reads, 2),
                round: 0,
                executions: vec![execution(10.0, &[0, 1]), execution(15.0, &[0, 0, 1])],
            });
        }
        let table = iterations(&results);
        assert_eq!(table.rows.len(), 2);
        assert!(
            table.note.contains("S/N 1.50 (thesis: S/N 1.26)"),
            "{}",
            table.note
        );
        let snapshots = searched_in_snapshots(&results);
        assert_eq!(snapshots.header, ["SSTables", "1 snapshot", "2 snapshots"]);
        assert_eq!(snapshots.rows.last().unwrap()[1..], ["1.00", "2.00"]);
    }

    #[test]
    fn a_series_shows_the_snapshots_of_the_thesis_and_its_last() {
        assert_eq!(snapshots_shown(10), [1, 3, 5, 10]);
        assert_eq!(snapshots_shown(5), [1, 3, 5]);
        assert_eq!(snapshots_shown(2), [1, 2]);
    }

    #[test]
    fn every_row_is_as_long_as_its_header() {
        for table in all(&Results::default(), &Part::ALL) {
            assert!(!table.rows.is_empty(), "{}", table.title);
            for row in &table.rows {
                assert_eq!(row.len(), table.header.len(), "{}", table.title);
            }
        }
    }
}
