//! A short wait that does not sleep.

/// The number of spins. They take about twenty microseconds, at 40 ns for a
/// pause of the processor: half of what it takes to sleep and be woken.
#[cfg(not(any(loom, shuttle)))]
const SPINS_MAX: usize = 500;
/// No spins: a concurrency checker (loom, shuttle) runs one thread at a time, so no other thread
/// makes progress while this one spins.
#[cfg(any(loom, shuttle))]
const SPINS_MAX: usize = 0;

/// Waits for a condition that is expected to become true in a moment. Returns
/// whether it became true.
pub(crate) fn spin_until(condition: impl Fn() -> bool) -> bool {
    (0..SPINS_MAX).any(|_| {
        std::hint::spin_loop();
        condition()
    })
}
