//! The summary of all rounds: medians, spreads, and ebb's ratios to the other engines.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::phase::{Phase, WRONG_READS};
use crate::plan::Entrant;
use crate::run::Turn;
use crate::statistics::{Spread, best, ratio};

/// One metric of one phase.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub phase: String,
    pub metric: String,
    /// The values of each entrant by its label; an entrant that failed is missing.
    pub entrants: BTreeMap<String, Spread>,
    /// The median of ebb divided by that of each other entrant. For `ebb-again`, the difference
    /// from 1 is noise.
    pub ebb_over: BTreeMap<String, f64>,
    /// The median of ebb divided by the best median of the LSM peers.
    pub ebb_over_best_lsm: Option<f64>,
}

/// The phases LOAD to F, over which write amplification is computed.
pub const YCSB: [&str; 7] = ["load", "a", "b", "c", "d", "e", "f"];
/// The name of the phase that stands for all of these together.
pub const WHOLE: &str = "load-f";

/// Summarizes the turns. Rows are in the order in which phases first occurred, and within a phase
/// in the order of the metrics' names.
pub fn summarize(turns: &[Turn], entrants: &[Entrant]) -> Vec<Row> {
    let mut order: Vec<String> = Vec::new();
    let mut values: BTreeMap<(String, String), BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for turn in turns {
        let derived = derived(turn, turns);
        for phase in turn.phases.iter().chain(&derived) {
            if !order.contains(&phase.name) {
                order.push(phase.name.clone());
            }
            for (metric, value) in &phase.metrics {
                let of_metric = values
                    .entry((phase.name.clone(), metric.clone()))
                    .or_default();
                of_metric
                    .entry(turn.entrant.clone())
                    .or_default()
                    .push(*value);
            }
        }
    }
    let mut rows: Vec<_> = values
        .into_iter()
        .map(|((phase, metric), by_entrant)| row(phase, metric, &by_entrant, entrants))
        .collect();
    let position = |phase: &str| order.iter().position(|name| name == phase);
    rows.sort_by_key(|row| position(&row.phase));
    rows
}

fn row(
    phase: String,
    metric: String,
    values: &BTreeMap<String, Vec<f64>>,
    entrants: &[Entrant],
) -> Row {
    let spreads: BTreeMap<String, Spread> = values
        .iter()
        .filter_map(|(label, values)| Some((label.clone(), Spread::of(values)?)))
        .collect();
    let median = |entrant: &Entrant| Some(spreads.get(&entrant.label())?.median);
    let ebb = entrants
        .iter()
        .find(|entrant| entrant.is_ebb())
        .and_then(median);
    let mut ebb_over = BTreeMap::new();
    for other in entrants.iter().filter(|entrant| !entrant.is_ebb()) {
        if let (Some(ebb), Some(other_median)) = (ebb, median(other))
            && let Some(ratio) = ratio(ebb, other_median)
        {
            ebb_over.insert(other.label(), ratio);
        }
    }
    let lsm = entrants
        .iter()
        .filter(|entrant| entrant.engine.is_lsm_peer());
    let best = best(&metric, lsm.filter_map(median));
    Row {
        ebb_over_best_lsm: ebb.zip(best).and_then(|(ebb, best)| ratio(ebb, best)),
        ebb_over,
        entrants: spreads,
        phase,
        metric,
    }
}

/// Computes the metrics that need more than one phase: write amplification, and the bill's ratios.
fn derived(turn: &Turn, turns: &[Turn]) -> Vec<Phase> {
    let mut all = Vec::new();
    let find = |name: &str| turn.phases.iter().find(|phase| phase.name == name);
    if let Some(phases) = YCSB.map(find).into_iter().collect::<Option<Vec<_>>>() {
        let total = |metric: &str| phases.iter().map(|phase| phase.get(metric)).sum::<f64>();
        let user_bytes = total("user_bytes_written");
        let mut whole = Phase::new(WHOLE);
        whole.set("write_amplification", total("written_bytes") / user_bytes);
        let engine_bytes = total("engine_written_bytes");
        if engine_bytes > 0.0 {
            whole.set("engine_write_amplification", engine_bytes / user_bytes);
        }
        whole.set("written_bytes", total("written_bytes"));
        whole.set("written_cancelled_bytes", total("written_cancelled_bytes"));
        whole.set("cpu_s", total("cpu_s"));
        all.push(whole);
    }
    let of_none = || {
        let same = |other: &&Turn| other.round == turn.round && other.entrant == turn.entrant;
        let phases = turns.iter().filter(same).flat_map(|other| &other.phases);
        phases.into_iter().find(|phase| phase.name == "bill-none")
    };
    if let (Some(bill), Some(none)) = (find("bill"), of_none()) {
        let mut over = Phase::new("bill");
        for (metric, of) in [
            ("memory_over_none", "memory_bytes"),
            ("memory_peak_over_none", "memory_peak_bytes"),
            ("disk_over_none", "disk_over_live"),
        ] {
            over.set(metric, bill.get(of) / none.get(of));
        }
        all.push(over);
    }
    all
}

