//! Tasks beside other processes that hold the CPU.

use super::*;
use ebb_threads::{FLOOR_NICE, current_class, current_nice};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// A source of capacity for tests: two cores, which pretended other processes may hold. While they
/// do, tasks run on the floor: in the ordinary class, with a high nice value.
#[derive(Default)]
struct OtherProcesses {
    hold_cores: AtomicBool,
    needed_hundredths: AtomicU32,
}

impl CapacitySource for OtherProcesses {
    fn capacity(&self, request: CapacityRequest) -> Capacity {
        let needed_hundredths = request.needed_hundredths;
        (self.needed_hundredths).store(needed_hundredths, Ordering::SeqCst);
        Capacity {
            is_on_floor: self.hold_cores.load(Ordering::SeqCst),
            ..Capacity::cpu(200)
        }
    }
}

/// Returns options under which tasks run in the idle class, or at a high nice value (on the floor)
/// while `others` hold the cores, and slow tasks get second attempts.
fn floor_options(others: &Arc<OtherProcesses>) -> RuntimeOptions {
    RuntimeOptions {
        capacity: others.clone(),
        cycle_s: 0.01,
        throttles: Throttles::default(),
        speculation: true,
        // The clock of a test may run far ahead of a thread of the idle class.
        stall_s: 1e9,
        ..options()
    }
}

fn one_map(output: &VecOutput, mapper: impl Mapper + 'static) -> JobSpec {
    let input = Arc::new(VecInput::lines("a", 1));
    JobSpec::new("one map", input, Arc::new(mapper), Arc::new(output.clone()))
}

#[test]
fn while_others_hold_the_cores_tasks_start_on_the_floor() {
    let others = Arc::new(OtherProcesses::default());
    others.hold_cores.store(true, Ordering::SeqCst);
    let runtime = TestRuntime::start(floor_options(&others));
    let output = VecOutput::new();
    let mapper = |_: &[u8], _: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        assert_ne!(current_class(), SchedulingClass::Idle);
        assert!(current_nice() >= FLOOR_NICE);
        emit.emit(b"a", b"")
    };
    let job = runtime.submit(one_map(&output, mapper)).unwrap();
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

/// Regression: beside two busy processes a job of a third of a second took a minute.
#[test]
fn an_attempt_that_began_in_the_idle_class_is_overtaken_or_moved() {
    let others = Arc::new(OtherProcesses::default());
    let clock = Arc::new(ManualClock::default());
    let options = floor_options(&others);
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let output = VecOutput::new();
    let mapper = |_: &[u8], _: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        while current_class() == SchedulingClass::Idle {
            emit.checkpoint()?;
        }
        emit.emit(b"a", b"")
    };
    let job = runtime.submit(one_map(&output, mapper)).unwrap();
    wait::until("the first attempt to start", || {
        job.status().tasks_running == 1
    });
    others.hold_cores.store(true, Ordering::SeqCst);
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
    let others = Arc::new(OtherProcesses::default());
    let runtime = TestRuntime::start(RuntimeOptions {
        capacity: others.clone(),
        cycle_s: 0.01,
        ..options()
    });
    let output = VecOutput::new();
    let job = runtime
        .submit(spinning_job(2, &output).goal_s(1e6))
        .unwrap();
    wait::until("the need of the goal", || {
        others.needed_hundredths.load(Ordering::SeqCst) > 0
    });
    assert!(job.cancel());
}
