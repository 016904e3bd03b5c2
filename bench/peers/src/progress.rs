//! The progress on stderr: a line for each phase, and a bar if stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::phase::Phase;
use crate::run::{Progress, Turn};

/// The lines and the bar.
#[derive(Debug)]
pub struct TerminalProgress {
    bar: ProgressBar,
    turn: String,
}

impl TerminalProgress {
    /// Creates the bar of a measurement of `turns` turns.
    pub fn new(turns: u64) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} {msg}")
            .expect("the template is valid");
        Self {
            bar: ProgressBar::new(turns).with_style(style),
            turn: String::new(),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Progress for TerminalProgress {
    fn turn(&mut self, round: u32, job: &str, entrant: &str) {
        self.turn = format!("round {} {job:<9} {entrant:<9}", round + 1);
        self.bar.set_message(self.turn.clone());
    }

    fn phase(&mut self, phase: &Phase) {
        let rate = |metric| format!("{:>10.0}", phase.get(metric));
        let mut line = format!("{} {:<13}", self.turn, phase.name);
        if phase.get("ops_per_s") > 0.0 {
            line += &format!(" {} ops/s", rate("ops_per_s"));
        }
        if phase.get("ops_per_cpu_s") > 0.0 {
            line += &format!(" {} ops/cpu s", rate("ops_per_cpu_s"));
        }
        self.line(&line);
    }

    fn done(&mut self, turn: &Turn) {
        if let Some(failure) = &turn.failure {
            self.line(&format!("{} failed: {failure}", self.turn));
        }
        self.bar.inc(1);
    }
}
