//! `ebb sim` and `ebb policies`.

use super::place::Place;

const DAY: &str = r#"
title = "A small day"
policies = ["fifo", "reverse-adaptive"]
replicas = 2
[run]
shares_every_s = 600
[[nodes]]
count = 10
[availability]
kind = "burstiness"
level = 3
[applications.scan]
map_s = 300
[[job]]
name = "late"
application = "scan"
maps = 300
[[job]]
name = "urgent"
application = "scan"
submitted_s = 60
maps = 30
goal_s = 3600
"#;

#[test]
fn all_policies_are_listed_with_their_papers() {
    let listed = Place::new().ebb("policies --json").json();
    let named = |runs: &str| -> Vec<&str> {
        let of = listed.as_array().unwrap().iter();
        of.filter(|policy| policy["runs"] == runs)
            .map(|policy| {
                assert!(!policy["paper"].as_str().unwrap().is_empty());
                policy["name"].as_str().unwrap()
            })
            .collect()
    };
    assert_eq!(
        named("live"),
        [
            "fifo",
            "fair",
            "delay",
            "adaptive",
            "adaptive-data",
            "adaptive-hardware",
            "ras",
            "reverse-adaptive",
            "forecast-edf",
            "huwf",
            "hjwf",
            "stf",
            "naive-fair",
            "jsq-maxweight-common",
            "jsq-maxweight",
            "pandas",
            "pandas-rack",
            "weighted-workload",
            "c-mu",
            "late-binding"
        ]
    );
    assert_eq!(named("sim queueing"), ["fluid"]);
}

const RACKS: &str = "
loads = [2.0]
slots = 2000
[cluster]
nodes = 4
rack_nodes = 2
local = 0.8
rack = 0.5
remote = 0.2
[[streams]]
tasks_per_slot = 1.0
from = 0
until = 1
replicas = 1
";

/// All data is on one of four nodes. A task ends in a time slot with the probability 0.8 on that
/// node, 0.5 on the other node of its rack, and 0.2 on each of the two nodes of the other rack. So
/// the four nodes end 1.7 tasks per slot at most.
#[test]
fn queues_have_a_capacity_and_policies_near_it() {
    let place = Place::new();
    place.write("racks.toml", RACKS);
    let capacity = place.ebb("sim capacity racks.toml --json").json();
    let at = capacity["tasks_per_slot"].as_f64().unwrap();
    assert!((at - 1.7).abs() < 1e-4, "{at}");
    assert!(
        place
            .ebb("sim capacity racks.toml")
            .ok()
            .contains("at most 1.700")
    );

    let run = place
        .ebb("sim queueing racks.toml --policy pandas,c-mu --load 0.5,3 --json")
        .json();
    let rows = run["rows"].as_array().unwrap();
    let stable: Vec<&serde_json::Value> = rows.iter().map(|row| &row["stable"]).collect();
    assert_eq!(stable, [true, true, false, false]);
    let table = place.ebb("sim queueing racks.toml --policy fluid").ok();
    assert!(
        table.contains("capacity 1.700") && table.contains("fluid"),
        "{table}"
    );

    place.write("bad.toml", RACKS.replace("until = 1", "until = 5"));
    let said = place.ebb("sim queueing bad.toml").fails(2);
    let place_of = "bad.toml, line 13, streams[0].until: from 0 until 5";
    assert!(said.contains(place_of), "{said}");
    place.write("day.toml", DAY);
    place
        .ebb("sim run day.toml --policy pandas,late-binding")
        .ok();
    place.ebb("sim run day.toml --policy fluid").fails(2);
    let said = place.ebb("sim queueing racks.toml --policy fifo").fails(2);
    assert!(said.contains("has no policy \"fifo\"; it has: "), "{said}");
    place.ebb("sim queueing racks.toml --load 0").refused();
}

