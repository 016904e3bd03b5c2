//! The working directory of a command, and the result of its run.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ebb_test_support::wait::{HANG, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The environment variable that, if set, gives jobs all cores and keeps them out of the idle
/// class, so that tests do not wait for CPU that other processes use.
pub const UNPACED: &str = "EBB_TEST_UNPACED";

/// The time after which a command counts as hung. It is longer than [`HANG`] because one test has a
/// job in the kernel's idle class, which makes hardly any progress while a build uses all cores.
const COMMAND_HANG: Duration = Duration::from_secs(3 * HANG.as_secs());

/// A temporary directory in which a test runs its commands; the database is in `ebb-data`.
pub struct Place {
    pub dir: tempfile::TempDir,
}

/// A child process. Dropping this value kills the process, so a test that fails leaves none behind.
pub struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Returns the child process, whose pipes the caller can use.
    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("only `output` takes it")
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("only `output` takes it").id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.0.as_ref().expect("only `output` takes it"));
        kill_process(pid, signal).unwrap();
    }

    /// Returns the exit status if the process has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child().try_wait().unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        self.status().is_some()
    }

    /// Kills the process with SIGKILL, and waits until it is gone.
    pub fn kill(self) {
        drop(self);
    }

    /// Waits until the process ends; returns its exit status and what it wrote to pipes.
    ///
    /// # Panics
    /// If the process runs for longer than [`COMMAND_HANG`].
    #[track_caller]
    pub fn output(mut self) -> Output {
        let child = self.0.take().expect("only `output` takes it");
        let pid = Pid::from_child(&child);
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        match ended.recv_timeout(COMMAND_HANG) {
            Ok(output) => output.unwrap(),
            Err(_) => {
                let _may_have_ended = kill_process(pid, Signal::KILL);
                panic!("the process did not end within {COMMAND_HANG:?}");
            }
        }
    }
}

/// Runs a command as [`Command::output`] does, with a time limit.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command).output()
}

/// Returns an output whose reader is gone, as that of `head` is.
pub fn closed() -> Stdio {
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    OwnedFd::from(writer).into()
}

/// The result of a command: its exit code and its output.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// Runs a command to its end.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = output(command);
        Self {
            code: status.code().expect("not killed"),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Checks that the job succeeded; returns its rows without the line of the columns' names.
    #[track_caller]
    pub fn rows(self) -> String {
        let text = self.ok();
        let (_names, rows) = text.split_once('\n').expect("a line of names");
        rows.to_owned()
    }

    /// Checks that the command failed with this code; returns the error message.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("ebb: "), "{}", self.stderr);
        self.stderr
    }

    /// Checks that the command refused its arguments; returns the error message.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, 2, "{}{}", self.stdout, self.stderr);
        self.stderr
    }

    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"))
    }
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the paths of the directory `name` and of all files and directories in it, each
    /// directory before its content, sorted by name.
    pub fn files(&self, name: &str) -> Vec<String> {
        let entries = walkdir::WalkDir::new(self.path(name)).sort_by_file_name();
        let path = |entry: walkdir::DirEntry| entry.path().display().to_string();
        entries
            .into_iter()
            .map(|entry| path(entry.unwrap()))
            .collect()
    }

    /// Returns the command `ebb` with the words of `line`. Its jobs do not wait for CPU that other
    /// processes use: [`UNPACED`] is set.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env_remove("EBB_DATA")
            .env(UNPACED, "1");
        command
    }

    /// Waits until the lock of a database that this process has closed is free. A child that another
    /// test forks has copies of all file handles, including that of the lock, until it executes its
    /// program.
    #[track_caller]
    pub fn until_unlocked(&self) {
        until("the lock of the database", || {
            self.ebb("delete no.table k").code != 4
        });
    }

    /// Waits until a job has succeeded.
    #[track_caller]
    pub fn until_succeeded(&self, job: &str) {
        until("the job to succeed", || {
            let found = self.ebb(&format!("jobs {job} --json")).json();
            let state = found["state"].as_str().unwrap();
            assert!(matches!(state, "started" | "succeeded"), "{found}");
            state == "succeeded"
        });
    }

    /// Runs `ebb` with the words of `line`.
    #[track_caller]
    pub fn ebb(&self, line: &str) -> Done {
        Done::of(&mut self.command(line))
    }
}
