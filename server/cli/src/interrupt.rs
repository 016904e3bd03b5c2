//! Ctrl-C, SIGTERM and SIGHUP, for commands that clean up before they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// As shells tell it of a command that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

/// True after the first signal, for whoever works to end early; the second ends the
/// process. To be asked for once in a process.
pub(super) fn cancelled() -> Result<Arc<AtomicBool>> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let handler = {
        let cancelled = cancelled.clone();
        move || {
            if cancelled.swap(true, Ordering::Relaxed) {
                std::process::exit(EXIT_INTERRUPTED);
            }
        }
    };
    ctrlc::set_handler(handler).context("cannot listen for an interrupt")?;
    Ok(cancelled)
}