/// Figure 1 of Ling et al.: with their algorithm MarS, job 2 ends at 175 s and job 1 at 250 s. The
/// output also has lower bounds for all schedules.
#[test]
fn jobs_known_in_advance_are_scheduled_beside_a_bound() {
    let place = Place::new();
    let figure_1 = "
        machines = 3
        [[jobs]]
        maps_s = [75, 75, 75, 75]
        reduces_s = [100, 100]
        [[jobs]]
        maps_s = [75]
        reduces_s = [100]
    ";
    place.write("figure-1.toml", figure_1);
    let run = place
        .ebb("sim msjo figure-1.toml --algorithm mars,stf --eps 0 --converge --json")
        .json();
    let rows = run["rows"].as_array().unwrap();
    assert_eq!(rows[0]["value"].as_f64(), Some(425.0));
    assert_eq!(rows[1]["objective"], "tasks");
    assert_eq!(run["bounds"].as_array().unwrap().len(), 4);
    for row in rows {
        assert!(row["over_bound"].as_f64().unwrap() >= 1.0 - 1e-6, "{row}");
    }
    let table = place.ebb("sim msjo --jobs 2 --seed 3 --tries 10").ok();
    assert!(table.starts_with("random jobs, seed 3: 2 jobs"), "{table}");
    assert!(table.contains("lp-search"), "{table}");

    place.write("bad.toml", figure_1.replace("machines = 3", "machines = 0"));
    let said = place.ebb("sim msjo bad.toml").fails(2);
    assert!(
        said.contains("bad.toml, line 2, machines: must be at least 1"),
        "{said}"
    );
    let said = place.ebb("sim msjo --algorithm fifo").fails(2);
    assert!(
        said.contains("no algorithm \"fifo\"; there are: mars, mares"),
        "{said}"
    );
    place.ebb("sim msjo figure-1.toml --jobs 3").refused();
    place.ebb("sim msjo --eps 1").refused();
}

#[test]
fn a_scenario_gives_a_table_json_and_a_report() {
    let place = Place::new();
    place.write("day.toml", DAY);
    let table = place.ebb("sim run day.toml --report out").ok();
    assert!(table.contains("A small day (2 replicas"), "{table}");
    assert!(place.read("out/report.html").contains("<svg"));
    assert!(place.read("out/shares-1-fifo.svg").ends_with("</svg>\n"));

    let json = place.ebb("sim run day.toml --json").json();
    let policies = &json["points"][0]["policies"];
    let urgent = |policy: usize| &policies[policy]["jobs"][1];
    assert_eq!(urgent(0)["name"], "urgent");
    assert_eq!(
        urgent(0)["met"],
        false,
        "the first in has all nodes for hours"
    );
    assert_eq!(urgent(1)["met"], true);
    assert_eq!(policies[1]["missed_fraction"]["mean"], 0.0);
    assert_eq!(policies[0]["replicas"].as_array().unwrap().len(), 2);

    let one = place.ebb("sim run day.toml --policy ras --replicas 1 --json-file x.json");
    one.ok();
    let json: serde_json::Value = serde_json::from_str(&place.read("x.json")).unwrap();
    assert_eq!(json["points"][0]["policies"][0]["policy"], "ras");
}

#[test]
fn a_wrong_scenario_is_exit_code_2_and_named_with_its_line() {
    let place = Place::new();
    place.write("day.toml", DAY.replace("maps = 300", "maps = 0"));
    let said = place.ebb("sim run day.toml").fails(2);
    assert!(
        said.contains("day.toml, line 17, job[0].maps: must be at least 1"),
        "{said}"
    );
    place.write("day.toml", DAY);
    place.ebb("sim run day.toml --policy lottery").fails(2);
    assert_eq!(place.ebb("sim run day.toml --replicas 0").code, 2);
    place.ebb("sim run none.toml").fails(1);
    place.ebb("sim experiments none").fails(2);
}

/// A scenario whose only job has a task that fits on no node.
const NEVER_FITS: &str = r#"title = "a task that no node can hold"
policies = ["fifo", "reverse-adaptive", "forecast-edf"]
seed = 1