pub fn wrong_reads(turns: &[Turn]) -> f64 {
    let phases = turns.iter().flat_map(|turn| &turn.phases);
    phases.map(|phase| phase.get(WRONG_READS)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineName;

    fn turn(round: u32, entrant: Entrant, phases: &[(&str, &[(&str, f64)])]) -> Turn {
        let phases = phases.iter().map(|(name, metrics)| {
            let mut phase = Phase::new(name);
            for (metric, value) in *metrics {
                phase.set(metric, *value);
            }
            phase
        });
        Turn {
            round,
            job: "ycsb",
            entrant: entrant.label(),
            elapsed_s: 1.0,
            phases: phases.collect(),
            failure: None,
        }
    }

    #[test]
    #[cfg(all(feature = "fjall", feature = "rocksdb"))]
    fn ebb_is_compared_with_the_better_peer_and_with_itself() {
        let engines = [EngineName::Ebb, EngineName::RocksDb, EngineName::Fjall];
        let entrants = Entrant::all(&engines);
        let mut turns = Vec::new();
        for round in 0..3 {
            for (entrant, rate) in entrants.iter().zip([300.0, 290.0, 150.0, 100.0]) {
                let metrics = [
                    ("ops_per_s", rate + f64::from(round)),
                    ("read_p99_us", 1000.0 / rate),
                ];
                turns.push(turn(round, *entrant, &[("c", &metrics)]));
            }
        }
        let rows = summarize(&turns, &entrants);
        let names: Vec<_> = rows.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(names, ["ops_per_s", "read_p99_us"]);
        let rate = &rows[0];
        assert_eq!(rate.entrants["ebb"].median, 301.0);
        assert_eq!(rate.entrants["ebb"].max, 302.0);
        assert_eq!(rate.ebb_over["ebb-again"], 301.0 / 291.0);
        assert_eq!(rate.ebb_over["fjall"], 301.0 / 101.0);
        assert_eq!(rate.ebb_over_best_lsm, Some(301.0 / 151.0));
        let of_latency = rows[1].ebb_over_best_lsm.unwrap();
        assert!((of_latency - 0.5).abs() < 1e-9, "{of_latency}");
    }

    #[test]
    fn amplification_covers_the_whole_run() {
        let ebb = Entrant::all(&[EngineName::Ebb])[0];
        let of_phase: &[(&str, f64)] = &[("written_bytes", 30.0), ("user_bytes_written", 10.0)];
        let reads: &[(&str, f64)] = &[("written_bytes", 20.0)];
        let phases: Vec<_> = YCSB
            .iter()
            .map(|name| (*name, if *name == "c" { reads } else { of_phase }))
            .collect();
        let rows = summarize(&[turn(0, ebb, &phases)], &[ebb]);
        let whole: Vec<_> = rows.iter().filter(|row| row.phase == WHOLE).collect();
        let amplification = whole.iter().find(|row| row.metric == "write_amplification");
        assert_eq!(amplification.unwrap().entrants["ebb"].median, 200.0 / 60.0);
        let without_c = turn(0, ebb, &phases[..3]);
        let rows = summarize(&[without_c], &[ebb]);
        assert!(rows.iter().all(|row| row.phase != WHOLE));
    }

    #[test]
    fn the_bill_is_relative_to_the_run_without_a_snapshot() {
        let ebb = Entrant::all(&[EngineName::Ebb])[0];
        let turns = [
            turn(0, ebb, &[("bill-none", &[("memory_bytes", 4.0)])]),
            turn(1, ebb, &[("bill-none", &[("memory_bytes", 5.0)])]),
            turn(1, ebb, &[("bill", &[("memory_bytes", 10.0)])]),
        ];
        let rows = summarize(&turns, &[ebb]);
        let over = rows.iter().find(|row| row.metric == "memory_over_none");
        assert_eq!(over.unwrap().entrants["ebb"].median, 2.0);
    }
}
