//! Conditional writes that conflict with others run again, until the request times out.

use super::*;

/// Returns both values of `waits_for_sync`: false for a server that acknowledges writes at once,
/// true for one that syncs first.
fn both() -> [bool; 2] {
    [false, true]
}

fn fake(waits_for_sync: bool, conflicts: usize) -> Fake {
    let fake = Fake {
        waits_for_sync,
        conflicts: AtomicUsize::new(conflicts),
        ..Fake::default()
    };
    fake.sync_gate.open();
    fake
}

#[test]
fn a_conflicting_write_runs_again_and_is_answered_once() {
    for waits_for_sync in both() {
        let (fake, server) = serving(fake(waits_for_sync, 5), options());
        let mut client = Client::new(&server);
        client.query(1, "swap this");
        let (stream, answer) = client.receive();
        assert_eq!((stream, answer.response), (1, Response::Void));
        // Five executions end in a conflict, and the sixth succeeds.
        assert_eq!(fake.executed.get(), 6);
        client.query(2, "swap this");
        client.query(3, "which");
        assert_eq!(client.streams(2), [2, 3]);
    }
}

#[test]
fn a_conflicting_batch_runs_again() {
    for waits_for_sync in both() {
        let (fake, server) = serving(fake(waits_for_sync, 3), options());
        let mut client = Client::new(&server);
        let batch = Batch {
            kind: BatchKind::Logged,
            ..batch_of(&[StatementRef::Text("swap these")])
        };
        client.send(1, &Request::Batch(batch));
        assert_eq!(client.response(), Response::Void);
        assert_eq!(fake.executed.get(), 4);
    }
}

#[test]
fn a_write_that_always_conflicts_delays_no_other_request() {
    for waits_for_sync in both() {
        let (fake, server) = serving(fake(waits_for_sync, usize::MAX), options());
        let mut client = Client::new(&server);
        client.query(1, "swap this");
        wait::until("the write to run again", || fake.executed.get() > 1);
        client.assert_served(2);
    }
}

#[test]
fn a_write_that_always_conflicts_times_out() {
    for waits_for_sync in both() {
        let options = ServeOptions {
            request_timeout: Duration::from_millis(50),
            ..options()
        };
        let (_, server) = serving(fake(waits_for_sync, usize::MAX), options);
        let mut client = Client::new(&server);
        client.query(1, "swap this");
        let error = client.error();
        let ErrorKind::WriteTimeout { write_type, .. } = error.kind else {
            panic!("{error:?} is no timeout");
        };
        assert_eq!(write_type, WriteType::Cas);
        assert!(error.message.starts_with("CAS operation timed out"));
    }
}
