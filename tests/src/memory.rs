//! How much memory a case takes: the allocator of everything in this crate
//! counts.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Forgets what was in use before, beyond what is now.
pub fn reset_peak() {
    ALLOCATOR.reset_peak_usage();
}

/// Bytes in use now, by all threads.
pub fn bytes() -> usize {
    ALLOCATOR.current_usage()
}

/// Most bytes in use at once since the last reset, by all threads.
pub fn peak_bytes() -> usize {
    ALLOCATOR.peak_usage()
}
