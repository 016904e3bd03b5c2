//! What the commands share towards whoever runs them: bars, Ctrl-C, JSON files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Drawn on stderr, and only when that is a terminal.
pub fn progress_bar(name: impl Into<Cow<'static, str>>, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>5} {wide_bar} {percent:>3}% {eta}")
        .expect("the template is valid");
    ProgressBar::new(length)
        .with_style(style)
        .with_message(name)
}

/// True after the first Ctrl-C, for whoever works to end early; the second ends
/// the process.
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

/// Writes a value to a file, indented.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let write = || -> Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, value)?;
        file.write_all(b"\n")?;
        Ok(file.flush()?)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
