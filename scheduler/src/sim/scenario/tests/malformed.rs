//! Invalid files: each is refused with an error that names the line and the field.

use super::*;

/// A valid file with one line for each field, so that line numbers identify fields.
const FILE: &str = r#"policies = ["fair", "ras"]
replicas = 2
[run]
cycle_s = 60
horizon_s = 100000
measure_from_s = 0
measure_until_s = 90000
shares_every_s = 600
replicas = 1
[[nodes]]
count = 4
cpu_hundredths = 200
memory_bytes = 1000
[availability]
kind = "sine-day"
mean = 0.5
amplitude = 0.3
peak_at_s = 64800
[applications.scan]
map_s = 60
reduce_s = 30
task_log_sd = 0.5
map = { cpu_hundredths = 100, memory_bytes = 600 }
reduce = { cpu_hundredths = 100 }
[[job]]
name = "a"
application = "scan"
submitted_s = 600
goal_s = 9000
maps = 10
reduces = 2
[[job]]
name = "b"
application = "scan"
after = "a"
maps = 5
weight = 2
[[loss]]
node = 3
at_s = 5000
back_s = 9000
[workload]
application = "scan"
span_s = 50000
jobs = 20
maps_mean = 4
maps_log_sd = 0.5
goal_factor = [1.5, 8.0]
[sweep]
"job[0].maps" = [10, 20]
"#;

#[test]
fn the_file_that_the_cases_change_is_valid() {
    let scenario = Scenario::parse("x.toml", FILE).unwrap();
    assert_eq!(scenario.points.len(), 2);
    for point in &scenario.points {
        let (config, jobs) = point.draw(1).unwrap();
        for policy in &scenario.policies {
            let policy = policy_by_name(policy).unwrap();
            let report = simulate(&config, jobs.clone(), policy.as_ref()).unwrap();
            assert!(report.jobs[1].finished_s.is_some(), "{}", policy.name());
        }
    }
}

#[test]
fn tasks_that_fit_no_node_are_refused_for_each_resource_kind_and_policy() {
    let large = "map = { cpu_hundredths = 100, memory_bytes = 1001 }";
    let small = "map = { cpu_hundredths = 100, memory_bytes = 600 }";
    let cases = r"
        memory_bytes = 600 => memory_bytes = 1001
        => line 23, applications.scan.map.memory_bytes: a map of scan needs 1001 bytes of memory, and no node has more than 1000
        reduce = { cpu_hundredths = 100 } => reduce = { cpu_hundredths = 201 }
        => line 24, applications.scan.reduce.cpu_hundredths: a reduce of scan needs 201
        cpu_hundredths = 200 => cpu_hundredths = 99
        => line 23, applications.scan.map.cpu_hundredths: a map of scan needs 100
        count = 4 => count = 4\nmap_slots = 2
        => line 10, nodes[0].reduce_slots: under fair, a reduce of scan needs a slot
        count = 4 => count = 4\nreduce_slots = 2
        => line 10, nodes[0].map_slots: under fair, a map of scan needs a slot for maps
    ";
    check_errors(FILE, cases, Scenario::parse);
    // The first kind of nodes has too little I/O for the task, the second too little CPU.
    let kinds = FILE.replace(
        "memory_bytes = 1000\n",
        "memory_bytes = 1000\nio_bytes_per_s = 5\n[[nodes]]\ncount = 1\ncpu_hundredths = 50\n",
    );
    let kinds = kinds.replace(
        small,
        "map = { cpu_hundredths = 100, io_bytes_per_s = 6, memory_bytes = 600 }",
    );
    let error = Scenario::parse("x.toml", &kinds).unwrap_err().to_string();
    let expected =
        "x.toml, line 27, applications.scan.map: no node has all that a map of scan needs";
    assert!(error.starts_with(expected), "{error}");
    // `fair` counts slots in place of resources, `ras` counts resources.
    let slots = FILE.replace(
        "count = 4\n",
        "count = 4\nmap_slots = 2\nreduce_slots = 2\n",
    );
    let slots = slots.replace(small, large);
    let error = Scenario::parse("x.toml", &slots).unwrap_err().to_string();
    assert!(
        error.contains("under ras, a map of scan needs 1001"),
        "{error}"
    );
    let fair = slots.replace("[\"fair\", \"ras\"]", "[\"fair\"]");
    let mut fair = Scenario::parse("x.toml", &fair).unwrap();
    let error = fair.check_policy("ras").unwrap_err().to_string();
    assert!(
        error.contains("under ras, a map of scan needs 1001"),
        "{error}"
    );
    assert!(fair.set_policies(vec!["adaptive".into()]).is_ok());
    assert!(fair.set_policies(vec!["forecast-edf".into()]).is_err());
    // The demand of reduces does not matter if no job has a reduce.
    let without = FILE.replace("reduces = 2\n", "reduces = 0\n");
    let without = without.replace(
        "reduce = { cpu_hundredths = 100 }",
        "reduce = { cpu_hundredths = 900 }",
    );
    assert!(Scenario::parse("x.toml", &without).is_ok());
}

