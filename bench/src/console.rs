//! Shared parts of the commands' interface: parsing and formatting of numbers, progress bars,
//! Ctrl-C, temporary directories, JSON files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tempfile::TempDir;

/// The length of the progress bar of a run, in steps. Some runs end after a number of operations
/// and others after a time, so the bar counts thousandths of the run.
pub const BAR_STEPS: u64 = 1000;

/// Creates a progress bar on stderr. Nothing is drawn if stderr is not a terminal.
pub fn progress_bar(name: impl Into<Cow<'static, str>>, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>5} {wide_bar} {percent:>3}% {eta}")
        .expect("the template is valid");
    ProgressBar::new(length)
        .with_style(style)
        .with_message(name)
}

/// Returns a flag that the first Ctrl-C sets, to end work early. A second Ctrl-C ends the process.
pub fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    const EXIT_INTERRUPTED: i32 = 130;
    let stop = Arc::new(AtomicBool::new(false));
    let handler = {
        let stop = stop.clone();
        move || {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(EXIT_INTERRUPTED);
            }
        }
    };
    ctrlc::set_handler(handler).context("cannot handle Ctrl-C")?;
    Ok(stop)
}

/// Creates a temporary directory, which is removed when the returned value is dropped.
pub fn temporary_directory(name: &str) -> Result<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix(&format!("ebb-{name}-"))
        .tempdir();
    directory.context("cannot create a temporary directory")
}

/// Writes a value to the file at `path`, indented; does nothing without a path.
pub fn write_json(path: Option<&Path>, value: &impl Serialize) -> Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    let write = || -> Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, value)?;
        file.write_all(b"\n")?;
        Ok(file.flush()?)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Formats bytes as megabytes of 10^6 bytes.
pub fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Parses a rate on the command line: operations per second, above 0.
pub fn rate(text: &str) -> Result<f64, String> {
    positive(text).ok_or_else(|| "not a rate above 0, in operations per second".to_string())
}

/// Parses a time on the command line: seconds, above 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    positive(text)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        // A later deadline would overflow the clock.
        .filter(|duration| *duration < Duration::from_secs(1 << 32))
        .ok_or_else(|| "not a number of seconds above 0".to_string())
}

fn positive(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_above_0() {
        assert_eq!(rate("2.5e3"), Ok(2500.0));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "ten", "", "1e300"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-1", "nan", "inf", "ten", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
