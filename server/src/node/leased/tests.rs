use std::path::PathBuf;
use std::sync::Mutex;

use ebb_scheduler::runtime::JobStatus;
use ebb_storage::{Options, TableOptions};
use ebb_text::{LoadProgress, walk};

use super::*;
use crate::node::{NodeOptions, Stop};

fn open(data: &Path) -> Node {
    let node = Node::open(data, Options::default(), NodeOptions::for_tests()).unwrap();
    let app = node.db().unwrap().keyspace("app").unwrap();
    let table = app.table("t", TableOptions::default()).unwrap();
    for n in 0..1000_u32 {
        table.put(&n.to_be_bytes(), b"value").unwrap();
    }
    app.create_snapshot("monday").unwrap();
    node.db().unwrap().flush().unwrap();
    node
}

/// The leases at present that have a thread in.
fn entered(node: &Node) -> Vec<String> {
    let is_entered = |job: &JobStatus| job.is_lease && job.tasks_running > 0;
    let jobs = node.runtime().status().jobs.into_iter();
    jobs.filter(is_entered).map(|job| job.name).collect()
}

#[test]
fn a_scan_runs_under_a_lease_until_it_is_broken_off() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    let table = app.snapshot("monday").unwrap().table("t").unwrap();
    let mut rows = 0_u32;
    let range = ..500_u32.to_be_bytes();
    node.scan(&table, range, |key, value| {
        assert_eq!((key, value), (&rows.to_be_bytes()[..], &b"value"[..]));
        assert!(rows > 0 || entered(&node) == ["scan"]);
        rows += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(rows, 500);
    let mut last = None;
    node.scan(&table, ..[0xff], |key, _| {
        last = Some(key.to_vec());
        if key == 7_u32.to_be_bytes() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert_eq!(last.unwrap(), 7_u32.to_be_bytes());
    assert!(entered(&node).is_empty());
}

#[test]
fn verification_runs_under_a_lease() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let mut files = 0;
    let report = node.verify(&mut |_| {
        assert_eq!(entered(&node), ["verify"]);
        files += 1;
    });
    let report = report.unwrap();
    assert!(files > 0 && report.findings.is_empty());
    assert_eq!(report.files, files);
}

/// Collects the names of the leases that had threads in while a load ran.
struct EnteredLeases<'a> {
    node: &'a Node,
    entered: Mutex<Vec<String>>,
}

impl LoadControl for EnteredLeases<'_> {
    fn progress(&self, _: LoadProgress) {
        self.entered.lock().unwrap().extend(entered(self.node));
    }
}

#[test]
fn a_load_runs_under_a_lease_and_leaves_nothing_beside_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(&dir.path().join("data"));
    let input = dir.path().join("in.csv");
    std::fs::write(&input, "k,v\nb,2\na,1\n").unwrap();
    let app = node.db().unwrap().keyspace("app").unwrap();
    let table = app.table("loaded", TableOptions::default()).unwrap();
    let (found, entered) = (walk(&[&input], None).unwrap(), Mutex::default());
    let control = EnteredLeases {
        node: &node,
        entered,
    };
    let by_key = LoadOptions {
        key: Some("k".into()),
        ..LoadOptions::default()
    };
    let spills = || {
        let entries = std::fs::read_dir(&node.site.spill_dir).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.collect::<Vec<PathBuf>>()
    };
    let before = spills();
    let report = node.load(&table, &found, &by_key, &control).unwrap();
    assert_eq!(report.rows, 2);
    assert_eq!(*table.get(b"a").unwrap().unwrap(), *b"a,1");
    let entered = control.entered.into_inner().unwrap();
    assert!(!entered.is_empty() && entered.iter().all(|name| name == "load"));
    assert!(node.runtime().status().jobs.is_empty());
    assert_eq!(spills(), before, "its folder went");
}

#[test]
fn a_node_that_is_shutting_down_starts_no_work_and_leaves_no_backup() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(&dir.path().join("data"));
    let backup = dir.path().join("backup");
    node.backup(&backup).unwrap();
    let copy = Db::open(&backup, Options::default()).unwrap();
    let copied = copy.existing_keyspace("app").unwrap();
    assert_eq!(copied.snapshots().len(), 1);
    node.shutdown(Stop::Cancel);
    let refused = dir.path().join("refused");
    assert!(matches!(node.backup(&refused), Err(JobError::Submit(_))));
    assert!(!refused.exists());
    assert!(node.verify(&mut |_| ()).is_err());
    let table = copied.existing_table("t").unwrap();
    let found = walk(&[dir.path().join("data")], None).unwrap();
    let load = node.load(&table, &found, &LoadOptions::default(), &());
    assert!(matches!(load, Err(LoadError::Cancelled)));
}
