//! A short wait that does not sleep.

/// About twenty microseconds, with 40 ns for a pause of the processor: half of what
/// it takes to sleep and be woken.
#[cfg(not(any(loom, shuttle)))]
const SPINS_MAX: usize = 500;
/// A checker runs one thread at a time: spinning changes nothing.
#[cfg(any(loom, shuttle))]
const SPINS_MAX: usize = 0;

/// Waits for a condition that is expected to hold in a moment; whether it did.
pub(crate) fn spin_until(condition: impl Fn() -> bool) -> bool {
    (0..SPINS_MAX).any(|_| {
        std::hint::spin_loop();
        condition()
    })
}
