use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use ebb_colocate::{Action, GuardSample, LatencyWindow, LoadSample};
use ebb_jobs::request::{
    ApplicationRequest, InputRequest, JobRequest, OutputPlace, PagerankRequest, TableInput,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, HoldOptions, Options, TableOptions};
use ebb_test_support::wait::until;

use super::*;
use crate::node::NodeOptions;

/// Returns the values in a text in Prometheus' older format, by name and labels.
fn scraped(text: &str) -> BTreeMap<&str, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let parsed = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name, value.parse().unwrap())
    });
    parsed.collect()
}

fn node(dir: &std::path::Path) -> Arc<Node> {
    node_with(dir, NodeOptions::default())
}

fn node_with(dir: &std::path::Path, options: NodeOptions) -> Arc<Node> {
    let db = Options {
        create_if_missing: true,
        ..Options::default()
    };
    Arc::new(Node::open(dir, db, options).unwrap())
}

#[test]
fn what_was_done_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let keyspace = node.db().unwrap().keyspace("shop").unwrap();
    let table = keyspace.table("orders", TableOptions::default()).unwrap();
    table.put(b"key", b"value").unwrap();
    table.get(b"key").unwrap();
    keyspace.create_snapshot("s").unwrap();
    let hold = HoldOptions {
        name: "h".to_string(),
        table: "orders".to_string(),
        held_for: "a copy".to_string(),
        expires_in: None,
    };
    keyspace.hold_snapshot("s", &hold).unwrap();
    node.latencies().unwrap().record(Duration::from_millis(3));
    let metrics = Metrics::of(Arc::clone(&node));
    let text = metrics.text(Format::Prometheus).unwrap();
    let scraped = scraped(&text);
    assert!(scraped["ebb_store_writes_total"] >= 1.0);
    assert!(scraped["ebb_store_reads_total"] >= 1.0);
    assert_eq!(scraped["ebb_snapshots"], 1.0);
    assert_eq!(scraped["ebb_snapshot_holds"], 1.0);
    assert_eq!(scraped["ebb_backup_held_bytes"], 0.0);
    assert_eq!(scraped["ebb_store_read_only"], 0.0);
    assert_eq!(scraped["ebb_last_backup_timestamp_seconds"], 0.0);
    for (use_of, limit) in [
        ("ebb_store_memtable_bytes", "ebb_store_memtable_limit_bytes"),
        ("ebb_block_cache_bytes", "ebb_block_cache_limit_bytes"),
        ("ebb_wal_bytes", "ebb_wal_limit_bytes"),
    ] {
        assert!(scraped[use_of] < scraped[limit], "{use_of}");
    }
    assert!(scraped["ebb_store_memtable_bytes"] > 0.0);
    let of_table = "ebb_table_bookmarks{keyspace=\"shop\",table=\"orders\"}";
    assert_eq!(scraped[of_table], 1.0);
    assert_eq!(
        scraped["ebb_request_duration_seconds_bucket{le=\"0.002\"}"],
        0.0
    );
    assert_eq!(
        scraped["ebb_request_duration_seconds_bucket{le=\"0.005\"}"],
        1.0
    );
    assert_eq!(
        scraped["ebb_request_duration_seconds_bucket{le=\"+Inf\"}"],
        1.0
    );
    assert_eq!(scraped["ebb_request_duration_seconds_count"], 1.0);
    assert_eq!(scraped["ebb_jobs{state=\"running\"}"], 0.0);
}

/// Regression: a job of many steps counted as late once its first step was past the goal of that step, long
/// before the goal of the job.
#[test]
fn a_job_is_late_after_its_own_goal_and_not_after_that_of_a_step() {
    let dir = tempfile::tempdir().unwrap();
    let node = node_with(
        dir.path(),
        NodeOptions {
            // Without a share no task starts, so a job stays in its first step.
            fixed_hundredths: Some(0),
            ..NodeOptions::for_tests()
        },
    );
    let app = node.db().unwrap().keyspace("app").unwrap();
    let links = app.table("links", TableOptions::default()).unwrap();
    links.put(b"1", b"a b").unwrap();
    let submit = |output: &str, goal_s: f64| {
        let pagerank = PagerankRequest {
            reduces: 1,
            from: "1".to_string(),
            to: "2".to_string(),
            iterations: 1000,
            damping: 0.85,
        };
        let links = TableInput::new("app.links".parse().unwrap());
        let request = JobRequest::new(
            ApplicationRequest::Pagerank(pagerank),
            vec![InputRequest::Table(links)],
            OutputPlace::Table(output.parse().unwrap()).into(),
            "/",
        );
        let goal_s = Some(goal_s);
        node.submit(JobRequest { goal_s, ..request }).unwrap()
    };
    let metrics = Metrics::of(Arc::clone(&node));
    let late = || {
        let text = metrics.text(Format::Prometheus).unwrap();
        scraped(&text)["ebb_jobs_late"]
    };
    // The goal of the first of 1002 steps is 0.6 seconds away.
    let job = submit("app.ranks", 600.0);
    let step_goal_s = job.handle().status().goal_s.unwrap();
    until("the goal of the first step to pass", || {
        node.runtime().now_s() > step_goal_s
    });
    assert_eq!((job.progress().step, late()), (1, 0.0));
    submit("app.late", 1e-3);
    until("the other job to be late", || late() == 1.0);
}