/// Each case has a valid line, an invalid one in its place, and the start of the error.
#[test]
fn each_malformed_file_is_refused_with_its_line_and_field() {
    let cases = r#"
        // Names that occur twice or are unknown.
        ["fair", "ras"] => ["fair", "fair"] => line 1, policies[1]: "fair" is named twice
        name = "b" => name = "a" => line 33, job[1].name: job[0] is called "a" too
        name = "b" => name = " " => line 33, job[1].name: " " is no name
        after = "a" => after = "c" => line 35, job[1].after: there is no job called "c"
        after = "a" => after = "b" => line 35, job[1].after: jobs that wait for each other
        node = 3 => node = 4 => line 39, loss[0].node: there is no node 4; they count from 0 to 3
        "job[0].maps" => "job[2].maps"
        => line 50, sweep.job[2].maps: the file has no field job[2].maps
        [10, 20] => [] => line 50, sweep.job[0].maps: makes 0 combinations; from 1 to 10000
        // Times that contradict others.
        measure_from_s = 0 => measure_from_s = 100000
        => line 6, run.measure_from_s: is 100000; nothing is measured from run.horizon_s on
        measure_from_s = 0 => measure_from_s = 90000
        => line 7, run.measure_until_s: is 90000; must lie after measure_from_s, 90000
        measure_until_s = 90000 => measure_until_s = 100001
        => line 7, run.measure_until_s: is 100001; must not lie after run.horizon_s, 100000
        submitted_s = 600 => submitted_s = 100001
        => line 28, job[0].submitted_s: is 100001, so that the job could start at 100020 s
        span_s = 50000 => span_s = 100001
        => line 44, workload.span_s: is 100001, so that jobs arrive after run.horizon_s
        at_s = 5000 => at_s = 100001
        => line 40, loss[0].at_s: is 100001; must not lie after run.horizon_s
        back_s = 9000 => back_s = 5000
        => line 41, loss[0].back_s: is 5000; must lie after at_s, 5000
        // Sizes beyond bounds.
        count = 4 => count = 4000000000 => line 11, nodes[0].count: is 4000000000; at most 100000
        cpu_hundredths = 200 => cpu_hundredths = 1000001
        => line 12, nodes[0].cpu_hundredths: is 1000001; at most 1000000
        maps = 5 => maps = 9999995
        => line 36, job[1].maps: 10000007 tasks with the jobs above; at most 10000000
        reduces = 2 => reduces = 4000000000
        => line 31, job[0].reduces: 4000000010 tasks with the jobs above; at most 10000000
        jobs = 20 => jobs = 100001 => line 45, workload.jobs: is 100001; at most 100000
        jobs = 20 => jobs = 100000
        => line 42, workload: makes about 100002 jobs with the listed jobs; at most 100000
        jobs = 20 => load = 900000 => line 45, workload.load: makes about
        maps_mean = 4 => maps_mean = 600000 => line 46, workload.maps_mean: makes about 1200001
        cycle_s = 60 => cycle_s = 0.001
        => line 4, run.cycle_s: makes 100000000 control cycles until run.horizon_s; at most 10000000
        horizon_s = 100000 => horizon_s = 1e18
        => line 5, run.horizon_s: is 1000000000000000000; at most 1000000000
        replicas = 2 => replicas = 4000000000 => line 2, replicas: is 4000000000; at most 10000
        // Values that are not numbers, or are out of range.
        cycle_s = 60 => cycle_s = inf => line 4, run.cycle_s: must be positive and finite, got inf
        cycle_s = 60 => cycle_s = -60 => line 4, run.cycle_s: must be positive and finite, got -60
        shares_every_s = 600 => shares_every_s = nan
        => line 8, run.shares_every_s: must be finite and not negative, got NaN
        cpu_hundredths = 200 => cpu_hundredths = 0
        => line 12, nodes[0].cpu_hundredths: must be at least 1
        map = { cpu_hundredths = 100, => map = { cpu_hundredths = 0,
        => line 23, applications.scan.map.cpu_hundredths: must be at least 1
        mean = 0.5 => mean = -0.1
        => line 16, availability.mean: must be finite and not negative, got -0.1
        amplitude = 0.3 => amplitude = 0.6
        => line 17, availability.amplitude: mean + amplitude is 1.1: more than all
        peak_at_s = 64800 => peak_at_s = nan => line 18, availability.peak_at_s: must be finite
        map_s = 60 => map_s = 1e300 => line 20, applications.scan.map_s: is 1
        map_s = 60 => map_s = 1e-300 => line 20, applications.scan.map_s: must be at least 0.000001
        reduce_s = 30 => reduce_s = 0
        => line 21, applications.scan.reduce_s: must be positive and finite, got 0
        task_log_sd = 0.5 => task_log_sd = 50
        => line 22, applications.scan.task_log_sd: is 50; at most 5
        goal_s = 9000 => goal_s = 1e300 => line 29, job[0].goal_s: is 1
        weight = 2 => weight = 0 => line 37, job[1].weight: must be positive and finite, got 0
        weight = 2 => weight = 1e9 => line 37, job[1].weight: is 1000000000; at most 1000000
        maps_log_sd = 0.5 => maps_log_sd = 5.5 => line 47, workload.maps_log_sd: is 5.5; at most 5
        goal_factor = [1.5, 8.0] => goal_factor = [8.0, 1.5]
        => line 48, workload.goal_factor: must be two positive numbers, the smaller one first
        goal_factor = [1.5, 8.0] => burst_jobs_mean = 1e300
        => line 48, workload.burst_jobs_mean: is 1
        goal_factor = [1.5, 8.0] => maps_pareto = 1.0
        => line 48, workload.maps_pareto: a tail index must be above 1, got 1
        goal_factor = [1.5, 8.0] => other_map_s = [[0.5, 60], [0.6, 60]]
        => line 48, workload.other_map_s: the parts of the jobs are 1.1 together; at most 1
        goal_factor = [1.5, 8.0] => other_map_s = [[0.5, 60], [0.5, nan]]
        => line 48, workload.other_map_s[1]: must be positive and finite, got NaN
    "#;
    // `\n` is the end of a line.
    let with_lines = r#"
        name = "b"
        => name = "job-3"\napplication = "scan"\nmaps = 1\n[[job]]\nmaps = 1\napplication = "scan"\n[[job]]\nname = "b"
        => line 33, job[1].name: job[2] is called "job-3" too
        [applications.scan] => [applications.scan]\nmap_s = 1\n[applications.scan] => line 21
        [workload]\napplication = "scan" => [workload]\napplication = "scam"
        => line 43, workload.application: there is no [applications.scam]
        [sweep] => [sweep]\nseed = [1, 2] => line 50, sweep.seed: seed is the same at all points
        count = 4\n => count = 60000\n[[nodes]]\ncount = 60000\n
        => line 13, nodes[1].count: 120000 nodes with those above; at most 100000
        count = 4\ncpu_hundredths = 200 => count = 5000\ncpu_hundredths = 1000000
        => line 12, nodes[0].cpu_hundredths: all nodes together have 5000000000 hundredths
        count = 4\n => count = 4\nmap_slots = 10001\n
        => line 12, nodes[0].map_slots: is 10001; at most 10000
        [[job]]\nname = "b"
        => [applications.wide]\nmap_s = 1\nreplicas = 4\n[[job]]\napplication = "wide"\nmaps = 9000000\n[[job]]\nname = "b"
        => line 37, job[1].maps: the splits of the jobs up to this one have 36000010 copies
        cycle_s = 60\nhorizon_s = 100000\nmeasure_from_s = 0\nmeasure_until_s = 90000\nshares_every_s = 600
        => cycle_s = 0.05\nhorizon_s = 100000\nmeasure_from_s = 0\nmeasure_until_s = 90000\nshares_every_s = 0
        => line 8, run.shares_every_s: makes 2000000 samples until run.horizon_s; at most 1000000
        [10, 20]
        => [10, 20]\n"run.cycle_s" = [60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70]\n"job[0].goal_s" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n"job[1].maps" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n"job[0].weight" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        => line 51, sweep.run.cycle_s: makes
        peak_at_s = 64800 => peak_at_s = 64800\nday_s = 1e-300
        => line 19, availability.day_s: must be at least 1
        maps = 5\n => maps = -5\n => line 36, job[1].maps:
        maps = 5\n => maps = 5000000000\n => line 36, job[1].maps:
        [[loss]] => [applications.unused]\nmap_s = -1\n[[loss]]
        => line 39, applications.unused.map_s: must be positive and finite, got -1
    "#;
    check_errors(FILE, cases, Scenario::parse);
    check_errors(FILE, with_lines, Scenario::parse);
    // The name has an escape, not the end of a line.
    let text = FILE.replacen("name = \"b\"", r#"name = "b\nc""#, 1);
    let error = Scenario::parse("x.toml", &text).unwrap_err().to_string();
    let expected = r#"x.toml, line 33, job[1].name: "b\nc" is no name"#;
    assert!(error.starts_with(expected), "{error}");
}
