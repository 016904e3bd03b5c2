//! Figure 5.22: the levels of burstiness.

use std::sync::Arc;

use ebb_scheduler::availability::Availability;
use ebb_scheduler::sim::scenario::Scenario;

use super::{Analysis, words};
use crate::columns::row;
use crate::sim::picture::{Curves, Line};

/// Returns f(t), the capacity for jobs over time, of a hundred nodes that also serve a
/// transactional load. `level` is the burstiness of that load, as scenarios define it.
fn level(level: u32) -> Arc<Availability> {
    let text = format!(
        "[[nodes]]\ncount = 100\n[availability]\nkind = \"burstiness\"\nlevel = {level}\n\
         [applications.a]\nmap_s = 1\n[[job]]\napplication = \"a\"\nmaps = 1\n"
    );
    let scenario = Scenario::parse("burstiness", &text).expect("a constant");
    let (config, _) = scenario.points[0].draw(0).expect("one job");
    config.availability
}

/// Returns the thesis's Figure 5.22: the nodes left beside the transactional load over a
/// day, for three levels of burstiness.
#[must_use]
pub fn burstiness_levels() -> Analysis {
    let levels: Vec<(u32, Arc<Availability>)> = (1..=3).map(|n| (n, level(n))).collect();
    let nodes = |f: &Availability, hour: f64| f.at(hour * 3600.0) / 100.0;
    let line = |(number, f): &(u32, Arc<Availability>)| Line {
        name: format!("level {number}"),
        points: (0..=96)
            .map(|quarter| f64::from(quarter) / 4.0)
            .map(|hour| (hour, nodes(f, hour)))
            .collect(),
    };
    let picture = Curves {
        title: "Nodes left beside the transactional load",
        x_label: "hours",
        x: (0.0, 24.0),
        y_label: "nodes of 100",
        y: (0.0, 100.0),
        lines: levels.iter().map(line).collect(),
        level: None,
    };
    let rows = levels.iter().map(|(number, f)| {
        let cells = [0.0, 6.0, 12.0, 18.0].map(|hour| format!("{:.1}", nodes(f, hour)));
        row(number.to_string(), cells)
    });
    Analysis {
        title: "Nodes of 100 left beside the transactional load".into(),
        head: words(["level", "0 h", "6 h", "12 h", "18 h"]),
        rows: rows.collect(),
        pictures: vec![("burstiness-levels", picture.to_svg())],
    }
}
