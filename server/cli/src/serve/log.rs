//! The log of a server: lines on stderr, for people or for programs.
//!
//! ```text
//!   event ─ levels ─> line, control characters escaped ─ queue ─> thread `ebb-log` ─> stderr
//!                                                          └─ full: dropped and counted
//! ```
//!
//! A separate thread writes the lines, so that a thread that logs never waits. If lines come faster
//! than they can be written, the latest are dropped.

use std::io::{self, IsTerminal, Write, stderr};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tracing::warn;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use super::log_levels::{LogLevels, SERVER};
use crate::escape::escaped;

/// The greatest number of lines that wait to be written.
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

/// The log of this process. Dropping it writes the lines that wait.
pub(super) struct Log {
    pub(super) dropped: DroppedLines,
    _written_at_the_end: WorkerGuard,
}

/// The number of lines that were dropped because too many waited.
#[derive(Debug, Clone, Default)]
pub(super) struct DroppedLines(Arc<OnceLock<ErrorCounter>>);

impl DroppedLines {
    pub(super) fn count(&self) -> u64 {
        let counter = self.0.get();
        counter.map_or(0, |counter| counter.dropped_lines() as u64)
    }
}

/// Starts the log. If `format` is `None`, the lines are for people if stderr is a terminal, otherwise JSON.
/// May be called once in a process.
pub(super) fn begin(levels: &LogLevels, format: Option<LogFormat>) -> Log {
    let is_terminal = stderr().is_terminal();
    let format = format.unwrap_or(if is_terminal {
        LogFormat::Human
    } else {
        LogFormat::Json
    });
    let dropped = DroppedLines::default();
    let output = Output {
        output: stderr(),
        dropped: dropped.clone(),
        reported: 0,
    };
    let (queue, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_WAITING_MAX)
        .lossy(true)
        .thread_name("ebb-log")
        .finish(output);
    dropped.0.get_or_init(|| queue.error_counter());
    let lines = lines(format, is_terminal, move || queue.clone());
    tracing_subscriber::registry()
        .with(lines.with_filter(levels.filter()))
        .init();
    Log {
        dropped,
        _written_at_the_end: guard,
    }
}

/// Returns the layer that makes a line of each event, and passes the line to a writer that `writer`
/// returns.
fn lines<W: Write + 'static>(
    format: LogFormat,
    is_colored: bool,
    writer: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = layer().with_writer(move || Escaping {
        lines: writer(),
        is_colored,
    });
    match format {
        LogFormat::Human => lines.with_ansi(is_colored).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines.with_current_span(false).with_span_list(false).boxed()
        }
    }
}

/// A writer of whole lines that escapes control characters within them. Names and paths may contain
/// such characters: without the escapes, a line feed in a name could forge a line of the log.
struct Escaping<W> {
    lines: W,
    /// True if the lines contain escape sequences for colors, which are not to be escaped here. The
    /// layer that formats the lines has escaped those in messages already.
    is_colored: bool,
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = escaped_line(&String::from_utf8_lossy(line), self.is_colored);
        self.lines.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }
}

fn escaped_line(line: &str, is_colored: bool) -> String {
    let (text, end) = match line.strip_suffix('\n') {
        Some(text) => (text, "\n"),
        None => (line, ""),
    };
    escaped(text, |character| is_colored && character == '\x1b') + end
}

/// The output of the thread that writes the lines.
struct Output<W> {
    output: W,
    dropped: DroppedLines,
    /// The number of dropped lines in the reports so far.
    reported: u64,
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    /// Logs how many lines were dropped since the last report. The thread calls this when no line
    /// waits any more, so there is room for such a line.
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()?;
        let dropped = self.dropped.count();
        let lines = dropped - self.reported;
        if lines > 0 {
            self.reported = dropped;
            warn!(target: SERVER, lines, "lines of the log were dropped: too many came at once");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use tracing::subscriber::with_default;

    use super::*;

    /// The bytes written so far.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the bytes that a log writes for the events that `log` emits.
    fn logged(format: LogFormat, is_colored: bool, log: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let lines = lines(format, is_colored, move || writer.clone());
        with_default(tracing_subscriber::registry().with(lines), log);
        let bytes = written.0.lock().unwrap();
        String::from_utf8(bytes.clone()).unwrap()
    }

    #[test]
    fn no_name_can_forge_a_line() {
        let name = "a\n2026-01-01 ERROR forged\r\x1b[2J\x1b]0;x\x07\u{85}\u{2028}\u{9b}\x7f\0b";
        for format in [LogFormat::Human, LogFormat::Json] {
            for is_colored in [false, true] {
                let line = logged(format, is_colored, || {
                    warn!(target: SERVER, name, "role {name}");
                });
                assert_eq!(line.lines().count(), 1, "{line:?}");
                assert!(line.ends_with('\n'), "{line:?}");
                assert!(!line.contains("\x1b[2J"), "{line:?}");
                let is_bad = |c: char| (c.is_control() && c != '\x1b') || c == '\u{2028}';
                assert!(!line.trim_end().contains(is_bad), "{line:?}");
                if format == LogFormat::Json {
                    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                    let fields = (&line["name"], &line["target"]);
                    assert_eq!(fields, (&name.into(), &SERVER.into()));
                }
            }
        }
    }

    /// A writer that writes nothing until the test ends.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error means that the test has ended.
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn dropped_lines_are_counted_and_reported_once() {
        let (end, ended) = channel();
        let queue = NonBlockingBuilder::default().buffered_lines_limit(2);
        let (mut queue, _guard) = queue.lossy(true).finish(Stuck(ended));
        // The thread takes at most one of them, and two wait.
        for _ in 0..10 {
            queue.write_all(b"a line\n").unwrap();
        }
        let mut output = Output {
            output: Written::default(),
            dropped: DroppedLines::default(),
            reported: 0,
        };
        output.dropped.0.get_or_init(|| queue.error_counter());
        let dropped = output.dropped.count();
        assert!((7..=8).contains(&dropped), "{dropped}");
        let line = logged(LogFormat::Json, false, || {
            output.flush().unwrap();
            output.flush().unwrap();
        });
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let fields = (&line["level"], &line["lines"]);
        assert_eq!(fields, (&"WARN".into(), &dropped.into()));
        drop(end);
    }
}
