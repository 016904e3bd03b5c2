//! Reports of slow requests, and the parts of their time.

use super::*;
use crate::serve::{SlowRequest, SlowRequests};

/// The slow requests that a server reported, in the order of the reports.
type Reports = Arc<Mutex<Vec<SlowRequest>>>;

/// Returns options with which requests that took at least `at_least` are reported as slow, and the
/// list of reports.
fn reporting(at_least: Duration) -> (ServeOptions, Reports) {
    let reports = Reports::default();
    let collected = reports.clone();
    let report = move |request: &SlowRequest| collected.lock().unwrap().push(request.clone());
    let options = ServeOptions {
        scans_max: 1,
        slow: Some(SlowRequests::new(at_least, report)),
        ..options()
    };
    (options, reports)
}

/// Waits until at least `count` requests are reported, and returns all reports.
#[track_caller]
fn until_reported(reports: &Reports, count: usize) -> Vec<SlowRequest> {
    wait::until_some("the reports of slow requests", || {
        let all = reports.lock().unwrap().clone();
        (all.len() >= count).then_some(all)
    })
}

#[test]
fn a_report_has_the_parts_of_the_time() {
    const HELD: Duration = Duration::from_millis(20);
    let (options, reports) = reporting(Duration::ZERO);
    let (fake, server) = serving(synced(), options);
    let mut client = Client::new(&server);
    client.query(1, "use ks");
    for (stream, text) in (2..).zip(["scan 'a secret'", "scan 0xcafe", "put 17", "which"]) {
        client.query(stream, text);
    }
    assert_eq!([client.receive().0, client.receive().0], [1, 5]);
    // One scan runs, the other one waits for its turn, and the write waits for the sync.
    wait::until("the scan and the sync to begin", || {
        let executed = fake.executed.get();
        executed == 2 && fake.syncs_begun.get() == 1
    });
    std::thread::sleep(HELD); // clock: the reports contain this time
    fake.gate.open();
    fake.sync_gate.open();
    (0..3).for_each(|_| drop(client.receive()));
    // STARTUP, and five more.
    let reports = until_reported(&reports, 6);
    let of = |statement: &str| -> Vec<&SlowRequest> {
        let of = reports
            .iter()
            .filter(|report| report.statement == statement);
        of.collect()
    };
    let (scans, puts) = (of("scan ?"), of("put ?"));
    assert_eq!((scans.len(), puts.len()), (2, 1), "{reports:?}");
    for report in scans.iter().chain(&puts) {
        assert_eq!(report.keyspace.as_deref(), Some("ks"));
        assert_eq!((&report.user, report.statements), (&None, 1));
        let parts = report.queued + report.prepared + report.executed + report.synced;
        assert_eq!(parts + report.sent.unwrap(), report.total, "{report:?}");
    }
    assert!(scans.iter().any(|scan| scan.executed >= HELD), "{scans:?}");
    assert!(scans.iter().any(|scan| scan.queued >= HELD), "{scans:?}");
    assert!(puts[0].synced >= HELD, "{puts:?}");
}

#[test]
fn requests_below_the_limit_are_not_reported() {
    let (options, reports) = reporting(HANG);
    let (_, server) = server(options);
    let mut client = Client::new(&server);
    client.query(1, "which");
    client.receive();
    drop(client);
    until_connections(&server, 0);
    assert!(reports.lock().unwrap().is_empty());
}

#[test]
fn a_report_of_any_request_names_it() {
    let (options, reports) = reporting(Duration::ZERO);
    let (_, server) = server(options);
    let mut client = Client::new(&server);
    let id = prepared(&mut client, "get 'x' of ?");
    assert!(is_prepared(&mut client, &id));
    client.query(3, "nonsense 'y'");
    client.error();
    let reports = until_reported(&reports, 4);
    let names: Vec<_> = (reports.iter().map(|report| &*report.statement)).collect();
    assert_eq!(names, ["STARTUP", "get ? of ?", "get ? of ?", "nonsense ?"]);
}

#[test]
fn a_request_whose_client_is_gone_is_reported_as_not_sent() {
    let (options, reports) = reporting(Duration::ZERO);
    let (fake, server) = server(options);
    let mut client = Client::new(&server);
    client.query(1, "scan all");
    wait::until("the scan to begin", || fake.executed.get() > 0);
    drop(client);
    let reports = until_reported(&reports, 2);
    assert_eq!(
        (&*reports[1].statement, reports[1].sent),
        ("scan all", None)
    );
}
