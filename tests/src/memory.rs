//! The memory that a case takes: the global allocator of this crate counts it.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Resets the peak to the bytes in use now.
pub fn reset_peak() {
    ALLOCATOR.reset_peak_usage();
}

/// Returns the bytes in use now, by all threads.
pub fn bytes() -> usize {
    ALLOCATOR.current_usage()
}

/// Returns the most bytes in use at once since the last reset, by all threads.
pub fn peak_bytes() -> usize {
    ALLOCATOR.peak_usage()
}
