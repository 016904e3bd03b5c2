//! The file of the audit log. A full file becomes `audit.log.1`, that one `audit.log.2`, and so on.
//!
//! Several processes append to it: a server, and commands that change tokens. Each holds a lock on
//! the file while it appends to the file and while it rotates it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::retry_on_intr;
use rustix::process::geteuid;

/// The greatest size of a file, in bytes. A line that would exceed it goes to a new file.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;
/// The number of full files that are kept beside the one that lines are appended to.
const FULL_KEPT: u32 = 4;
/// The mode of the audit log: only the server's user may read and write it.
const MODE: u32 = 0o600;
/// The least space that is kept allocated behind the end of the file, in bytes: enough for some hundred lines
/// on a full disk.
const HELD_BYTES_MIN: u64 = 64 << 10;

/// The audit log on the disk: the file to which lines are appended, and the full files, which were renamed.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file_bytes_max: u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The offset in the file up to which space is allocated. It may lie behind the end of the file.
    held_to: u64,
}

impl AuditFile {
    /// Returns the log whose file is at `path`. The first [`append`](Self::append) opens or creates the file.
    /// Before the file would exceed `file_bytes_max`, a new one takes its place.
    pub(super) fn new(path: PathBuf, file_bytes_max: u64) -> Self {
        Self {
            path,
            file_bytes_max,
            open: None,
        }
    }

