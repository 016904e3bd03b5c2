use std::collections::{BTreeMap, BTreeSet};

use ebb_colocate::{Action, GuardSample, LatencyWindow, LoadSample};
use ebb_storage::{HoldOptions, Options, TableOptions};

use super::*;
use crate::node::NodeOptions;

/// Returns the values by name and labels, as a scraper of the older format reads them.
fn scraped(text: &str) -> BTreeMap<&str, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let parsed = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name, value.parse().unwrap())
    });
    parsed.collect()
}

fn node(dir: &std::path::Path) -> Arc<Node> {
    let db = Options {
        create_if_missing: true,
        ..Options::default()
    };
    Arc::new(Node::open(dir, db, NodeOptions::default()).unwrap())
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
    node.latencies()
        .unwrap()
        .record(std::time::Duration::from_millis(3));
    let metrics = Metrics::of(Arc::clone(&node));
    let text = metrics.text(Format::Prometheus).unwrap();
    let scraped = scraped(&text);
    assert!(scraped["ebb_store_writes_total"] >= 1.0);
    assert!(scraped["ebb_store_reads_total"] >= 1.0);
    assert_eq!(scraped["ebb_snapshots"], 1.0);
    assert_eq!(scraped["ebb_snapshot_holds"], 1.0);
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

/// A collector of all metrics of the load and of the latency guard. A real node has some of them
/// only after it has measured for a while.
#[derive(Debug)]
struct Measured;

impl Collector for Measured {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        load::write_load(&mut sheet, &LoadSample::default())?;
        let guarded = GuardSample {
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
        };
        load::write_guard(&mut sheet, &guarded)
    }
}

/// An alert rule with a metric that does not exist never fires, and Prometheus reports no error.
#[test]
fn the_alert_rules_and_the_dashboard_query_metrics_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = CertificateCollector::new(vec!["cql"], || Some(1));
    let metrics = Metrics::of(node(dir.path()))
        .collecting(Box::new(Measured))
        .collecting(Box::new(certificates));
    let text = metrics.text(Format::Prometheus).unwrap();
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
        for name in names {
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
