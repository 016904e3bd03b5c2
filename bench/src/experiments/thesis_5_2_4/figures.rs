//! The figures, as charts.

use super::mix::Mix;
use super::plan::{Part, Run, SSTABLE_FREQUENCIES};
use super::published::{TABLE_5_3, TABLE_5_4, TargetRow};
use super::reads::Reads;
use super::results::{Results, Spread};
use super::tables::{iterations_of, shares_searched, snapshots_shown};
use crate::chart::{Bar, BarChart, Group, Line};

const READ_US: &str = "mean latency of reads, us; lines: standard deviation of the rounds";

/// Returns the figures of some parts, each with the name of its file without the extension.
pub fn all(results: &Results, parts: &[Part]) -> Vec<(String, BarChart)> {
    let full_speed = |workload| move |reads| Run::saturating(workload, reads);
    let in_memory = |workload| move |reads| Run::in_memory(workload, reads);
    let of_part = |part: &Part| match part {
        Part::Throughput => vec![
            ("5-7", targets(results, "5.7", Mix::D, &TABLE_5_3)),
            ("5-8", targets(results, "5.8", Mix::A, &TABLE_5_4)),
            ("5-9", searched(results)),
            ("5-10", frequencies(results)),
        ],
        Part::Workloads => vec![
            ("5-11", workloads(results, "", full_speed)),
            (
                "5-11-in-memory",
                workloads(results, ", in memory", in_memory),
            ),
        ],
        Part::Snapshots => vec![
            ("5-12", iterations(results)),
            ("5-13", searched_in_snapshots(results)),
        ],
    };
    let named = |(number, chart)| (format!("thesis-{number}"), chart);
    parts.iter().flat_map(of_part).map(named).collect()
}

fn targets(results: &Results, figure: &str, workload: Mix, rows: &[TargetRow]) -> BarChart {
    let group = |position: usize| {
        let run = |reads| Run::in_row(workload, reads, rows, position);
        let throughput = |e: &super::case::Execution| e.throughput_ops_per_s;
        Group {
            label: rows[position].target_ops_per_s.to_string(),
            bars: latencies(results, Reads::COLUMNS.map(run), 0),
            line: results
                .spread(run(Reads::Original), 0, throughput)
                .map(|spread| spread.mean),
        }
    };
    BarChart {
        title: format!("Figure {figure}: workload {} by target", workload.letter()),
        x_label: "target of the thesis, ops/s; the last is full speed".into(),
        line: Some(Line::Through("throughput of Original, ops/s".into())),
        ..chart(
            READ_US,
            names(&Reads::COLUMNS),
            (0..rows.len()).map(group).collect(),
        )
    }
}

fn workloads<R: Fn(Reads) -> Run>(
    results: &Results,
    how: &str,
    run: impl Fn(Mix) -> R,
) -> BarChart {
    let group = |workload: Mix| Group {
        label: workload.letter().to_string(),
        bars: latencies(results, Reads::TWO.map(run(workload)), 0),
        line: None,
    };
    BarChart {
        title: format!("Figure 5.11: workloads at full speed{how}"),
        x_label: "workload".into(),
        ..chart(READ_US, names(&Reads::TWO), Mix::ALL.map(group).into())
    }
}

fn frequencies(results: &Results) -> BarChart {
    let group = |frequency: u32| Group {
        label: format!("{frequency}x"),
        bars: latencies(
            results,
            Reads::TWO.map(|reads| Run::at_frequency(frequency, reads)),
            0,
        ),
        line: None,
    };
    BarChart {
        title: "Figure 5.10: workload A by how often SSTables are created".into(),
        x_label: "frequency of SSTables".into(),
        ..chart(
            READ_US,
            names(&Reads::TWO),
            SSTABLE_FREQUENCIES.map(group).into(),
        )
    }
}

fn iterations(results: &Results) -> BarChart {
    let iterations = iterations_of(results);
    let runs = Reads::OVER_ITERATIONS.map(|reads| Run::series(reads, iterations));
    let group = |iteration: usize| Group {
        label: (iteration + 1).to_string(),
        bars: latencies(results, runs, iteration),
        line: None,
    };
    BarChart {
        title: format!("Figure 5.12: workload A {iterations} times"),
        x_label: "execution".into(),
        ..chart(
            READ_US,
            ["Original", "S/1", "S/N"].map(String::from).into(),
            (0..iterations as usize).map(group).collect(),
        )
    }
}

fn searched(results: &Results) -> BarChart {
    distribution(
        "Figure 5.9: SSTables that a read of workload A searched",
        &shares_searched(results),
    )
}

fn searched_in_snapshots(results: &Results) -> BarChart {
    let iterations = iterations_of(results);
    let run = Run::series(Reads::NewestSnapshot, iterations);
    let shares: Vec<_> = snapshots_shown(iterations as usize)
        .into_iter()
        .map(|count| {
            let shares = results.shares_by_sstables(run, count - 1);
            (format!("{count} held"), shares)
        })
        .collect();
    distribution(
        "Figure 5.13: SSTables that a read of the newest of several snapshots searched",
        &shares,
    )
}

fn distribution(title: &str, columns: &[(String, Vec<f64>)]) -> BarChart {
    let most = columns.iter().map(|(_, shares)| shares.len()).max();
    let group = |number: usize| Group {
        label: number.to_string(),
        bars: columns
            .iter()
            .map(|(_, shares)| shares.get(number).copied().map(Bar::exact))
            .collect(),
        line: None,
    };
    BarChart {
        title: title.into(),
        x_label: "SSTables searched; 0: a memtable had it".into(),
        ..chart(
            "part of the reads",
            columns.iter().map(|(name, _)| name.clone()).collect(),
            (0..most.unwrap_or(0)).map(group).collect(),
        )
    }
}

fn latencies<const N: usize>(
    results: &Results,
    runs: [Run; N],
    iteration: usize,
) -> Vec<Option<Bar>> {
    let bar = |Spread { mean, deviation }| Bar {
        value: mean,
        low: (mean - deviation).max(0.0),
        high: mean + deviation,
    };
    runs.map(|run| results.read_us(run, iteration).map(bar))
        .into()
}

fn names(columns: &[Reads]) -> Vec<String> {
    columns
        .iter()
        .map(|reads| reads.label().to_string())
        .collect()
}

fn chart(y_label: &str, series: Vec<String>, groups: Vec<Group>) -> BarChart {
    BarChart {
        title: String::new(),
        x_label: String::new(),
        y_label: y_label.into(),
        y_max: None,
        series,
        groups,
        line: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn every_group_has_a_bar_for_each_series() {
        let run = Run::saturating(Mix::A, Reads::Original);
        let figures = all(&results(&[(run, &[10.0, 20.0])]), &Part::ALL);
        assert_eq!(figures.len(), 8);
        for (name, chart) in &figures {
            for group in &chart.groups {
                assert_eq!(group.bars.len(), chart.series.len(), "{name}");
            }
            assert_eq!(
                chart.line.is_some(),
                ["thesis-5-7", "thesis-5-8"].contains(&&**name)
            );
        }
        let (_, targets) = &figures[1];
        let last = targets.groups.last().unwrap();
        let bar = last.bars[0].unwrap();
        assert_eq!((bar.value, last.bars[1]), (15.0, None));
        assert!(bar.low < 15.0 && bar.high > 15.0, "{bar:?}");
        assert_eq!(last.line, Some(7.5e4));
    }
}
