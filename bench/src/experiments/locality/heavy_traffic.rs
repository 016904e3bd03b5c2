//! Wang, theorems 2 to 4: near the boundary of the capacity region, the backlog times the distance
//! from the boundary tends to (sigma^2 + nu^2) / 2, and no policy has a smaller limit.
//!
//! Ten nodes, with data on eight of them: the boundary is 8 alpha + 2 gamma = 6.8 tasks per slot.
//! Jobs have one task, so arrivals are Poisson and sigma^2 is the load; nu^2 is 8 alpha (1 - alpha)
//! + 2 gamma (1 - gamma) = 1.6.

use anyhow::Result;
use ebb_scheduler::queueing::{Cluster, JobSizes, Model, QUEUEING_POLICIES, Stream};

use super::super::table::Table;
use super::{Part, Setting};
use crate::columns::row;
use crate::number::fixed;
use crate::queueing::{Case, QueueingRow, run_cases};
use crate::sim::{Curves, Line};

const BOUNDARY: f64 = 6.8;
const SERVICE_VARIANCE: f64 = 1.6;
/// The loads to measure. Each element has a load's distance eps from the greatest load that the
/// nodes can sustain (the boundary of the capacity region), in tasks per slot, and the length of
/// the load's measurement, in quarters of `--slots`. Near the boundary measurements are longer,
/// because backlogs change slowly there: a backlog is independent of its past only after about
/// (sigma^2 + nu^2) / eps^2 slots, where sigma^2 and nu^2 are the variances of arrivals and of
/// service. At the smallest distance this is about 3,400 slots.
const DISTANCES: [(f64, u64); 6] = [(1.6, 1), (0.8, 1), (0.4, 1), (0.2, 2), (0.1, 4), (0.05, 16)];

pub fn run(setting: &Setting) -> Result<Part> {
    let model = Model {
        cluster: Cluster::flat(10, 0.8, 0.2),
        sizes: JobSizes::single(),
        streams: vec![Stream::new(BOUNDARY, 0..8, 3)],
    };
    let policies: Vec<&str> = (QUEUEING_POLICIES.iter())
        .map(|policy| policy.name)
        .filter(|&name| name != "pandas-rack")
        .collect();
    let bar = Setting::bar(policies.len() * DISTANCES.len());
    let mut rows = Vec::new();
    for (distance, quarters) in DISTANCES {
        let cases = Case::of_each(&policies, BOUNDARY - distance);
        let run = setting.run(quarters);
        rows.extend(run_cases(&model, &cases, run, setting.threads, &bar)?);
    }
    bar.finish_and_clear();
    let picture = picture(&policies, &rows);
    Ok(Part {
        name: "heavy-traffic",
        tables: vec![table(&policies, &rows)],
        pictures: vec![("wang-heavy-traffic".into(), picture)],
        measured: vec![("ten nodes".into(), rows)],
    })
}

/// Returns the backlog times the distance from the boundary of the capacity region. According to
/// the theory, this product has a limit as the distance goes to 0. `None` if the run measured no
/// backlog.
fn scaled(row: &QueueingRow) -> Option<f64> {
    let distance = BOUNDARY - row.tasks_per_slot;
    row.measured.backlog.map(|backlog| distance * backlog)
}

fn limit(distance: f64) -> f64 {
    (BOUNDARY - distance + SERVICE_VARIANCE) / 2.0
}

fn table(policies: &[&str], rows: &[QueueingRow]) -> Table {
    let distances = DISTANCES.map(|(distance, _)| format!("eps {distance}"));
    let of = |name: &str| {
        let of = rows.iter().filter(|row| row.policy == name);
        let cell = |row: &QueueingRow| {
            if row.stable {
                fixed(scaled(row), 2)
            } else {
                "grows".into()
            }
        };
        row(name, of.map(cell))
    };
    let bound = DISTANCES.map(|(distance, _)| format!("{:.2}", limit(distance)));
    Table {
        title: "Wang, theorem 4: eps times the mean backlog, eps from the boundary of 6.8".into(),
        head: row("policy", distances),
        rows: (policies.iter().map(|name| of(name)))
            .chain([row("(sigma^2 + nu^2) / 2", bound)])
            .collect(),
    }
}

fn picture(policies: &[&str], rows: &[QueueingRow]) -> String {
    let line = |policy: &&str| Line {
        name: (*policy).into(),
        points: (rows
            .iter()
            .filter(|row| row.policy == *policy && row.stable))
        .filter_map(|row| Some((row.tasks_per_slot, scaled(row)?)))
        .collect(),
    };
    let curves = Curves {
        title: "Distance from the boundary times backlog; dotted: the limit",
        x_label: "tasks per slot",
        x: (BOUNDARY - DISTANCES[0].0, BOUNDARY),
        y_label: "tasks squared per slot",
        y: (0.0, 16.0),
        lines: policies.iter().map(line).collect(),
        level: Some(limit(0.0)),
    };
    curves.to_svg()
}
