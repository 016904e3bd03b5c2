//! The instructions that a process executes, counted by `perf stat`.

use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::threads::pause;

/// The pause after the start of `perf`, long enough for `perf` to begin to count. Its length is fixed,
/// because `perf` prints nothing when it begins.
const ATTACH: Duration = Duration::from_millis(500);

/// A running `perf` that counts the CPU instructions of a process. It is ended when this value is
/// dropped.
#[derive(Debug)]
pub(super) struct Instructions(Child);

impl Drop for Instructions {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Instructions {
    /// Begins to count the instructions that a process executes in user mode. The process has to be
    /// idle until this returns. Returns `None` if `perf` is not installed.
    pub(super) fn start(pid: i32) -> Result<Option<Self>> {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x", ",", "-e", "instructions:u", "-p"]);
        perf.arg(pid.to_string()).stdout(Stdio::null());
        match perf.stderr(Stdio::piped()).spawn() {
            Ok(perf) => {
                let counting = Self(perf);
                pause(ATTACH);
                Ok(Some(counting))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("cannot start perf"),
        }
    }

    /// Returns the instructions since the start; `None` if the machine does not count them.
    pub(super) fn end(mut self) -> Result<Option<u64>> {
        kill_process(Pid::from_child(&self.0), Signal::INT).context("cannot end perf")?;
        let mut errors = self.0.stderr.take().context("its errors are piped")?;
        let mut printed = String::new();
        errors.read_to_string(&mut printed)?;
        Ok(counted(&printed))
    }
}

/// Returns the count in the output of `perf`; `None` if `perf` printed a reason in place of the
/// count.
fn counted(printed: &str) -> Option<u64> {
    let mut lines = printed.lines();
    let line = lines.find(|line| line.contains("instructions"))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_and_a_reason_is_none() {
        let counts = "\n123456789,,instructions:u,2000000,100.00,1.21,insn per cycle\n";
        assert_eq!(counted(counts), Some(123_456_789));
        assert_eq!(
            counted("<not supported>,,instructions:u,0,100.00,,\n"),
            None
        );
        assert_eq!(counted("Error: cannot attach\n"), None);
    }
}
