//! Runs a whole database under schedules that shuttle draws, and reports how
//! many it ran and which one failed.
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
    eprintln!("schedules: build this with RUSTFLAGS=\"--cfg shuttle\"; threads run freely without");
    std::process::ExitCode::from(2)
}