[run]
cycle_s = 30
measure_from_s = 0
measure_until_s = 86400
horizon_s = 86400

[[nodes]]
count = 2
cpu_hundredths = 200

[applications.scan]
map_s = 60
map = { cpu_hundredths = 300 }

[[job]]
name = "a"
application = "scan"
submitted_s = 0
maps = 10
"#;

/// Regression: [`NEVER_FITS`] ended with exit code 0, "missed 0.0%" and "took s 0". A scenario with
/// a thousand million maps was aborted while it allocated 8 GB.
#[test]
fn what_can_never_run_and_what_is_too_large_is_refused_with_file_line_and_field() {
    let place = Place::new();
    place.write("never-fits.toml", NEVER_FITS);
    for command in ["run", "plan", "advice --replicas 2"] {
        let (command, options) = command.split_once(' ').unwrap_or((command, ""));
        let line = format!("sim {command} never-fits.toml {options}");
        let said = place.ebb(&line).fails(2);
        let refused = "never-fits.toml, line 17, applications.scan.map.cpu_hundredths: a map of scan \
                       needs 300 hundredths of a core, and no node has more than 200: it could never \
                       run; ask for less, or give nodes more";
        assert!(said.contains(refused), "{said}");
    }
    let fits = NEVER_FITS.replace("= 300", "= 200");
    place.write("many.toml", fits.replace("maps = 10", "maps = 1000000000"));
    let said = place.ebb("sim run many.toml").fails(2);
    let place_of = "many.toml, line 23, job[0].maps: is 1000000000; at most 10000000";
    assert!(said.contains(place_of), "{said}");

    // Options that override the file are bounded as well.
    place.write("fits.toml", &fits);
    place.ebb("sim run fits.toml").ok();
    place
        .ebb("sim run fits.toml --replicas 4000000000")
        .refused();
    place
        .ebb("sim experiments motivation --replicas 4000000000")
        .refused();
    place
        .ebb("sim queueing --slots 9000000000000000000")
        .refused();
    let said = place.ebb("sim run fits.toml --policy fifo,fifo").fails(2);
    assert!(said.contains("\"fifo\" is named twice"), "{said}");
    let slots = fits.replace("count = 2\n", "count = 2\nmap_slots = 2\n");
    let slots = slots.replace("= 200 }", "= 300 }");
    let slots = slots.replace(
        "[\"fifo\", \"reverse-adaptive\", \"forecast-edf\"]",
        "[\"fifo\"]",
    );
    place.write("slots.toml", slots);
    place.ebb("sim run slots.toml").ok();
    let said = place.ebb("sim run slots.toml --policy ras").fails(2);
    assert!(
        said.contains("under ras, a map of scan needs 300"),
        "{said}"
    );
    place.ebb("sim plan slots.toml").fails(2);
    place.ebb("sim plan slots.toml --policy fifo").ok();
}

/// The job takes longer than the simulated time.
#[test]
fn what_never_ended_has_a_dash_in_text_and_null_in_json() {
    let place = Place::new();
    let never = NEVER_FITS.replace("= 300", "= 200");
    let never = never.replace("map_s = 60", "map_s = 90000");
    place.write("never.toml", &never);
    let line = "sim run never.toml --policy fifo --report out";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&place.ebb(line).ok());
    // A job without a goal counts neither as missed nor as met.
    assert!(
        text.contains("fifo 1 - - - - - - - 100.0% 100.0% -"),
        "{text}"
    );
    assert!(text.contains("fifo a 0 - - - - -"), "{text}");
    let page = place.read("out/report.html");
    assert!(page.contains("<tr><td>fifo<td>-<td>-<td>-"), "{page}");
    let json = place.ebb("sim run never.toml --policy fifo --json").json();
    let policy = &json["points"][0]["policies"][0];
    for field in ["missed_fraction", "beyond_s", "distance_s", "makespan_s"] {
        assert!(policy[field].is_null(), "{field}: {policy}");
    }
    let job = &policy["jobs"][0];
    for field in ["took_s", "finished_s", "met_fraction", "met"] {
        assert!(job[field].is_null(), "{field}: {job}");
    }

    place.write(
        "goal.toml",
        never.replace("maps = 10", "maps = 10\ngoal_s = 90000"),
    );
    let text = words(&place.ebb("sim run goal.toml --policy fifo").ok());
    assert!(text.contains("fifo 1 100.0% - - 0.00 - "), "{text}");
    assert!(text.contains("fifo a 0 90000 - - - 0%"), "{text}");
    let plan = words(&place.ebb("sim plan goal.toml --policy fifo").ok());
    assert!(plan.contains("a 0 90000 - - 0% at risk"), "{plan}");
}

