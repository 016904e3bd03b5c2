//! Random small scenarios: valid ones run, and each is changed in one place.

use super::*;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Values that replace a valid one.
const BROKEN: [&str; 16] = [
    "0",
    "1",
    "-1",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "1e-300",
    "1e300",
    "1000000000",
    "4294967295",
    "9223372036854775807",
    "\"x\"",
    "[]",
    "{}",
    "true",
];

/// Returns the lines of a valid scenario that is small enough for some thousand runs. Each node has
/// room for a task, because files with tasks that fit on no node are refused.
fn lines(rng: &mut ChaCha8Rng) -> Vec<String> {
    let policies = crate::policy::descriptors();
    let at = rng.random_range(0..policies.len() - 1);
    let two = [policies[at].name, policies[at + 1].name];
    let mut lines = vec![
        format!("policies = {two:?}"),
        "replicas = 1".to_string(),
        format!("seed = {}", rng.random_range(0..1000)),
        "[run]".to_string(),
        format!("cycle_s = {}", rng.random_range(30..300)),
        "horizon_s = 20000".to_string(),
        format!("measure_from_s = {}", rng.random_range(0..3) * 1000),
        format!("measure_until_s = {}", rng.random_range(3000..=20_000)),
        "shares_every_s = 600".to_string(),
        "tasks = true".to_string(),
        format!("replicas = {}", rng.random_range(0..3)),
        format!(
            "reduces = {:?}",
            ["after-maps", "overlapped"][rng.random_range(0..2)]
        ),
        format!(
            "spread = {:?}",
            ["whole-nodes", "even"][rng.random_range(0..2)]
        ),
        "[[nodes]]".to_string(),
        format!("count = {}", rng.random_range(1..5)),
        format!("cpu_hundredths = {}", rng.random_range(100..400)),
        format!("memory_bytes = {}", rng.random_range(10..100)),
    ];
    if rng.random_bool(0.4) {
        lines.push(format!("map_slots = {}", rng.random_range(1..4)));
        lines.push(format!("reduce_slots = {}", rng.random_range(1..3)));
    }
    lines.push("[availability]".to_string());
    match rng.random_range(0..3) {
        0 => lines.extend([
            "kind = \"constant\"".to_string(),
            format!("fraction = {:.1}", rng.random_range(0.0..1.0)),
        ]),
        1 => lines.extend([
            "kind = \"burstiness\"".to_string(),
            format!("level = {}", rng.random_range(0..4)),
        ]),
        _ => lines.extend([
            "kind = \"sine-day\"".to_string(),
            "mean = 0.4".to_string(),
            format!("amplitude = {:.1}", rng.random_range(0.0..0.6)),
            format!("peak_at_s = {}", rng.random_range(0..10_000)),
            "day_s = 10000".to_string(),
        ]),
    }
    if rng.random_bool(0.3) {
        lines.extend([
            "[forecast_error]".to_string(),
            "log_sd = 0.4".to_string(),
            "correlation_s = 3600".to_string(),
            "quantile = 0.7".to_string(),
        ]);
    }
    lines.extend([
        "[applications.a]".to_string(),
        format!("map_s = {}", rng.random_range(1..4000)),
        format!("reduce_s = {}", rng.random_range(1..400)),
        format!("task_log_sd = {}", rng.random_range(0..2)),
        "remote_factor = 1.5".to_string(),
        "map_input_bytes = 1000".to_string(),
        format!("estimated_map_s = {}", rng.random_range(1..4000)),
        "straggler_fraction = 0.1".to_string(),
        "straggler_factor = 3".to_string(),
        "[applications.a.map]".to_string(),
        format!("cpu_hundredths = {}", rng.random_range(1..=100)),
        format!("memory_bytes = {}", rng.random_range(0..10)),
    ]);
    for job in 0..rng.random_range(1..4) {
        lines.extend([
            "[[job]]".to_string(),
            format!("name = \"j{job}\""),
            "application = \"a\"".to_string(),
            format!("submitted_s = {}", rng.random_range(0..3000)),
            format!("maps = {}", rng.random_range(1..20)),
            format!("reduces = {}", rng.random_range(0..3)),
            format!("weight = {}", rng.random_range(1..5)),
        ]);
        if rng.random_bool(0.6) {
            lines.push(format!("goal_s = {}", rng.random_range(0..30_000)));
        }
        if job > 0 && rng.random_bool(0.4) {
            lines.push("after = \"j0\"".to_string());
        }
    }
    if rng.random_bool(0.4) {
        lines.extend([
            "[[loss]]".to_string(),
            "node = 0".to_string(),
            format!("at_s = {}", rng.random_range(0..5000)),
        ]);
    }
    if rng.random_bool(0.5) {
        lines.extend([
            "[workload]".to_string(),
            "application = \"a\"".to_string(),
            "span_s = 9000".to_string(),
            format!("jobs = {}", rng.random_range(1..10)),
            "maps_mean = 4".to_string(),
            "maps_log_sd = 1".to_string(),
            "goal_factor = [1.5, 8.0]".to_string(),
            "reduces_per_map = 0.3".to_string(),
            "burst_jobs_mean = 2".to_string(),
            "estimate_factor = [0.5, 2]".to_string(),
        ]);
    }
    lines
}

/// Runs the scenario under its policies. No number of a report may be infinite or not a
/// number.
fn run(scenario: &Scenario, text: &str) {
    for point in &scenario.points {
        let Ok((config, jobs)) = point.draw(scenario.seed) else {
            continue;
        };
        for policy in &scenario.policies {
            let policy = policy_by_name(policy).unwrap();
            let report = simulate(&config, jobs.clone(), policy.as_ref()).unwrap();
            let metrics = Metrics::of(&report);
            let shown = format!("{metrics:?} {:?} {:?}", report.jobs, report.window_s);
            let shown = format!("{shown} {:?}", report.tasks);
            assert!(
                !shown.contains("NaN") && !shown.contains("inf"),
                "{text}\n{shown}"
            );
            for job in report.jobs.iter().filter(|job| job.finished_s.is_none()) {
                assert_eq!(job.met, job.job.goal_s.map(|_| false), "{text}");
            }
        }
        let bound = crate::planning::offline_bound(&config, &jobs);
        assert!(bound.missed <= bound.jobs, "{text}");
    }
}

#[test]
fn a_random_scenario_runs_and_a_broken_one_is_refused_with_its_line_or_runs() {
    let test = "a_random_scenario_runs_and_a_broken_one_is_refused_with_its_line_or_runs";
    for_seeds(test, 20, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let good = lines(&mut rng);
        let text = good.join("\n");
        let scenario = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        run(&scenario, &text);
        for _ in 0..20 {
            let mut broken = good.clone();
            let at = rng.random_range(0..broken.len());
            let Some((name, _)) = good[at].split_once(" = ") else {
                continue;
            };
            broken[at] = format!("{name} = {}", BROKEN[rng.random_range(0..BROKEN.len())]);
            let text = broken.join("\n");
            match parse(&text) {
                Ok(scenario) => run(&scenario, &text),
                Err(error) => assert!(error.line().is_some(), "{error}\n{text}"),
            }
        }
    });
}
