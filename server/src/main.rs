//! The `ebb` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb_server::cli::main()
}
