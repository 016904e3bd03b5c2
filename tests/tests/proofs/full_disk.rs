//! A disk that runs out of space now and then: an operation without space is refused entirely, and
//! everything else goes on.

use ebb_test_support::seed::for_seeds;
use ebb_tests::report::{Budget, Counter};
use ebb_tests::scarcity::run;

/// In half of the runs the power may fail at a random I/O call, too. The restarted database has all
/// acknowledged operations and no refused ones. It has the interrupted operation entirely or not at
/// all.
#[test]
fn what_is_refused_leaves_no_trace_and_what_is_acknowledged_stays() {
    let mut refused = 0;
    let test = "what_is_refused_leaves_no_trace_and_what_is_acknowledged_stays";
    for_seeds(test, 60, |seed| {
        let report = run(seed, &Budget::UNLIMITED);
        assert_eq!(report.failures, []);
        refused += report.counted(Counter::Faults);
    });
    assert!(refused > 0, "no operation was refused");
}
