//! The claims of a survey of scheduling with data locality: the loads at which each policy is
//! stable, and its task delays.
//!
//! Eight nodes in two racks, with one task per job. Loads are fractions of the capacity from the
//! linear programme.

use anyhow::Result;
use ebb_scheduler::queueing::{Capacity, Cluster, JobSizes, Model, QUEUEING_POLICIES, Stream};

use super::super::table::Table;
use super::{Part, Setting};
use crate::columns::row;
use crate::number::{NONE, fixed, percent};
use crate::queueing::{Case, QueueingRow, run_cases};
use crate::sim::{Curves, Line};

/// The loads as fractions of the capacity, each with the length of its measurement in quarters of
/// `--slots`: queues change more slowly at a high load.
const LOADS: [(f64, u64); 8] = [
    (0.3, 1),
    (0.5, 1),
    (0.7, 1),
    (0.8, 1),
    (0.9, 1),
    (0.95, 2),
    (0.98, 4),
    (0.995, 8),
];

/// The service rates alpha, beta and gamma, in tasks per slot and node, of tasks with local data,
/// with data in the rack, and with remote data. Here beta^2 is above alpha gamma, and in
/// `SLOW_RACK` below it.
const FAST_RACK: [f64; 3] = [0.8, 0.5, 0.2];
const SLOW_RACK: [f64; 3] = [0.8, 0.3, 0.25];

fn stream(tasks_per_slot: f64, from: u32, until: u32) -> Stream {
    Stream::new(tasks_per_slot, from..until, (until - from).min(3))
}

/// Returns the settings, each a name and a model of the cluster and its traffic.
fn settings() -> Vec<(String, Model)> {
    let flat = Cluster::flat(8, 0.8, 0.2);
    let racks = |rates| Cluster::racks(8, 4, rates);
    let even = vec![stream(1.0, 0, 8)];
    let two_racks = vec![stream(1.0, 0, 2), stream(1.0, 4, 6)];
    // Three nodes of the first rack are near the limit that they can serve alone; one node of the
    // other rack is far above it.
    let one_rack = vec![stream(2.1, 0, 3), stream(2.4, 4, 5)];
    // Data in both racks, and only one rack is overloaded: its node has to leave the shared data to
    // the other rack.
    let across = vec![stream(1.0, 3, 5), stream(2.2, 0, 1)];
    let two_levels = [
        ("two levels, data everywhere", &even),
        ("two levels, data on half of the nodes", &two_racks),
    ]
    .map(|(name, streams)| (name.to_string(), flat, streams));
    let three_levels = [FAST_RACK, SLOW_RACK].into_iter().flat_map(|rates| {
        [
            ("data everywhere", &even),
            ("two overloaded racks", &two_racks),
            ("one overloaded rack", &one_rack),
            ("data across racks", &across),
        ]
        .map(|(what, streams)| (format!("beta {}, {what}", rates[1]), racks(rates), streams))
    });
    (two_levels.into_iter().chain(three_levels))
        .map(|(name, cluster, streams)| {
            let model = Model {
                cluster,
                sizes: JobSizes::single(),
                streams: streams.clone(),
            };
            (name, model)
        })
        .collect()
}

pub fn run(setting: &Setting) -> Result<Part> {
    let settings = settings();
    let policies: Vec<&str> = QUEUEING_POLICIES.iter().map(|p| p.name).collect();
    let bar = Setting::bar(settings.len() * LOADS.len() * policies.len());
    let mut part = Part::new("levels");
    for (name, model) in settings {
        let capacity = Capacity::of(&model)?.tasks_per_slot;
        let mut rows = Vec::new();
        for (load, quarters) in LOADS {
            let cases = Case::of_each(&policies, load * capacity);
            let run = setting.run(quarters);
            rows.extend(run_cases(&model, &cases, run, setting.threads, &bar)?);
        }
        part.tables.push(delays(&name, capacity, &rows));
        part.measured.push((name, rows));
    }
    bar.finish_and_clear();
    let ratios: Vec<(&str, Vec<Option<f64>>)> = (part.measured.iter())
        .map(|(name, rows)| (name.as_str(), ratios(rows)))
        .collect();
    let tables = [
        stable_up_to(&part.measured),
        near(&part.measured),
        ours(&ratios),
    ];
    let picture = picture(&ratios);
    part.tables.extend(tables);
    part.pictures
        .push(("locality-late-binding".into(), picture));
    Ok(part)
}

/// The policy that the others are compared with.
const OURS: &str = "late-binding";
/// The largest acceptable ratio of the mean task delay of [`OURS`] to the smallest among the
/// published policies that do not know the service rates.
const BAR: f64 = 1.03;

/// Returns the mean task delay of one policy for each load, in slots; `None` where the backlog
/// grows.
fn delays_of(rows: &[QueueingRow], policy: &str) -> Vec<Option<f64>> {
    let of = rows.iter().filter(|row| row.policy == policy);
    of.map(|row| row.measured.task_delay.filter(|_| row.stable))
        .collect()
}

/// Returns for each load the least delay of the published policies that do not know the service
/// rates; `None` if none of them is stable.
fn best(rows: &[QueueingRow]) -> Vec<Option<f64>> {
    let published = (QUEUEING_POLICIES.iter()).filter(|p| p.name != OURS && !p.knows_rates);
    let delays: Vec<_> = published.map(|p| delays_of(rows, p.name)).collect();
    let of = |at: usize| delays.iter().filter_map(|of| of[at]).reduce(f64::min);
    (0..LOADS.len()).map(of).collect()
}

