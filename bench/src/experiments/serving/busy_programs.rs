//! Programs that keep all cores busy, in the session of the server or in sessions of their own.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The number of busy programs: two, because the results in the book were measured on a machine
/// with two cores. The limits of the part `neighbours` are for such a machine, too.
pub(super) const PROGRAMS: usize = 2;

/// A shell program that counts without end, and checks at intervals that its parent is alive, so that
/// none is left if the parent is killed.
const COUNTS: &str =
    r#"while kill -0 "$PPID"; do n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done; done"#;

/// The session of the busy programs. It matters if the kernel divides the CPU among sessions first
/// (`sched_autogroup`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The session of this process, and so that of the server. The kernel compares each thread of
    /// the server with the programs, by class and nice value.
    WithServer,
    /// A session of its own for each program. With `sched_autogroup`, the class and the nice value of
    /// a thread of the server do not count against the programs.
    Apart,
}

/// Shells that count without end, to keep cores busy. They are killed when this value is dropped.
#[derive(Debug)]
pub(super) struct BusyPrograms(Vec<Child>);

impl BusyPrograms {
    /// Starts the programs, as children of this process.
    ///
    /// # Errors
    /// When the system has no `sh`, or no `setsid` (package util-linux) for [`Place::Apart`].
    pub(super) fn start(place: Place) -> Result<Self> {
        let mut programs = Self(Vec::new());
        for _ in 0..PROGRAMS {
            let mut program = match place {
                Place::WithServer => Command::new("sh"),
                // Its process becomes the shell, because a new child leads no process group.
                Place::Apart => {
                    let mut setsid = Command::new("setsid");
                    setsid.arg("sh");
                    setsid
                }
            };
            program.args(["-c", COUNTS]).stderr(Stdio::null());
            let started = program.spawn();
            let started = started.with_context(|| format!("cannot start {program:?}"))?;
            programs.0.push(started);
        }
        Ok(programs)
    }
}

impl Drop for BusyPrograms {
    fn drop(&mut self) {
        for program in &mut self.0 {
            // Errors are ignored: the program may have ended already.
            drop(program.kill());
            drop(program.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ebb_test_support::wait::until;
    use procfs::process::{Process, Stat};

    use super::*;

    fn stat(program: &Child) -> Stat {
        let pid = i32::try_from(program.id()).unwrap();
        Process::new(pid).unwrap().stat().unwrap()
    }

    #[test]
    fn busy_programs_end_with_their_owner() {
        for place in [Place::WithServer, Place::Apart] {
            let programs = BusyPrograms::start(place).unwrap();
            let path = |program: &Child| PathBuf::from(format!("/proc/{}", program.id()));
            let paths: Vec<PathBuf> = programs.0.iter().map(path).collect();
            assert_eq!(paths.len(), PROGRAMS);
            assert!(paths.iter().all(|path| path.exists()));
            drop(programs);
            assert!(!paths.iter().any(|path| path.exists()));
        }
    }

    #[test]
    fn programs_apart_are_children_with_sessions_of_their_own() {
        let own = Process::myself().unwrap().stat().unwrap();
        let programs = BusyPrograms::start(Place::WithServer).unwrap();
        for program in &programs.0 {
            assert_eq!(stat(program).session, own.session);
        }
        let programs = BusyPrograms::start(Place::Apart).unwrap();
        for program in &programs.0 {
            until("a new session", || {
                let stat = stat(program);
                stat.session == stat.pid && stat.comm == "sh"
            });
            assert_eq!(stat(program).ppid, own.pid);
        }
    }
}
