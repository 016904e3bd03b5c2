//! Progress bars on stderr, with the time that is left. They are hidden unless stderr is a terminal.

use std::time::Duration;

use ebb_storage::MaintenanceProgress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The time between two updates of a bar.
pub(super) const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// Creates a bar over bytes, with a place for a message.
pub(super) fn byte_bar(total_bytes: u64) -> ProgressBar {
    let style = "{bar:32} {binary_bytes:>10} of {binary_total_bytes:<10} \
                 {binary_bytes_per_sec:>12}  {eta} left  {msg}";
    ProgressBar::new(total_bytes).with_style(style_of(style))
}

/// Runs a backup, a restore, a verification or a repair, and shows a progress bar over its bytes.
pub(super) fn maintenance_bar<T>(
    work: impl FnOnce(&mut dyn FnMut(MaintenanceProgress)) -> ebb_storage::Result<T>,
) -> ebb_storage::Result<T> {
    let bar = byte_bar(0);
    let done = work(&mut |progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes_done);
    });
    bar.finish_and_clear();
    done
}

/// Creates a spinner with a count of bytes, for a total that is not known.
pub(super) fn byte_spinner() -> ProgressBar {
    let style = style_of("{spinner} {binary_bytes:>10} {binary_bytes_per_sec:>12}  {msg}");
    let spinner = ProgressBar::new_spinner().with_style(style);
    spinner.enable_steady_tick(REDRAW_EVERY);
    spinner
}

/// Creates a bar over the runs of a simulation.
pub(super) fn run_bar(runs: u64) -> ProgressBar {
    let style = style_of("{bar:32} {pos:>5} of {len:<5} runs  {eta} left");
    ProgressBar::new(runs).with_style(style)
}

/// Restarts a bar from zero, to count `rows` rows.
pub(super) fn restart_with_rows(bar: &ProgressBar, rows: u64) {
    let style = "{bar:32} {human_pos:>12} of {human_len} rows written  {eta} left";
    bar.set_style(style_of(style));
    bar.set_length(rows);
    bar.reset();
}

/// Creates a spinner for an unknown amount of work.
pub(super) fn spinner(what: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(REDRAW_EVERY);
    spinner
}

/// Shows a spinner while `work` runs.
pub(super) fn spinner_while<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let spinner = spinner(what);
    let done = work();
    spinner.finish_and_clear();
    done
}

/// Creates a bar over the tasks of a phase of a job, below the bars in `all`.
pub(super) fn phase_bar(all: &MultiProgress, phase: &'static str, tasks: u32) -> ProgressBar {
    let style = style_of("{prefix:>8} {bar:32} {pos:>5} of {len:<5} {eta:>4} left  {msg}");
    let bar = all.add(ProgressBar::new(u64::from(tasks)).with_style(style));
    bar.set_prefix(phase);
    bar
}

fn style_of(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant")
}
