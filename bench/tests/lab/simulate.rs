//! Tests of the application `simulate` against the study of the same scenario.

use std::sync::Arc;

use ebb_bench::sim;
use ebb_jobs::simulate::{SCENARIO, spec};
use ebb_scheduler::runtime::{Outcome, Runtime, RuntimeOptions, Throttles, VecOutput};
use ebb_scheduler::sim::scenario::Scenario;

/// Returns a small version of the thesis's scenario: one day, two of the scenario's
/// points (combinations of its parameters), and two policies.
fn scenario() -> Scenario {
    let small = SCENARIO
        .replace("span_s = 604800", "span_s = 86400")
        .replace("measure_from_s = 86400", "measure_from_s = 0")
        .replace("\"adaptive\", \"ras\", ", "")
        .replace("[0.2, 0.4, 0.6, 0.8]", "[0.4, 0.8]")
        .replace("[[1.5, 4.0], [1.5, 8.0], [1.5, 12.0]]", "[[1.5, 4.0]]");
    let mut scenario = Scenario::parse("small.toml", &small).unwrap();
    assert_eq!((scenario.points.len(), scenario.policies.len()), (2, 2));
    scenario.replicas = 3;
    scenario
}

struct Quiet;

impl sim::Progress for Quiet {
    fn run_done(&self) {}
}

/// Runs the scenario as a job, and returns its rows.
fn rows_of(scenario: Scenario) -> Vec<(String, String)> {
    let output = VecOutput::new();
    let job = spec("simulate", Arc::new(output.clone()), scenario, 5).unwrap();
    let runtime = Runtime::start(RuntimeOptions {
        speculation: false,
        throttles: Throttles {
            idle_class: false,
            ..Throttles::default()
        },
        ..RuntimeOptions::new(2)
    });
    let runtime = runtime.unwrap();
    assert_eq!(
        runtime.submit(job).unwrap().wait().outcome,
        Outcome::Succeeded
    );
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows = output.rows().unwrap().into_iter();
    rows.map(|(key, value)| (text(key), text(value))).collect()
}

#[test]
fn means_are_those_of_the_study_of_the_same_scenario() {
    let scenario = scenario();
    let study = sim::run(&scenario, 2, &Quiet).unwrap();
    let rows = rows_of(scenario);
    assert_eq!(rows.len(), 4);
    for point in &study.points {
        for expected in &point.policies {
            let load = &point.set["workload.load"];
            let found = rows.iter().find(|(key, _)| {
                key.contains(&format!("load={load} ")) && key.ends_with(&expected.policy)
            });
            let (_, row) = found.unwrap();
            let fields: Vec<f64> = row.split(',').map(|f| f.parse().unwrap()).collect();
            assert_eq!(fields[0], 3.0);
            let means = [
                expected.missed_fraction,
                expected.utilisation,
                expected.makespan_s,
            ];
            for (field, mean) in fields[2..].iter().zip(means) {
                let mean = mean.unwrap().mean;
                assert!((field - mean).abs() <= 1e-9 * mean.abs(), "{row}: {mean}");
            }
        }
    }
}

/// No job has a goal, and none ends, because no capacity is left for jobs. So no replica
/// (simulation with its own random numbers) has a fraction of missed goals, a utilisation or a
/// makespan: these fields of the CSV are empty.
#[test]
fn a_number_that_no_replica_has_is_an_empty_field() {
    let nothing = "policies = [\"fifo\"]\nreplicas = 2\n[run]\nhorizon_s = 600\n[[nodes]]\ncount = 1\n\
                   [availability]\nkind = \"constant\"\nfraction = 0.0\n\
                   [applications.a]\nmap_s = 1\n[[job]]\napplication = \"a\"\nmaps = 1\n";
    let scenario = Scenario::parse("nothing.toml", nothing).unwrap();
    let expected = ("fifo".to_string(), "2,0,,,".to_string());
    assert_eq!(rows_of(scenario), [expected]);
}
