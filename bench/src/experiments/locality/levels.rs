//! The survey's claims: which policy is stable where, and how soon tasks end.
//!
//! Eight nodes in two racks, one task a job, every load a part of the capacity that the
//! linear programme gives.

use anyhow::Result;
use ebb_scheduler::queueing::{Capacity, Cluster, JobSizes, Model, QUEUEING_POLICIES, Run, Stream};

use super::Setting;
use super::report::{Part, Table};
use crate::queueing::{Case, QueueingRow, run_cases};

const LOADS: [f64; 8] = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995];
/// Slots here for one of throughput.
const SLOTS_FOR_ONE: u64 = 4;

/// Alpha, beta, gamma: beta^2 above alpha gamma, and below it.
const FAST_RACK: [f64; 3] = [0.8, 0.5, 0.2];
const SLOW_RACK: [f64; 3] = [0.8, 0.3, 0.25];

fn stream(tasks_per_slot: f64, from: u32, until: u32) -> Stream {
    Stream {
        tasks_per_slot,
        from,
        until,
        replicas: (until - from).min(3),
    }
}

/// Names of settings, the cluster and its traffic.
fn settings() -> Vec<(String, Model)> {
    let flat = Cluster::flat(8, 0.8, 0.2);
    let racks = |rates| Cluster::racks(8, 4, rates);
    let even = vec![stream(1.0, 0, 8)];
    let two_racks = vec![stream(1.0, 0, 2), stream(1.0, 4, 6)];
    // Three nodes of the first rack are near what they can serve alone, one of the other
    // is far above it.
    let one_rack = vec![stream(2.1, 0, 3), stream(2.4, 4, 5)];
    // Data in both racks, of which only one is overloaded: the node there has to leave it to
    // the other.
    let across = vec![stream(1.0, 3, 5), stream(2.2, 0, 1)];
    let mut settings = vec![
        ("two levels, data everywhere", flat, &even),
        ("two levels, data on half of the nodes", flat, &two_racks),
    ];
    for (rates, words) in [(FAST_RACK, "fast"), (SLOW_RACK, "slow")] {
        let names = match words {
            "fast" => [
                "beta .5, data everywhere",
                "beta .5, two overloaded racks",
                "beta .5, one overloaded rack",
                "beta .5, data across racks",
            ],
            _ => [
                "beta .3, data everywhere",
                "beta .3, two overloaded racks",
                "beta .3, one overloaded rack",
                "beta .3, data across racks",
            ],
        };
        for (name, streams) in names
            .into_iter()
            .zip([&even, &two_racks, &one_rack, &across])
        {
            settings.push((name, racks(rates), streams));
        }
    }
    (settings.into_iter())
        .map(|(name, cluster, streams)| {
            let model = Model {
                cluster,
                sizes: JobSizes::single(),
                streams: streams.clone(),
            };
            (name.to_string(), model)
        })
        .collect()
}

pub fn run(setting: &Setting) -> Result<Part> {
    let settings = settings();
    let bar = Setting::bar(settings.len() * LOADS.len() * QUEUEING_POLICIES.len());
    let standard = Run::new(setting.slots * SLOTS_FOR_ONE, setting.seed);
    let mut part = Part {
        name: "levels",
        ..Part::default()
    };
    let mut ratios = Vec::new();
    for (name, model) in settings {
        let capacity = Capacity::of(&model)?.tasks_per_slot;
        let cases: Vec<Case> = (QUEUEING_POLICIES.iter())
            .flat_map(|policy| LOADS.map(|load| (policy.name, load * capacity)))
            .map(|(policy, tasks_per_slot)| Case {
                policy: policy.into(),
                tasks_per_slot,
            })
            .collect();
        let rows = run_cases(&model, &cases, standard, setting.threads, &bar)?;
        part.tables.push(table(&name, capacity, &rows));
        ratios.push(ratio_row(&name, &rows));
        part.rows.push((name, rows));
    }
    bar.0.finish_and_clear();
    part.tables.push(Table {
        title: format!("{OURS}: mean task delay over the least of the published policies"),
        head: head("setting"),
        rows: ratios,
    });
    Ok(part)
}

/// The policy that is compared with the others.
const OURS: &str = "late-binding";

fn head(first: &str) -> Vec<String> {
    let loads = LOADS.map(|load| format!("{load}"));
    std::iter::once(first.to_string()).chain(loads).collect()
}

/// Per load: ours over the best of those that are neither ours nor told the rates.
fn ratio_row(name: &str, rows: &[QueueingRow]) -> Vec<String> {
    let delays = |policy: &str| -> Vec<Option<f64>> {
        let of = rows.iter().filter(|row| row.policy == policy);
        of.map(|row| row.stable.then_some(row.measured.task_delay))
            .collect()
    };
    let others: Vec<Vec<Option<f64>>> = (QUEUEING_POLICIES.iter())
        .filter(|policy| policy.name != OURS && !policy.knows_rates)
        .map(|policy| delays(policy.name))
        .collect();
    let cell = |(at, ours): (usize, Option<f64>)| {
        let best = others
            .iter()
            .filter_map(|delays| delays[at])
            .reduce(f64::min);
        let ratio = ours
            .zip(best)
            .map(|(ours, best)| format!("{:.3}", ours / best));
        ratio.unwrap_or_else(|| "grows".to_string())
    };
    let cells = delays(OURS).into_iter().enumerate().map(cell);
    std::iter::once(name.to_string()).chain(cells).collect()
}

fn table(name: &str, capacity: f64, rows: &[QueueingRow]) -> Table {
    let cell = |row: &QueueingRow| match row.stable {
        true => format!("{:.2}", row.measured.task_delay),
        false => format!("+{:.1}%", 100.0 * row.measured.growth),
    };
    let of = |policy: &str| {
        let of = rows.iter().filter(|row| row.policy == policy);
        std::iter::once(policy.to_string())
            .chain(of.map(cell))
            .collect()
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
