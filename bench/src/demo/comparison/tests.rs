//! Tests of the comparison of days.

use ebb_scheduler::model::JobId;

use super::super::corpus::Corpus;
use super::super::day::LoadCost;
use super::super::forecast::ForecastFrom;
use super::super::options::Goals;
use super::super::outcome::{Series, Transactional, WordCountCheck};
use super::*;

fn run(policy: &str, finished_s: Option<f64>) -> Outcome {
    let latency = |p99_us| Latency {
        p50_us: 100.0,
        p99_us,
        p999_us: 5000.0,
        ops_per_s: 1000.0,
    };
    Outcome {
        policy: policy.to_string(),
        seconds: 24.0,
        cores: 2,
        others_cores: 0.0,
        scheduling_class: "SCHED_IDLE".to_string(),
        corpus: Corpus {
            description: "a text".to_string(),
            paths: Vec::new(),
            files: 1,
            rows: 1,
            bytes: 1,
        },
        load_cost: LoadCost {
            peak_cores: 1.0,
            idle_cores: 0.0,
            peak_ops_per_s: 1000.0,
        },
        objective: None,
        forecast_from: ForecastFrom::Known,
        goals_are: Goals::Example,
        snapshot_create_us: Vec::new(),
        jobs: vec![JobOutcome {
            id: JobId(1),
            name: "J1".to_string(),
            application: "word count".to_string(),
            submitted_s: 0.0,
            goal_s: Some(6.5),
            finished_s,
            simulated_finish_s: None,
            half_way: None,
            met: Some(finished_s.is_some_and(|t_s| t_s <= 6.5)),
            tasks: 1,
            bytes: 1,
            cpu_s: 1.0,
            failure: None,
        }],
        transactional: Transactional {
            alone: latency(400.0),
            with_analytics: latency(420.0),
            refused: 0,
        },
        word_count_check: WordCountCheck {
            jobs: 1,
            words: 200,
            differences: 0,
        },
        series: Series {
            load: Vec::new(),
            guard: Vec::new(),
            cycles: Vec::new(),
            forecast: Vec::new(),
            latency: Vec::new(),
        },
    }
}

fn compared() -> Comparison {
    Comparison {
        runs: vec![
            run("reverse-adaptive", Some(6.0)),
            run("fifo", Some(7.0)),
            run("none", None),
        ],
    }
}

#[test]
fn the_table_has_a_row_for_each_policy_and_marks_late_jobs() {
    let table = compared().table();
    let line = |name: &str| {
        let found = table
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        found
            .unwrap_or_else(|| panic!("{name} in {table}"))
            .to_string()
    };
    assert!(line("(goal; alone)").contains("6.5 h"), "{table}");
    assert!(line("(goal; alone)").contains("400 us"), "{table}");
    assert!(line("reverse-adaptive").contains("1/1"), "{table}");
    assert!(line("reverse-adaptive").contains("6.0 h "), "{table}");
    assert!(
        line("fifo").contains("0/1") && line("fifo").contains("7.0 h!"),
        "{table}"
    );
    assert!(line("none").contains("-!"), "{table}");
    assert!(table.contains("all word counts equal"), "{table}");
}

#[test]
fn a_headline_of_a_day_beside_busy_processes_has_a_caveat() {
    let quiet = run("fifo", Some(6.0));
    assert_eq!(quiet.headline(), "1 of 1 goals met");
    let busy = Outcome {
        others_cores: 1.2,
        ..quiet
    };
    let caveat = "means little: other processes used 1.20 of 2 cores";
    let headline = format!("1 of 1 goals met, which {caveat}");
    assert_eq!(busy.headline(), headline);
    assert!(busy.notes()[0].starts_with(&headline));
    let folder = tempfile::tempdir().unwrap();
    write_as(&busy, folder.path(), "").unwrap();
    let report = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains(caveat), "{report}");
    let picture = std::fs::read_to_string(folder.path().join("cores.svg")).unwrap();
    assert!(picture.contains(">other processes<"), "{picture}");
    let table = Comparison { runs: vec![busy] }.table();
    assert!(table.contains(&format!("fifo {caveat}")), "{table}");
}

#[test]
fn the_page_links_each_day_and_the_json_has_them_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let compared = compared();
    let page = compared.write_report(folder.path()).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    for run in &compared.runs {
        let report = format!("report-{}.html", run.policy);
        assert!(html.contains(&report), "{report}");
        assert!(folder.path().join(report).exists());
    }
    // Two pictures of each day, each with a drawing for wide windows and one for narrow ones.
    for size in ["0 0 960 380", "0 0 340 380", "0 0 960 260", "0 0 340 260"] {
        let drawing = format!("<svg viewBox=\"{size}\"");
        assert_eq!(html.matches(&drawing).count(), 3, "{size}");
    }
    let json = serde_json::to_value(&compared).unwrap();
    assert_eq!(json["runs"][1]["policy"], "fifo");
}

#[test]
fn all_cells_have_the_heads_of_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let page = compared().write_report(folder.path()).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    let cells = [
        "<td role=\"cell\" data-label=\"goals met\">1 of 1",
        "<td role=\"cell\" data-label=\"J1, goal 6.5 h\"><span class=\"missed\">7.0 h",
        "<td role=\"cell\" data-label=\"p99\">420 us",
        // The load alone has met no goals, and has no jobs.
        "data-label=\"goals met\"><td role=\"cell\" data-label=\"J1, goal 6.5 h\"><td role=\"cell\" data-label=\"p50\">100 us",
    ];
    for cell in cells {
        assert!(html.contains(cell), "{cell} in {html}");
    }
}

#[test]
fn labels_stay_within_the_narrow_drawing() {
    let folder = tempfile::tempdir().unwrap();
    write_as(&run("fifo", Some(6.0)), folder.path(), "").unwrap();
    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let drawings: Vec<&str> = html.split("<div class=\"narrow\">").skip(1).collect();
    assert_eq!(drawings.len(), 2);
    for drawing in drawings {
        let drawing = drawing.split("</svg>").next().unwrap();
        let texts: Vec<&str> = drawing.split("<text x=\"").skip(1).collect();
        assert!(texts.iter().any(|text| text.contains("goal J1")));
        for text in texts {
            let x: f64 = text.split('"').next().unwrap().parse().unwrap();
            let label = text.split(['>', '<']).nth(1).unwrap();
            // Characters of 12 pixels are about 7 wide.
            let width = 7.0 * label.chars().count() as f64;
            let left = if text.contains("\"end\"") {
                x - width
            } else {
                x - width / 2.0
            };
            let ends = (left, left + width);
            assert!(ends.0 >= 0.0 && ends.1 <= 340.0, "{label}: {ends:?}");
        }
    }
}
