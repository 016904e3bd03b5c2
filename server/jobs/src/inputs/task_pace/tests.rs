//! Checkpoints of tasks before work on values.

use std::cell::Cell;

use super::*;

/// Regression: a task called its checkpoint only before a decimal of at least 64 KiB of work, and none
/// in a row with thousands of shorter ones.
#[test]
fn work_on_short_decimals_adds_up_to_checkpoints() {
    let calls = Cell::new(0);
    let checkpoint = || -> Result<(), TaskError> {
        calls.set(calls.get() + 1);
        Ok(())
    };
    let pace = TaskPace::new(&checkpoint);
    for _ in 0..128 {
        pace.charge(1 << 10).unwrap();
    }
    assert_eq!(calls.get(), 2);
}
