//! The `ebb-bench` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator of the binary `ebb`, so that stores in this process are measured with it. Its
/// threads share hardly any locks, so the measuring thread does not wait for a client in the idle
/// class.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    ebb_bench::command_line::main()
}
