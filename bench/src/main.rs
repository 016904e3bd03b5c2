//! The `ebb-bench` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb_bench::command_line::main()
}