/// Returns for each load the ratio of the delay of [`OURS`] to that of the [`best`] published
/// policy; `None` if either does not exist because the backlog grows.
fn ratios(rows: &[QueueingRow]) -> Vec<Option<f64>> {
    let both = delays_of(rows, OURS).into_iter().zip(best(rows));
    both.map(|(ours, best)| Some(ours? / best?)).collect()
}

fn head(first: &str) -> Vec<String> {
    let loads = LOADS.map(|(load, _)| format!("{load}"));
    row(first, loads)
}

fn delays(name: &str, capacity: f64, rows: &[QueueingRow]) -> Table {
    let cell = |row: &QueueingRow| {
        if row.stable {
            fixed(row.measured.task_delay, 2)
        } else {
            match row.measured.growth {
                Some(growth) => format!("+{}", percent(growth, 1)),
                None => NONE.into(),
            }
        }
    };
    let of = |policy: &str| {
        let of = rows.iter().filter(|row| row.policy == policy);
        row(policy, of.map(cell))
    };
    Table {
        title: format!(
            "{name}, capacity {capacity:.3}: mean task delay in slots by the part of the \
             capacity, or how much of the arrivals the backlog grows by"
        ),
        head: head("policy"),
        rows: QUEUEING_POLICIES
            .iter()
            .map(|policy| of(policy.name))
            .collect(),
    }
}

/// Returns a table with a row for each of `settings`, which are names and results, and a column for
/// each policy. `cell` makes the text of a cell from the results of the setting and the policy's
/// name.
fn by_policy(
    title: &str,
    settings: &[(String, Vec<QueueingRow>)],
    cell: impl Fn(&[QueueingRow], &str) -> String,
) -> Table {
    let names = || QUEUEING_POLICIES.iter().map(|policy| policy.name);
    let of = |(setting, rows): &(String, Vec<QueueingRow>)| {
        row(setting.as_str(), names().map(|name| cell(rows, name)))
    };
    Table {
        title: title.into(),
        head: row("setting", names().map(String::from)),
        rows: settings.iter().map(of).collect(),
    }
}

fn stable_up_to(settings: &[(String, Vec<QueueingRow>)]) -> Table {
    let title = "The part of the capacity below the first at which the backlog grows";
    by_policy(title, settings, |rows, policy| {
        let delays = delays_of(rows, policy);
        let stable = LOADS
            .iter()
            .zip(&delays)
            .take_while(|(_, delay)| delay.is_some());
        let last = stable.last().map(|((load, _), _)| format!("{load}"));
        last.unwrap_or("-".into())
    })
}

/// Returns a table of each policy's mean task delay at the highest load, divided by the smallest
/// delay among the published policies that do not know the service rates. Theorems on optimality in
/// heavy traffic are about this ratio.
fn near(settings: &[(String, Vec<QueueingRow>)]) -> Table {
    let title = "Mean task delay at the highest load over the least of the published policies";
    by_policy(title, settings, |rows, policy| {
        let at = LOADS.len() - 1;
        let ratio = delays_of(rows, policy)[at].zip(best(rows)[at]);
        ratio.map_or("grows".into(), |(delay, best)| {
            format!("{:.3}", delay / best)
        })
    })
}

fn ours(ratios: &[(&str, Vec<Option<f64>>)]) -> Table {
    let cell = |ratio: &Option<f64>| ratio.map_or("grows".into(), |ratio| format!("{ratio:.3}"));
    let over_settings = |name: &str, of: &dyn Fn(Vec<f64>) -> f64| {
        let at = |at: usize| ratios.iter().map(|(_, of)| of[at]).collect::<Option<_>>();
        let cells = (0..LOADS.len()).map(|load| cell(&at(load).map(of)));
        row(name, cells)
    };
    let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
    let largest = |of: Vec<f64>| of.into_iter().fold(0.0, f64::max);
    let of_setting =
        |(name, ratios): &(&str, Vec<Option<f64>>)| row(*name, ratios.iter().map(cell));
    Table {
        title: format!("{OURS}: mean task delay over the least of the published policies"),
        head: head("setting"),
        rows: (ratios.iter().map(of_setting))
            .chain([
                over_settings("mean", &mean),
                over_settings("largest", &largest),
            ])
            .collect(),
    }
}

fn picture(ratios: &[(&str, Vec<Option<f64>>)]) -> String {
    let line = |(name, ratios): &(&str, Vec<Option<f64>>)| Line {
        name: (*name).into(),
        points: (LOADS.iter().zip(ratios))
            .filter_map(|((load, _), ratio)| Some((*load, (*ratio)?)))
            .collect(),
    };
    let lines: Vec<Line> = ratios.iter().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let least = points().fold(1.0_f64, |least, &(_, ratio)| least.min(ratio));
    let most = points().fold(BAR, |most, &(_, ratio)| most.max(ratio));
    let curves = Curves {
        title: "late-binding: mean delay over the least of the published; dotted: 1.03",
        x_label: "part of the capacity",
        x: (LOADS[0].0, 1.0),
        y_label: "ratio",
        y: ((least * 20.0).floor() / 20.0, (most * 20.0).ceil() / 20.0),
        lines,
        level: Some(BAR),
    };
    curves.to_svg()
}
