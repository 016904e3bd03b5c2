//! The file with the record of the load: `load.csv` in the directory of the database.
//!
//! A line is appended every five minutes, without a sync: a loss of power may take the latest lines. The file is
//! replaced as a whole when old or wrong lines have to go, or while the clock is behind its last line. It is no part
//! of the database: backups do not have it, and without it a forecast is learned anew.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ebb_colocate::{LoadRecord, LoadSlot};
use tracing::warn;

/// The name of the file.
const FILE: &str = "load.csv";
/// The name of the file that replaces [`FILE`] by a rename, once it is complete.
const NEXT: &str = "load.csv.new";
/// The most bytes that are read of a file, its end: more than twice as many as a record can have.
const READ_BYTES_MAX: u64 = 1 << 20;
/// The mode of the file: only the server's user may read and write it.
const MODE: u32 = 0o600;
/// The mode of the file if the group may read the files of the database.
const GROUP_MODE: u32 = 0o640;

/// The record of the load on the disk.
#[derive(Debug)]
pub(super) struct LoadFile {
    dir: PathBuf,
    mode: u32,
    /// True if all lines of the file are whole and in the order of time, so that a line can be appended.
    is_whole: bool,
}

impl LoadFile {
    /// Reads the record of the load in the directory `dir` of a database. The record is empty if there is no
    /// file. Damaged lines are skipped, and those of a time that only a wrong clock shows.
    ///
    /// # Errors
    /// When the file cannot be read, or is no regular file; the error names it.
    pub(super) fn read(dir: &Path, is_group_readable: bool) -> io::Result<(Self, LoadRecord)> {
        let path = dir.join(FILE);
        let (record, is_whole) = match end_of(&path) {
            Ok(text) => LoadRecord::read(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => (LoadRecord::default(), false),
            Err(error) => return Err(named(&path, &error)),
        };
        let file = Self {
            dir: dir.to_path_buf(),
            mode: if is_group_readable { GROUP_MODE } else { MODE },
            is_whole,
        };
        Ok((file, record))
    }

    /// Adds a slot to `record` and to the file.
    ///
    /// # Errors
    /// When the file cannot be written; the error names it. The record has the slot nevertheless, and the next
    /// call writes the whole record.
    pub(super) fn add(&mut self, slot: LoadSlot, record: &mut LoadRecord) -> io::Result<()> {
        let change = record.push(slot);
        if change.dropped_ahead > 0 {
            warn!(
                target: "jobs",
                slots = change.dropped_ahead,
                "the record of the load loses the lines that are ahead of the clock, because the clock has been behind them for a day"
            );
        }
        if self.is_whole && change.is_appended && self.append(&slot.line()).is_ok() {
            return Ok(());
        }
        // If a line was appended in part, the rewriting removes it.
        self.is_whole = false;
        let next = self.dir.join(NEXT);
        if let Err(error) = self.replace(&next, &record.text()) {
            // On a full disk it would take space.
            let _ = fs::remove_file(&next);
            return Err(named(&self.dir.join(FILE), &error));
        }
        self.is_whole = true;
        Ok(())
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let file = OpenOptions::new().append(true).open(self.dir.join(FILE));
        file?.write_all(line.as_bytes())
    }

    fn replace(&self, next: &Path, text: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(MODE);
        let mut file = options.open(next)?;
        // The umask could take the permission away if the file were created with it.
        file.set_permissions(Permissions::from_mode(self.mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(next, self.dir.join(FILE))
    }
}

/// Returns the last [`READ_BYTES_MAX`] bytes of a file.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    // To open a pipe would wait for its other end.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    let mut file = File::open(path)?;
    let before = metadata.len().saturating_sub(READ_BYTES_MAX);
    file.seek(SeekFrom::Start(before))?;
    let mut text = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use ebb_colocate::SlotMean;

    use super::*;

    /// Returns the slot that begins `minutes` after midnight, with a load of `cores` cores.
    fn slot(minutes: u64, cores: f64) -> LoadSlot {
        let mut mean = SlotMean::default();
        let begin_s = (1_795_996_800 + minutes * 60) as f64;
        assert_eq!(mean.take(begin_s + 200.0, 200.0, cores), None);
        mean.take(begin_s + 300.0, 1.0, 0.0).unwrap()
    }

    fn read(dir: &Path) -> (LoadFile, LoadRecord) {
        LoadFile::read(dir, false).unwrap()
    }

    fn text(dir: &Path) -> String {
        fs::read_to_string(dir.join(FILE)).unwrap()
    }

    #[test]
    fn lines_are_appended_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, mut record) = read(dir.path());
        assert_eq!(record, LoadRecord::default());
        file.add(slot(0, 0.25), &mut record).unwrap();
        file.add(slot(5, 0.5), &mut record).unwrap();
        assert_eq!(text(dir.path()), "1795996800,0.250\n1795997100,0.500\n");
        let (mut file, mut again) = read(dir.path());
        assert_eq!(again, record);
        file.add(slot(20, 1.0), &mut again).unwrap();
        assert_eq!(text(dir.path()).lines().count(), 3);
        assert!(!dir.path().join(NEXT).exists());
    }