#[test]
fn every_sample_is_declared_once_with_a_text_and_in_basic_units() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::of(node(dir.path()));
    let text = metrics.text(Format::Prometheus).unwrap();
    let mut declared = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(declared.insert(name), "{name} twice");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        assert!(name.starts_with("ebb_"), "{name}");
        for unit in ["_us", "_ms", "_hundredths", "_percent"] {
            assert!(!name.contains(unit), "{name}");
        }
    }
    for name in scraped(&text).keys() {
        let name = name.split('{').next().unwrap();
        let of = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        assert!(
            declared.contains(name) || of.is_some_and(|of| declared.contains(of)),
            "{name}"
        );
    }
}

/// A collector that writes all metrics of the load and of the latency guard, with invented values. A real
/// node has some of these metrics only after it has measured for a while.
#[derive(Debug)]
struct Measured(GuardSample);

impl Collector for Measured {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        load::write_load(&mut sheet, &LoadSample::default())?;
        load::write_guard(&mut sheet, &self.0)
    }
}

/// Returns a decision of the guard in which everything is known.
fn decision() -> GuardSample {
    GuardSample {
        window: LatencyWindow {
            t_s: 1.0,
            length_s: 0.1,
            requests: 10,
            latency_us: 900.0,
        },
        slack: 0.1,
        alone_us: Some(800.0),
        action: Action::Hold,
        allowed: 0.5,
    }
}

/// Regression: without requests the metrics had a latency of 0 seconds and a slack of 1.
#[test]
fn the_guard_has_a_latency_and_a_slack_only_where_they_are_known() {
    let has = |guarded: GuardSample| {
        let metrics = Metrics {
            prefixed: Registry::with_prefix(PREFIX),
            plain: Registry::default(),
        };
        let metrics = metrics.collecting(Box::new(Measured(guarded)));
        let text = metrics.text(Format::Prometheus).unwrap();
        ["slack_ratio", "latency_seconds", "allowed_ratio"]
            .map(|name| text.contains(&format!("ebb_guard_{name} ")))
    };
    assert_eq!(has(decision()), [true, true, true]);
    let unknown_alone = GuardSample {
        slack: 1.0,
        alone_us: None,
        ..decision()
    };
    assert_eq!(has(unknown_alone), [false, true, true]);
    let quiet = GuardSample {
        window: LatencyWindow {
            requests: 0,
            latency_us: 0.0,
            ..decision().window
        },
        ..unknown_alone
    };
    assert_eq!(has(quiet), [false, false, true]);
}

/// Returns the text of all metrics of this crate.
fn all_metrics() -> String {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let db = node.db().unwrap();
    let shop = db.keyspace("shop").unwrap();
    let orders = shop.table("orders", TableOptions::default()).unwrap();
    orders.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    // There is no `ebb_oldest_file_check_seconds` without files, or before the first check begins.
    assert!(db.next_file_check(Duration::ZERO).unwrap().is_some());
    let certificates = CertificateCollector::new(vec!["cql"], || Some(1));
    let metrics = Metrics::of(node)
        .collecting(Box::new(Measured(decision())))
        .collecting(Box::new(certificates));
    metrics.text(Format::Prometheus).unwrap()
}

/// Regression: the table in the guide lacked four metrics.
#[test]
fn the_guide_names_the_area_of_each_metric() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/guide/http.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let rows = guide.lines().skip_while(|line| *line != "| names | area |");
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    // Without labels: `ebb_used_cores{by}`.
    let names: Vec<_> = quoted.filter_map(|name| name.split('{').next()).collect();
    assert!(names.len() > 20, "{names:?}");
    let text = all_metrics();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (metric, _) = line.split_once(' ').unwrap();
        let has = |name: &&str| match name.strip_suffix('*') {
            Some(prefix) => metric.starts_with(prefix),
            None => metric == *name,
        };
        assert!(names.iter().any(has), "{metric}");
    }
}

