//! Scenario files and what is built from them, and the errors of invalid ones.

mod malformed;
mod random;

use super::*;
use crate::sim::{Metrics, simulate};
use ebb_test_support::cases::parse_cases;

const DAY: &str = r#"
title = "A day with two jobs"
policies = ["fifo", "reverse-adaptive"]
replicas = 3
seed = 7

[run]
cycle_s = 60

[[nodes]]
count = 100

[availability]
kind = "burstiness"
level = 3

[applications.scan]
map_s = 300

[[job]]
name = "J1"
application = "scan"
maps = 4000
goal_s = 23400

[[job]]
application = "scan"
submitted_s = 60
maps = 200
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("day.toml", text)
}

/// Checks cases of a text in the valid `file`, an invalid one in its place, and the start of the
/// error behind the name of the file. `\n` is the end of a line in both texts.
pub(super) fn check_errors<T: std::fmt::Debug>(
    file: &str,
    cases: &str,
    parse: impl Fn(&str, &str) -> Result<T, ScenarioError>,
) {
    for [good, bad, expected] in parse_cases(cases) {
        let [good, bad] = [good, bad].map(|text| text.replace(r"\n", "\n"));
        let text = file.replacen(&good, &bad, 1);
        assert_ne!(text, file, "{good}");
        let error = parse("x.toml", &text).expect_err(&bad);
        let expected = format!("x.toml, {expected}");
        assert!(error.to_string().starts_with(&expected), "{bad}: {error}");
    }
}

