//! The `ebb-bench` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator of `ebb`, for the stores that run in this process. It also keeps the thread that measures
/// from waiting for locks of clients in the kernel's idle class.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    ebb_bench::command_line::main()
}