    /// Appends whole lines. If that fails, cuts off what it has written of them.
    ///
    /// # Errors
    /// When the file cannot be opened, locked, rotated or written; the error names the file.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let appended = self.try_append(lines);
        appended.map_err(|error| self.named(&error))
    }

    /// Returns `error` with the path of the file. If this process has no permission for the file, because a
    /// command of root created it for example, the error also has the owner and mode of the file and the
    /// commands that correct them.
    fn named(&self, error: &io::Error) -> io::Error {
        let (path, kind) = (self.path.display(), error.kind());
        let is_denied = kind == io::ErrorKind::PermissionDenied;
        let found = fs::metadata(&self.path).ok().filter(|_| is_denied);
        let Some(found) = found else {
            return io::Error::new(kind, format!("{path}: {error}"));
        };
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        let own = geteuid().as_raw();
        let text = format!(
            "{path}: {error}; its owner is user {owner} and its mode {mode:04o}, and this process runs \
             as user {own}: as root, run `chown {own} {path} && chmod {MODE:04o} {path}`, and use `ebb \
             token` as user {own} from then on"
        );
        io::Error::new(kind, text)
    }

    fn try_append(&mut self, lines: &[u8]) -> io::Result<()> {
        // After an error the file is closed, which unlocks it, and opened anew the next time.
        let mut open = self.lock()?;
        let mut bytes = open.file.metadata()?.len();
        let more = lines.len() as u64;
        if bytes > 0 && bytes + more > self.file_bytes_max {
            self.rotate()?;
            open = self.lock()?;
            bytes = open.file.metadata()?.len();
        }
        let written = open.write(bytes, lines);
        if written.is_err() {
            // Removes a part of a line. If that fails too, the next write begins with a line break.
            let _ = open.file.set_len(bytes);
        }
        written?;
        open.hold(bytes + more);
        flock(&open.file, FlockOperation::Unlock)?;
        self.open = Some(open);
        Ok(())
    }

    /// Returns the open file, locked against other processes. If the file at the path is not the open one,
    /// because another process has rotated the log, opens the new file.
    fn lock(&mut self) -> io::Result<Open> {
        loop {
            let open = match self.open.take() {
                Some(open) => open,
                None => self.open()?,
            };
            retry_on_intr(|| flock(&open.file, FlockOperation::LockExclusive))?;
            // While this process waited, another one may have put the file aside.
            if is_at(&open.file, &self.path)? {
                return Ok(open);
            }
        }
    }

    fn open(&self) -> io::Result<Open> {
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(MODE);
        let file = options.open(&self.path)?;
        Ok(Open { file, held_to: 0 })
    }

    /// Renames each file to the next higher number, so that the path is free for a new file; the oldest full
    /// file is replaced. The file that lines are appended to is renamed last: until then this process holds
    /// its lock, and other processes wait for that lock instead of starting a rotation of their own.
    fn rotate(&self) -> io::Result<()> {
        for number in (0..FULL_KEPT).rev() {
            match fs::rename(self.full(number), self.full(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the path of the full file with this number, from 1 for the newest; for 0, the path of the file
    /// that lines are appended to.
    fn full(&self, number: u32) -> PathBuf {
        match number {
            0 => self.path.clone(),
            number => self.path.with_added_extension(number.to_string()),
        }
    }
}

impl Open {
    /// Appends lines to the file, whose length is `bytes`. If the file ends within a line, as after a
    /// crash of the machine, a line break comes first, so that only the cut line is lost.
    fn write(&mut self, bytes: u64, lines: &[u8]) -> io::Result<()> {
        let mut last = *b"\n";
        if let Some(at) = bytes.checked_sub(1) {
            self.file.read_exact_at(&mut last, at)?;
        }
        if last != *b"\n" {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(lines)
    }

    /// Allocates space behind the end of the file, at offset `bytes`, so that the next lines can be written
    /// on a full disk. The length of the file stays the same. Some file systems cannot allocate ahead; then
    /// there is no such space.
    fn hold(&mut self, bytes: u64) {
        if self.held_to < bytes + HELD_BYTES_MIN {
            let more = 2 * HELD_BYTES_MIN;
            if fallocate(&self.file, FallocateFlags::KEEP_SIZE, bytes, more).is_ok() {
                self.held_to = bytes + more;
            }
        }
    }
}

/// Returns whether `file` is the file that is at `path` now; false if there is none.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_processes_are_kept_and_full_files_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let file = || AuditFile::new(dir.path().join("audit.log"), 300);
        let (mut one, mut other) = (file(), file());
        for number in 0..120 {
            for (file, name) in [(&mut one, "one--"), (&mut other, "other")] {
                let line = format!("{number:03}.{name}\n");
                file.append(line.as_bytes()).unwrap();
            }
        }
        let kept = (0..=FULL_KEPT).rev().map(|number| one.full(number));
        let kept: String = kept.map(|path| fs::read_to_string(path).unwrap()).collect();
        let expected = (45..120).map(|number| format!("{number:03}.one--\n{number:03}.other\n"));
        assert_eq!(kept, expected.collect::<String>());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
        let mode = fs::metadata(one.full(0)).unwrap().mode();
        assert_eq!(mode & 0o777, MODE);
    }

    /// Regression: `ebb token`, run as root, had created the log, and the server, which runs as another user,
    /// refused all administration.
    #[test]
    fn an_error_of_permissions_names_the_owner_the_mode_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = AuditFile::new(dir.path().join("audit.log"), 300);
        file.append(b"one\n").unwrap();
        let (path, own) = (file.path.display().to_string(), geteuid().as_raw());
        let named = |kind: io::ErrorKind| file.named(&kind.into()).to_string();
        let denied = named(io::ErrorKind::PermissionDenied);
        for part in [
            format!("{path}: permission denied; its owner is user {own} and its mode 0600"),
            format!("`chown {own} {path} && chmod 0600 {path}`"),
        ] {
            assert!(denied.contains(&part), "{denied}");
        }
        let full = named(io::ErrorKind::StorageFull);
        assert!(full.starts_with(&path) && !full.contains("chown"), "{full}");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_does_not_spoil_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        fs::write(&path, "whole\nha").unwrap();
        let mut file = AuditFile::new(path.clone(), 300);
        file.append(b"one\n").unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "whole\nha\none\ntwo\n");
    }
}
