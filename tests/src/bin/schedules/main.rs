//! Runs a whole database under random schedules of its threads, with shuttle, and reports how many
//! schedules ran and which scenarios failed.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo run -p ebb-tests --target-dir target/shuttle \
//!     --bin schedules -- --iterations 1000 --seed 1
//! ```

#[cfg(shuttle)]
mod disk;
#[cfg(shuttle)]
mod explore;
#[cfg(shuttle)]
mod scenarios;

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    explore::main()
}

#[cfg(not(shuttle))]
fn main() -> std::process::ExitCode {
    eprintln!("schedules: needs a build with RUSTFLAGS=\"--cfg shuttle\" to control the threads");
    std::process::ExitCode::from(2)
}
