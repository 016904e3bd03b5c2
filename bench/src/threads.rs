//! The results of threads.

use std::panic::resume_unwind;
use std::thread;

/// Returns the value of a thread that was joined. If the thread panicked, the panic goes on here.
pub fn value_of<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|panic| resume_unwind(panic))
}
