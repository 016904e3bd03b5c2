//! The log of a server: lines on stderr, for people or for programs.
//!
//! A separate thread writes the lines, so that a thread that logs never waits. If lines come faster
//! than they can be written, the latest are dropped.

use std::io::{IsTerminal, stderr};

use serde::{Deserialize, Serialize};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines that may wait to be written.
const LINES_WAITING_MAX: usize = 4096;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people.
    Human,
    /// A JSON object in each line, for programs.
    Json,
}

/// Starts the log of lines of `level` and of graver levels, until the guard is dropped. May be
/// called once in a process.
pub(super) fn begin(level: LevelFilter, format: Option<LogFormat>) -> WorkerGuard {
    let is_terminal = stderr().is_terminal();
    let format = format.unwrap_or(match is_terminal {
        true => LogFormat::Human,
        false => LogFormat::Json,
    });
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_WAITING_MAX)
        .lossy(true)
        .thread_name("ebb-log")
        .finish(stderr());
    let lines = layer().with_writer(writer).with_target(false);
    let lines = match format {
        LogFormat::Human => lines.with_ansi(is_terminal).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines.with_current_span(false).with_span_list(false).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(level))
        .init();
    guard
}
