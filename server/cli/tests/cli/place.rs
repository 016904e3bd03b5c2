//! Where a command runs, and what it did.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A working directory of its own; the database is in `ebb-data`.
pub struct Place {
    pub dir: tempfile::TempDir,
}

/// What a command did.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// What a command does.
    pub fn of(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
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

    /// Failed with this code; gives what was said.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("ebb: "), "{}", self.stderr);
        self.stderr
    }

    /// Was refused for its arguments; gives what was said.
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

    /// The names of all files and directories below one, sorted.
    pub fn files(&self, name: &str) -> Vec<String> {
        let entries = walkdir::WalkDir::new(self.path(name)).sort_by_file_name();
        let path = |entry: walkdir::DirEntry| entry.path().display().to_string();
        entries
            .into_iter()
            .map(|entry| path(entry.unwrap()))
            .collect()
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env_remove("EBB_DATA");
        command
    }

    /// Waits until no process has the database open that this one had. A child that
    /// another test forks has copies of all handles, its lock too, until it becomes
    /// another program.
    pub fn until_unlocked(&self) {
        let is_free = (0..10_000).any(|_| self.ebb("delete no.table k").code != 4);
        assert!(is_free, "locked for ever");
    }

    /// Runs `ebb` with the words of `line`.
    pub fn ebb(&self, line: &str) -> Done {
        Done::of(&mut self.command(line))
    }
}
