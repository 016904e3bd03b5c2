//! An environment variable with which jobs, scans and index builds do not depend on other processes.

use ebb_server::node::NodeOptions;

/// The environment variable that, set to any value, gives jobs all cores and turns the idle class
/// off. The tests of the command line set it.
const VARIABLE: &str = "EBB_TEST_UNPACED";

/// Returns whether `EBB_TEST_UNPACED` is set: nothing is to run in the idle class, and jobs get all cores.
///
/// Without the variable, jobs get hardly any CPU while other processes take all of it: in `ebb serve` only
/// as many cores as the setting `analytics-floor` names, 0.15 by default. Tests that wait for the result of a
/// job, a scan or an index would then depend on what else runs on the machine.
pub(crate) fn is_set() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Returns `options` for the node of a command. If `EBB_TEST_UNPACED` is set ([`is_set`]), jobs get
/// all cores and do not run in the idle class.
pub(crate) fn for_tests(mut options: NodeOptions) -> NodeOptions {
    if is_set() {
        let colocated = &mut options.colocated;
        colocated.least_hundredths = colocated.runtime.cores.saturating_mul(100);
        colocated.runtime.throttles.idle_class = false;
    }
    options
}