    #[test]
    fn a_damaged_end_is_skipped_and_removed_by_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let torn = "1795996800,0.250\n\0\0\n17959971";
        fs::write(dir.path().join(FILE), torn).unwrap();
        let (mut file, mut record) = read(dir.path());
        file.add(slot(5, 0.5), &mut record).unwrap();
        assert_eq!(text(dir.path()), "1795996800,0.250\n1795997100,0.500\n");
    }

    #[test]
    fn a_line_of_1970_is_not_read_and_is_removed_by_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let lines = "1795996800,0.250\n1795997100,0.500\n";
        fs::write(dir.path().join(FILE), format!("300,0.125\n{lines}")).unwrap();
        let (mut file, mut record) = read(dir.path());
        assert_eq!(record.text(), lines);
        file.add(slot(10, 0.75), &mut record).unwrap();
        assert_eq!(text(dir.path()), format!("{lines}1795997400,0.750\n"));
    }

    #[test]
    fn a_line_of_a_clock_that_is_behind_comes_before_later_lines() {
        let dir = tempfile::tempdir().unwrap();
        let later = "1795996800,0.250\n1895996700,0.500\n";
        fs::write(dir.path().join(FILE), later).unwrap();
        let (mut file, mut record) = read(dir.path());
        file.add(slot(5, 0.5), &mut record).unwrap();
        let mut lines = "1795996800,0.250\n1795997100,0.500\n1895996700,0.500\n".to_owned();
        assert_eq!(text(dir.path()), lines);
        // The clock is set.
        file.add(slot(1_666_670, 0.75), &mut record).unwrap();
        lines += "1895997000,0.750\n";
        assert_eq!(text(dir.path()), lines);
    }

    #[test]
    fn the_mode_is_that_of_the_other_files() {
        for (is_group_readable, mode) in [(false, 0o600), (true, 0o640)] {
            let dir = tempfile::tempdir().unwrap();
            let (mut file, mut record) = LoadFile::read(dir.path(), is_group_readable).unwrap();
            file.add(slot(0, 0.25), &mut record).unwrap();
            let metadata = fs::metadata(dir.path().join(FILE)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_or_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(FILE)).unwrap();
        let error = LoadFile::read(dir.path(), false).unwrap_err().to_string();
        assert!(error.contains("load.csv: it is no regular file"), "{error}");
        fs::remove_dir(dir.path().join(FILE)).unwrap();
        let (mut file, mut record) = read(dir.path());
        let gone = dir.path().to_path_buf();
        drop(dir);
        let error = file.add(slot(0, 0.5), &mut record).unwrap_err().to_string();
        assert!(error.contains("load.csv"), "{error}");
        // The record goes on, and the next file has all of it.
        fs::create_dir(&gone).unwrap();
        file.add(slot(5, 0.5), &mut record).unwrap();
        assert_eq!(text(&gone).lines().count(), 2);
        fs::remove_dir_all(&gone).unwrap();
    }

    #[test]
    fn of_a_file_that_is_too_large_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let line = "1795996800,0.250\n";
        let lines = READ_BYTES_MAX as usize / line.len() + 9;
        fs::write(
            dir.path().join(FILE),
            line.repeat(lines) + "1795997100,0.5\n",
        )
        .unwrap();
        assert_eq!(
            end_of(&dir.path().join(FILE)).unwrap().len() as u64,
            READ_BYTES_MAX
        );
        let (_, record) = read(dir.path());
        assert!(record.text().ends_with("1795997100,0.500\n"));
    }
}