#[test]
fn the_motivating_example_is_as_in_the_thesis() {
    let place = Place::new();
    let listed = place.ebb("sim experiments").ok();
    assert!(
        listed.contains("motivation") && listed.contains("5.21"),
        "{listed}"
    );
    let scenario = place.ebb("sim experiments motivation --scenario").ok();
    place.write("motivation.toml", scenario);
    let json = place
        .ebb("sim run motivation.toml --policy reverse-adaptive --json")
        .json();
    let jobs = json["points"][0]["policies"][0]["jobs"].as_array().unwrap();
    assert!(jobs.iter().all(|job| job["met"] == true), "{jobs:?}");
}

#[test]
fn a_formula_is_an_experiment_with_a_table_and_a_picture() {
    let place = Place::new();
    let table = place.ebb("sim experiments acceleration --report out").ok();
    assert!(table.contains("160%  16%  22%  28%  34%  40%"), "{table}");
    let svg = place.read("out/acceleration/acceleration.svg");
    assert!(svg.ends_with("</svg>\n"), "{svg}");
    assert!(place.read("out/acceleration/report.html").contains("<svg"));
    let said = place
        .ebb("sim experiments acceleration --scenario")
        .fails(2);
    assert!(said.contains("has no scenario"), "{said}");
}

#[test]
fn a_trace_lies_beside_its_scenario() {
    let place = Place::new();
    let traced = DAY.replace(
        "kind = \"burstiness\"\nlevel = 3",
        "kind = \"trace\"\nfile = \"load.csv\"\nwhole = 120",
    );
    place.write("day.toml", traced);
    place.write("load.csv", "time,value\n0,60\n3600,60\n");
    let json = place.ebb("sim run day.toml --policy fifo --json").json();
    // 330 maps of 300 s on 5 of the 10 nodes.
    assert_eq!(
        json["points"][0]["policies"][0]["makespan_s"]["mean"],
        19_800.0
    );
    let plan = place.ebb("sim plan day.toml --policy fifo --json").json();
    let jobs = plan["jobs"].as_array().unwrap();
    let ends = jobs.iter().map(|job| job["finish_s"].as_f64().unwrap());
    assert_eq!(ends.fold(0.0, f64::max), 19_800.0, "{plan}");
    place.write("load.csv", "time,value\n0,60\n0,60\n");
    let said = place.ebb("sim run day.toml").fails(2);
    assert!(
        said.contains(
            "day.toml, line 9, availability: load.csv, line 3: value 1 has the same time"
        ),
        "{said}"
    );
}

#[test]
fn a_quantile_of_the_load_is_set_in_the_file_or_on_the_command_line() {
    let place = Place::new();
    let with = |more: &str| {
        let error = "level = 3\n[forecast_error]\nlog_sd = 0.4\ncorrelation_s = 3600\n";
        DAY.replace("level = 3\n", &format!("{error}{more}"))
    };
    place.write("day.toml", with(""));
    place.write("careful.toml", with("quantile = 0.9\n"));
    let policies = |command: &str| place.ebb(command).json()["points"][0]["policies"].clone();
    let asked = "--policy forecast-edf --json";
    assert_eq!(
        policies(&format!("sim run day.toml --quantile 0.9 {asked}")),
        policies(&format!("sim run careful.toml {asked}"))
    );
    assert_eq!(place.ebb("sim run day.toml --quantile 1").code, 2);
    place.write("day.toml", DAY);
    let said = place.ebb("sim run day.toml --quantile 0.9").fails(2);
    assert!(said.contains("[forecast_error]"), "{said}");
}

