//! A disk that has no space now and then: what finds none is refused whole, and
//! everything else goes on.

use ebb_test_support::seed::for_seeds;
use ebb_tests::report::{Budget, Counter};
use ebb_tests::scarcity::run;

/// The power may fail at any time, too: what was acknowledged is there after it,
/// nothing that was refused is, and what was under way is so whole or not at all.
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
