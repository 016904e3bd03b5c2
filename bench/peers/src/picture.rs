//! The summary as a bar chart: operations per CPU second of each engine, relative to the best LSM
//! peer.

use ebb_bench::chart::{Bar, BarChart, Group};

use crate::plan::Entrant;
use crate::summary::{Row, YCSB};

const METRIC: &str = "ops_per_cpu_s";
const TITLE: &str = "Operations per CPU second, background work included; the best LSM peer is 1";
/// The end of the axis. Higher bars are cut and labelled with their value.
const RATIO_MAX: f64 = 3.0;

/// Draws the chart; `None` if no YCSB workload was run with an LSM peer.
pub fn draw(rows: &[Row], entrants: &[Entrant]) -> Option<String> {
    let groups: Vec<_> = YCSB
        .iter()
        .filter_map(|phase| group(phase, rows, entrants))
        .collect();
    let chart = BarChart {
        title: TITLE.into(),
        x_label: "workload; the lines go from the worst to the best round".into(),
        y_label: "by the best LSM peer".into(),
        y_max: Some(RATIO_MAX),
        series: entrants.iter().map(Entrant::label).collect(),
        groups,
        line: None,
    };
    (!chart.groups.is_empty()).then(|| chart.to_svg())
}

/// Returns the bars of a phase, one for each entrant in order: its rate relative to the best LSM
/// peer.
fn group(phase: &str, rows: &[Row], entrants: &[Entrant]) -> Option<Group> {
    let row = rows
        .iter()
        .find(|row| row.phase == phase && row.metric == METRIC)?;
    let ebb = entrants.iter().find(|entrant| entrant.is_ebb())?.label();
    let best = row.entrants.get(&ebb)?.median / row.ebb_over_best_lsm?;
    let bar = |entrant: &Entrant| {
        row.entrants.get(&entrant.label()).map(|spread| Bar {
            value: spread.median / best,
            low: spread.min / best,
            high: spread.max / best,
        })
    };
    Some(Group {
        label: phase.to_uppercase(),
        bars: entrants.iter().map(bar).collect(),
        line: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineName;
    use crate::statistics::Spread;

    fn row(phase: &str, over_best: Option<f64>) -> Row {
        let spread = |median| Spread {
            median,
            min: median,
            max: median,
        };
        Row {
            phase: phase.into(),
            metric: METRIC.into(),
            entrants: [
                ("ebb".to_string(), spread(300.0)),
                ("ebb-again".to_string(), spread(900.0)),
            ]
            .into(),
            ebb_over: [].into(),
            ebb_over_best_lsm: over_best,
        }
    }

    #[test]
    fn bars_are_as_high_as_the_ratio_to_the_best_peer() {
        let entrants = Entrant::all(&[EngineName::Ebb]);
        let group = group("a", &[row("a", Some(1.5))], &entrants).unwrap();
        let medians: Vec<_> = group.bars.iter().map(|b| b.unwrap().value).collect();
        assert_eq!(medians, [1.5, 4.5]);
        let svg = draw(&[row("a", Some(1.5)), row("sync-1", Some(2.0))], &entrants).unwrap();
        assert_eq!(svg.matches(">A</text>").count(), 1);
        assert!(svg.contains(">4.5</text>"), "a cut bar has its height");
        assert!(!svg.contains("SYNC"));
    }

    #[test]
    fn without_a_peer_there_is_nothing_to_draw() {
        let entrants = Entrant::all(&[EngineName::Ebb]);
        assert_eq!(draw(&[row("a", None)], &entrants), None);
    }
}