/// A scenario whose jobs have 23 maps, while the ten nodes can finish only 20 of them before both
/// goals, 600 s.
const TONIGHT: &str = r#"
title = "Tonight"
[[nodes]]
count = 10
[applications.scan]
map_s = 300
[[job]]
name = "small"
application = "scan"
maps = 8
goal_s = 600
[[job]]
name = "large"
application = "scan"
maps = 15
goal_s = 600
"#;

#[test]
fn a_plan_names_the_jobs_at_risk_and_the_changes_that_save_them() {
    let place = Place::new();
    place.write("tonight.toml", TONIGHT);
    let text = place.ebb("sim plan tonight.toml").ok();
    assert!(
        text.contains("at risk") && text.contains("leaving small out"),
        "{text}"
    );

    let json = place.ebb("sim plan tonight.toml --json").json();
    let (small, large) = (&json["jobs"][0], &json["jobs"][1]);
    assert_eq!(small["name"], "small");
    assert_eq!(small["met_probability"], 1.0);
    assert_eq!(large["at_risk"], true);
    let later = (large["saved_by"].as_array().unwrap().iter())
        .find(|saving| saving["kind"] == "later-goal")
        .unwrap();
    assert!(later["goal_s"].as_f64().unwrap() >= 900.0, "{later}");
}

#[test]
fn a_job_that_others_come_after_is_not_left_out_alone() {
    let place = Place::new();
    let next = "[[job]]\nname = \"next\"\napplication = \"scan\"\nmaps = 5\nafter = \"small\"\n";
    place.write("tonight.toml", format!("{TONIGHT}{next}"));
    let text = place.ebb("sim plan tonight.toml").ok();
    assert!(text.contains("at risk"), "{text}");
    assert!(!text.contains("leaving small out"), "{text}");
}

#[test]
fn a_plan_that_cannot_be_made_is_exit_code_2() {
    let place = Place::new();
    place.write("tonight.toml", TONIGHT.replace("maps = 8", "maps = 0"));
    let said = place.ebb("sim plan tonight.toml").fails(2);
    assert!(
        said.contains("tonight.toml, line 10, job[0].maps: must be at least 1"),
        "{said}"
    );
    let swept = format!("{TONIGHT}[sweep]\n\"job[0].maps\" = [1, 2]\n");
    place.write("tonight.toml", swept);
    let said = place.ebb("sim plan tonight.toml").fails(2);
    assert!(said.contains("[sweep]"), "{said}");
    place.write("tonight.toml", TONIGHT);
    assert_eq!(place.ebb("sim plan tonight.toml --confidence 2").code, 2);
    place.ebb("sim plan tonight.toml --policy lottery").fails(2);
}

#[test]
fn advice_is_compared_with_what_comes() {
    let place = Place::new();
    let cluster = TONIGHT.split("[[job]]").next().unwrap();
    let weeks = format!(
        "replicas = 4{cluster}[workload]\napplication = \"scan\"\nspan_s = 40000\n\
         load = 0.7\nmaps_mean = 5\nmaps_log_sd = 1.0\ngoal_factor = [1.2, 5.0]\n"
    );
    place.write("weeks.toml", weeks);
    let json = place.ebb("sim advice weeks.toml --json").json();
    assert_eq!(json["replicas"], 4);
    let bins = json["points"][0]["bins"].as_array().unwrap();
    let jobs: u64 = bins.iter().map(|bin| bin["jobs"].as_u64().unwrap()).sum();
    assert!(jobs > 50, "{json}");
    place.ebb("sim advice weeks.toml --picture bins.svg").ok();
    assert!(place.read("bins.svg").ends_with("</svg>\n"));
    assert_eq!(place.ebb("sim advice weeks.toml --replicas 1").code, 2);
}