/// Checks that the file is refused, with an error that contains `expected`.
#[track_caller]
fn assert_refused(text: &str, expected: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_file_determines_cluster_jobs_and_policies() {
    let scenario = parse(DAY).unwrap();
    assert_eq!(scenario.title, "A day with two jobs");
    assert_eq!(scenario.policies, ["fifo", "reverse-adaptive"]);
    assert_eq!((scenario.replicas, scenario.seed), (3, 7));
    let [point] = &scenario.points[..] else {
        panic!("one point without a sweep")
    };
    assert_eq!(point.job_name(JobId(1)), Some("J1"));
    assert_eq!(point.job_name(JobId(2)), None);
    let (config, jobs) = point.draw(7).unwrap();
    assert_eq!(config.nodes.len(), 100);
    assert_eq!(config.cycle_s, 60.0);
    assert!((config.availability.at(6.0 * 3600.0) - 9500.0).abs() < 1e-6);
    assert_eq!(jobs[0].job.goal_s, Some(23_400.0));
    assert_eq!((jobs[1].job.submitted_s, jobs[1].job.goal_s), (60.0, None));
    let policy = policy_by_name("reverse-adaptive").unwrap();
    let report = simulate(&config, jobs, policy.as_ref()).unwrap();
    assert_eq!(Metrics::of(&report).missed, 0);
}

#[test]
fn a_sweep_is_every_combination() {
    let text =
        format!("{DAY}\n[sweep]\n\"job[0].maps\" = [1, 2]\n\"nodes[0].count\" = [5, 6, 7]\n");
    let scenario = parse(&text).unwrap();
    let drawn: Vec<(u32, usize)> = (scenario.points.iter())
        .map(|point| {
            let (config, jobs) = point.draw(0).unwrap();
            (jobs[0].maps, config.nodes.len())
        })
        .collect();
    assert_eq!(drawn, [(1, 5), (1, 6), (1, 7), (2, 5), (2, 6), (2, 7)]);
    let set = &scenario.points[5].set;
    assert_eq!(set[0], ("job[0].maps".to_string(), "2".to_string()));
}

/// Each case replaces a valid line by an invalid one, and has the expected error. `\n` is the end
/// of a line.
#[test]
fn errors_name_file_line_and_field() {
    let cases = r#"
        count = 100 => count = 0 => day.toml, line 11, nodes[0].count: must be at least 1
        map_s = 300 => map_s = -3.0
        => day.toml, line 18, applications.scan.map_s: must be positive and finite, got -3
        map_s = 300 => map_s = nan
        => day.toml, line 18, applications.scan.map_s: must be positive and finite, got NaN
        goal_s = 23400 => goal_s = -1.0
        => day.toml, line 24, job[0].goal_s: must be finite and not negative, got -1
        level = 3 => level = 4
        => day.toml, line 15, availability.level: there is no level 4; they are 0 to 3
        cycle_s = 60 => cycle_s = 0
        => day.toml, line 8, run.cycle_s: must be positive and finite, got 0
        kind = "burstiness"\nlevel = 3 => kind = "constant"\nfraction = 1.2
        => day.toml, line 15, availability.fraction: is 1.2: more than all of the nodes, which is 1
        level = 3 => level = 3\n[forecast_error]\nlog_sd = 0.0\ncorrelation_s = 60
        => day.toml, line 17, forecast_error.log_sd: must be positive and finite, got 0
        level = 3 => level = 3\n[forecast_error]\nlog_sd = 0.3\ncorrelation_s = 60\nquantile = 1.0
        => day.toml, line 19, forecast_error.quantile: between 0.01 and 0.99, got 1
        application = "scan"\nmaps => application = "scam"\nmaps
        => day.toml, line 22, job[0].application: there is no [applications.scam]
    "#;
    for [good, bad, expected] in parse_cases(cases) {
        let [good, bad] = [good, bad].map(|text| text.replace(r"\n", "\n"));
        let error = parse(&DAY.replacen(&good, &bad, 1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(error.line().is_some() && error.field().is_some());
    }
}

#[test]
fn unknown_missing_and_misspelt_fields_are_named_with_their_line() {
    // The line that replaces a valid one, the number of the line in the error, and two parts of it.
    let cases = r#"
        count = 100 => cuont = 100 => 11 => nodes[0].cuont => unknown field `cuont`
        maps = 4000 => # => 20 => job[0] => missing field `maps`
        maps = 4000 => maps = "many" => 23 => job[0].maps => invalid type
        seed = 7 => seed = = 7 => 5 => day.toml => line 5
    "#;
    for [good, bad, line, first, second] in parse_cases(cases) {
        let error = parse(&DAY.replacen(good, bad, 1)).unwrap_err();
        assert_eq!(error.line(), line.parse().ok(), "{error}");
        for part in [first, second] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    // What the whole file lacks was once named as a part of its first field.
    let error = parse("seed = 7\n").unwrap_err();
    assert_eq!(error.field(), None, "{error}");
    let text = DAY.replace("\"fifo\"", "\"lottery\"");
    assert_refused(&text, "line 3, policies[0]: there is no policy \"lottery\"");
}

#[test]
fn a_sweep_of_missing_fields_or_invalid_values_is_refused() {
    let text = format!("{DAY}\n[sweep]\n\"job[0].size\" = [1]\n");
    assert_refused(&text, "no field job[0].size to vary");
    let text = format!("{DAY}\n[sweep]\n\"nodes[0].count\" = [1, 0]\n");
    let expected = "nodes[0].count: must be at least 1 (with nodes[0].count = 0)";
    assert_refused(&text, expected);
}

#[test]
fn a_workload_generates_the_configured_load() {
    let text = r#"
[[nodes]]
count = 100
[applications.a]
map_s = 387
[workload]
span_s = 604800
load = 1.0
maps_mean = 62
maps_log_sd = 1.55
goal_factor = [1.5, 4.0]
application = "a"
"#;
    let scenario = parse(text).unwrap();
    let (_, jobs) = scenario.points[0].draw(1).unwrap();
    // 100 * 604800 / (62 * 387) = 2521 jobs on average.
    assert!((2370..2670).contains(&jobs.len()), "{}", jobs.len());
    let all = crate::policy::descriptors().len();
    assert_eq!(scenario.policies.len(), all, "all policies by default");
    let both = text.replace("load = 1.0", "load = 1.0\njobs = 3");
    assert_refused(&both, "either load or jobs");
}

/// Four hours of a load that takes a quarter, half, all and none of the nodes.
const LOAD: &str = "time,value\n7200,30\n10800,60\n14400,120\n18000,0\n";

/// Returns the day with the trace of a load, and with `more` lines about the trace.
fn with_trace(more: &str) -> String {
    DAY.replace(
        "kind = \"burstiness\"\nlevel = 3",
        &format!("kind = \"trace\"\nfile = \"load.csv\"\nwhole = 120\n{more}"),
    )
}

fn parse_with_trace(load: &str, more: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse_with("day.toml", &with_trace(more), &|name| match name {
        "load.csv" => Ok(load.to_string()),
        _ => Err(format!("there is no {name}")),
    })
}

#[test]
fn a_trace_of_the_load_leaves_the_rest_of_the_nodes() {
    let scenario = parse_with_trace(LOAD, "").unwrap();
    let (config, _) = scenario.points[0].draw(0).unwrap();
    let left: Vec<f64> = (0..5)
        .map(|hour| config.availability.at(f64::from(hour) * 3600.0))
        .collect();
    assert_eq!(left, [7500.0, 5000.0, 0.0, 10_000.0, 10_000.0]);
}

/// The simulation begins a quarter of an hour after the trace's first value. The trace's value of
/// 121 is lowered to 120, which stands for all nodes.
#[test]
fn a_trace_may_begin_later_and_be_clipped() {
    let with = |more| parse_with_trace("0,30\n3600,60\n7200,121\n", more);
    let scenario = with("clip = true\nfrom_s = 900").unwrap();
    let (config, _) = scenario.points[0].draw(0).unwrap();
    let left = [0.0, 2699.0, 2700.0, 6300.0].map(|t_s| config.availability.at(t_s));
    assert_eq!(left, [7500.0, 7500.0, 5000.0, 0.0]);
    let error = with("clip = true\nfrom_s = 7201").unwrap_err().to_string();
    assert!(
        error.contains("between 0 and the last value, 7200 s"),
        "{error}"
    );
}

#[test]
fn a_trace_with_a_gap_a_duplicate_or_a_wrong_number_is_refused() {
    let cases = r"
        7200,30\n10800,60\n18000,0\n21600,1\n
        => load.csv: nothing was measured at 14400 s, with values 3600 s apart
        7200,30\n7200,60\n => load.csv, line 2: value 1 has the same time as the one before it
        7200,30\n10800,inf\n => load.csv, line 2: value 1 is inf at 10800 s
        7200,30\n10800,121\n => load.csv: 121 at 10800 s is more than all of the nodes, 120
    ";
    for [load, expected] in parse_cases(cases) {
        let load = load.replace(r"\n", "\n");
        let error = parse_with_trace(&load, "").unwrap_err().to_string();
        let place = format!("day.toml, line 13, availability: {expected}");
        assert!(error.starts_with(&place), "{error}");
    }
    assert_refused(&with_trace(""), "load.csv cannot be read from here");
}

#[test]
fn a_job_that_comes_after_another_counts_from_its_end() {
    let follower =
        "name = \"J2\"\nafter = \"J1\"\ngoal_s = 9000\napplication = \"scan\"\nsubmitted_s";
    let text = DAY.replace("application = \"scan\"\nsubmitted_s", follower);
    let scenario = parse(&text).unwrap();
    let (config, jobs) = scenario.points[0].draw(0).unwrap();
    let policy = policy_by_name("fifo").unwrap();
    let report = simulate(&config, jobs, policy.as_ref()).unwrap();
    let (first, second) = (&report.jobs[0], &report.jobs[1]);
    let submitted_s = first.finished_s.unwrap() + 60.0;
    assert_eq!(second.job.submitted_s, submitted_s);
    assert_eq!(second.job.goal_s, Some(submitted_s + 9000.0));
    assert!(second.started_s.unwrap() >= submitted_s && second.met == Some(true));

    for (name, expected) in [
        ("J2", "line 28, job[1].after: jobs that wait for each other"),
        ("J3", "line 28, job[1].after: there is no job called \"J3\""),
    ] {
        let text = text.replace("after = \"J1\"", &format!("after = \"{name}\""));
        assert_refused(&text, expected);
    }
}
