//! A typed job in a few lines of code: counts the requests of each hour in the
//! lines of a log, and finds the slowest.
//!
//! ```sh
//! cargo run --release -p ebb-scheduler --example busiest_hours
//! ```

use ebb_scheduler::runtime::typed::{self, Pairs, TypedValues};
use ebb_scheduler::runtime::{
    Emit, Outcome, Runtime, RuntimeOptions, TaskError, VecInput, VecOutput,
};
use std::sync::Arc;

const LOG: &str = "\
09:58 GET /basket 12
10:01 GET /basket 15
10:02 PUT /basket 70
9:59 unreadable
10:40 GET /order 31
11:12 GET /basket 11";

/// The number of requests in an hour, and the time that the slowest of them took, in
/// milliseconds.
type Load = (u64, u64);

/// Parses a line `HH:MM METHOD PATH MS` into its hour and milliseconds.
fn parse(line: &[u8]) -> Option<(u8, u64)> {
    let line = std::str::from_utf8(line).ok()?;
    let hour = line.get(..2)?.parse().ok()?;
    let ms = line.rsplit_once(' ')?.1.parse().ok()?;
    Some((hour, ms))
}

fn merge(a: Load, b: Load) -> Load {
    (a.0 + b.0, a.1.max(b.1))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let output = VecOutput::new();
    let input = Arc::new(VecInput::lines(LOG, 3));
    let job = typed::map(
        "busiest hours",
        input,
        |_, line, emit: &mut Pairs<'_, u8, Load>| match parse(line) {
            Some((hour, ms)) => emit.emit(&hour, &(1, ms)),
            None => Ok(()),
        },
    )
    .combine(merge)
    .reduce(
        2,
        |hour, loads: &mut TypedValues<'_, '_, Load>, emit: &mut dyn Emit| {
            let (requests, ms_max) =
                loads.try_fold((0, 0), |sum, load| Ok::<_, TaskError>(merge(sum, load?)))?;
            let row = format!("{requests} requests, {ms_max} ms at most");
            emit.emit(format!("{hour:02}:00").as_bytes(), row.as_bytes())
        },
    )
    .output(Arc::new(output.clone()))
    .globally_sorted();

    let runtime = Runtime::start(RuntimeOptions::new(2))?;
    let report = runtime.submit(job)?.wait();
    if let Outcome::Failed { cause } = report.outcome {
        return Err(cause.into());
    }
    for (hour, row) in output.rows().unwrap_or_default() {
        println!(
            "{}  {}",
            String::from_utf8_lossy(&hour),
            String::from_utf8_lossy(&row)
        );
    }
    Ok(())
}
