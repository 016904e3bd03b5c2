//! Tasks beside other processes that hold the CPU.

use super::*;
use ebb_threads::{FLOOR_NICE, current_class, current_nice};

/// Returns options under which tasks run in the idle class, or at a high nice value (on the floor)
/// while other processes hold the cores, according to `capacity`. Slow tasks get second attempts.
fn floor_options(capacity: &Arc<TestCapacity>) -> RuntimeOptions {
    RuntimeOptions {
        throttles: Throttles::default(),
        speculation: true,
        // The clock of a test may run far ahead of a thread of the idle class.
        stall_s: 1e9,
        ..with_capacity(capacity, options())
    }
}

#[test]
fn while_others_hold_the_cores_tasks_start_on_the_floor() {
    let capacity = TestCapacity::new(Capacity::cpu(200));
    capacity.change(|capacity| capacity.is_on_floor = true);
    let runtime = TestRuntime::start(floor_options(&capacity));
    let mapper = |_: &[u8], _: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        assert_ne!(current_class(), SchedulingClass::Idle);
        assert!(current_nice() >= FLOOR_NICE);
        emit.emit(b"a", b"")
    };
    let job = runtime.begin(one_map(mapper, VecOutput::new()));
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

/// Regression: beside two busy processes a job of a third of a second took a minute.
#[test]
fn an_attempt_that_began_in_the_idle_class_is_overtaken_or_moved() {
    let capacity = TestCapacity::new(Capacity::cpu(200));
    let clock = Arc::new(ManualClock::default());
    let options = floor_options(&capacity);
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let mapper = |_: &[u8], _: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        while current_class() == SchedulingClass::Idle {
            emit.checkpoint()?;
        }
        emit.emit(b"a", b"")
    };
    let job = runtime.begin(one_map(mapper, VecOutput::new()));
    until_running(&job, 1);
    capacity.change(|capacity| capacity.is_on_floor = true);
    wait::until("the job to end", || {
        clock.advance_s(0.01);
        job.status().finished_s.is_some()
    });
    let report = job.wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let is_stuck = runtime.scheduling_class() == SchedulingClass::Idle && !runtime.shared.can_raise;
    if is_stuck {
        assert_eq!(report.counters.speculative_attempts, 1);
    }
}

#[test]
fn the_capacity_source_gets_the_need_of_the_goals() {
    let capacity = TestCapacity::new(Capacity::cpu(200));
    let runtime = TestRuntime::start(with_capacity(&capacity, options()));
    let output = VecOutput::new();
    let job = runtime.begin(spinning_job(2, &output).goal_s(1e6));
    wait::until("the need of the goal", || {
        let request = capacity.request();
        request.is_some_and(|request| request.needed_hundredths > 0)
    });
    assert!(job.cancel());
}
