//! Settings of the C library's allocator that make it return freed memory to the system.
//!
//! The allocator has an arena for each of many threads, and returns only the free memory at the
//! end of an arena. It takes large blocks from the system and returns them there, but it adapts
//! the limit of "large" to the program: once a block of 20 MiB was freed, blocks up to that size
//! lie in arenas, between blocks that stay. After a burst of large requests, results or logins, a
//! server would keep most of that memory.

#![expect(unsafe_code, reason = "it sets up the allocator of the C library")]

/// Blocks from this size on come from the system, and go back when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 256 << 10;
/// More free memory than this at the end of an arena is returned to the system, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FREE_BYTES: libc::c_int = 1 << 20;

/// Makes this process return large blocks of memory when they are freed, whatever was freed
/// before. To be called at the start of a program that runs for long. Has no effect with an
/// allocator other than that of the GNU C library.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both calls take a number, and lock the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_BYTES);
    }
}