/// An alert rule with a metric that does not exist never fires, and Prometheus reports no error.
#[test]
fn the_alert_rules_and_the_dashboard_query_metrics_that_exist() {
    let text = all_metrics();
    let mut exported = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        if kind == "histogram" {
            exported.extend(["bucket", "sum", "count"].map(|end| format!("{name}_{end}")));
        } else {
            exported.insert(name.to_owned());
        }
    }
    let monitoring = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitoring");
    for file in ["alerts.yml", "grafana.json"] {
        let queries = std::fs::read_to_string(monitoring.join(file)).unwrap();
        let words = queries.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: BTreeSet<&str> = words.filter(|word| word.starts_with("ebb_")).collect();
        assert!(names.len() > 5, "{file}: {names:?}");
        // The crate `ebb-cli` exports these, and a test there checks them.
        let of_command = ["ebb_cql_", "ebb_last_reopening_"];
        let own = names
            .into_iter()
            .filter(|name| !of_command.iter().any(|start| name.starts_with(start)));
        for name in own {
            assert!(exported.contains(name), "{file}: there is no metric {name}");
        }
    }
}

#[test]
fn each_listener_has_the_time_at_which_its_certificate_expires() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let text_with = |expires_unix_s| {
        let certificates = CertificateCollector::new(vec!["cql", "http"], move || expires_unix_s);
        let metrics = Metrics::of(Arc::clone(&node)).collecting(Box::new(certificates));
        metrics.text(Format::Prometheus).unwrap()
    };
    let text = text_with(Some(1_927_843_200));
    for listener in ["cql", "http"] {
        let name = format!("ebb_certificate_expiry_timestamp_seconds{{listener=\"{listener}\"}}");
        assert_eq!(scraped(&text)[&*name], 1_927_843_200.0);
    }
    assert!(!text_with(None).contains("ebb_certificate"));
}

#[test]
fn tables_beyond_the_largest_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let keyspace = node.db().unwrap().keyspace("many").unwrap();
    for number in 0..210 {
        keyspace
            .table(&format!("t{number}"), TableOptions::default())
            .unwrap();
    }
    let text = Metrics::of(Arc::clone(&node))
        .text(Format::OpenMetrics)
        .unwrap();
    let tables = text
        .lines()
        .filter(|line| line.starts_with("ebb_table_files{"));
    assert_eq!(tables.count(), 201);
    assert!(text.contains("ebb_table_runs{keyspace=\"(others)\",table=\"(others)\"} 0"));
    assert!(text.ends_with("# EOF\n"));
}

/// Regression: damage in a dropped table that a snapshot still contains had no metric, so it raised no alert,
/// although reads of the snapshot failed.
#[test]
fn damage_in_a_dropped_table_under_a_snapshot_counts_for_the_name_of_the_table() {
    let (dir, mem) = (tempfile::tempdir().unwrap(), MemDisk::new());
    let options = Options {
        disk: Arc::new(mem.clone()),
        ..Options::default()
    };
    let db = Db::open("/db", options).unwrap();
    let shop = db.keyspace("shop").unwrap();
    let orders = shop.table("orders", TableOptions::default()).unwrap();
    orders.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    shop.create_snapshot("s").unwrap();
    let mut check = db.next_file_check(Duration::ZERO).unwrap().unwrap();
    mem.flip_bit(check.path(), 30, 3).unwrap();
    check.read(&mut |_| ControlFlow::Continue(()));
    assert!(check.finish().unwrap());
    shop.drop_table("orders").unwrap();

    let options = NodeOptions {
        spill_dir: Some(dir.path().to_path_buf()),
        ..NodeOptions::for_tests()
    };
    let node = Node::start(Some(db), options).unwrap();
    let metrics = Metrics::of(Arc::new(node));
    let of_orders = |figure: &str| {
        let text = metrics.text(Format::Prometheus).unwrap();
        let series = format!("ebb_table_{figure}{{keyspace=\"shop\",table=\"orders\"}}");
        assert!(text.matches(&series).count() <= 1, "{text}");
        scraped(&text).get(&*series).copied()
    };
    let damaged = "damaged_files";
    assert_eq!((of_orders(damaged), of_orders("files")), (Some(1.0), None));
    assert!(of_orders("unmergeable_bytes").unwrap() > 0.0);
    shop.table("orders", TableOptions::default()).unwrap();
    let found = (of_orders(damaged), of_orders("files"));
    assert_eq!(
        found,
        (Some(1.0), Some(0.0)),
        "with a new table of this name"
    );
    shop.drop_table("orders").unwrap();
    shop.delete_snapshot("s").unwrap();
    assert_eq!(of_orders(damaged), None);
}
