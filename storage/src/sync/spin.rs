//! A short wait that does not sleep.

/// The number of times that [`spin_until`] checks its condition. That takes about twenty
/// microseconds, at 40 ns for a pause of the processor: half of the time that a thread needs to
/// fall asleep and be woken.
#[cfg(not(any(loom, shuttle)))]
const SPINS_MAX: usize = 500;
/// No spins: a concurrency checker (loom, shuttle) runs one thread at a time, so no other thread
/// makes progress while this one spins.
#[cfg(any(loom, shuttle))]
const SPINS_MAX: usize = 0;

/// Waits without sleeping for a condition that is expected to become true in a moment. Returns true
/// once it is, and false if it is not after [`SPINS_MAX`] checks.
pub(crate) fn spin_until(condition: impl Fn() -> bool) -> bool {
    (0..SPINS_MAX).any(|_| {
        std::hint::spin_loop();
        condition()
    })
}
