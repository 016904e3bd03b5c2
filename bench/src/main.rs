//! The `ebb-bench` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator of the binary `ebb`, so that stores in this process are measured with it.
/// Threads share hardly any of its locks, so a measuring thread does not wait for a lock that a
/// client thread of the idle class holds.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    ebb_bench::command_line::main()
}
