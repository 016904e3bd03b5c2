//! Names of the files of a database directory.
//!
//! ```text
//!   LOCK             held by the process that has the directory open
//!   CURRENT          the name of the live manifest
//!   RESERVE          space that is held back for operations that free space
//!   CHECKS           when each SSTable was last checked
//!   MANIFEST-000007  the catalog, the run lists, the bookmarks
//!   wal-000012.log   a WAL segment
//!   000034.sst       an SSTable
//!   .backup-1        a folder of links to the files that a backup copies
//!   damaged          a folder of damaged files whose loss an operator accepted
//! ```
//!
//! `CURRENT` and the manifest exist twice. The second file has the name of the first one with
//! `.copy` behind it, and the same content.

use std::path::{Path, PathBuf};

use crate::key::{FileNumber, NUMBER_MAX};

/// The kind of a file in a database directory, and its number if files of the kind are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Manifest(FileNumber),
    Wal(FileNumber),
    SsTable(FileNumber),
    /// A temporary file, which is renamed to its final name once it is complete. After a crash, one
    /// may be left.
    Temporary,
}

impl FileKind {
    /// Returns the kind of the file with this path. `None` for files that the engine did not write,
    /// and for LOCK, RESERVE, CHECKS, CURRENT and CURRENT.copy: the caller must not delete files
    /// without a kind.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        // In the place of `7.sst`, the engine would open and remove `000007.sst`.
        let number = |digits: &str| {
            let number = digits.parse::<u64>().ok()?;
            let is_a_name = number < NUMBER_MAX && digits_of(FileNumber(number)) == digits;
            is_a_name.then_some(FileNumber(number))
        };
        if let Some(rest) = name.strip_prefix("MANIFEST-") {
            number(rest.strip_suffix(COPY).unwrap_or(rest)).map(Self::Manifest)
        } else if let Some(rest) = name.strip_prefix("wal-") {
            number(rest.strip_suffix(".log")?).map(Self::Wal)
        } else if let Some(digits) = name.strip_suffix(".sst") {
            number(digits).map(Self::SsTable)
        } else if CURRENT_TMPS.contains(&name) || [WAL_TMP, SSTABLE_TMP, CHECKS_TMP].contains(&name)
        {
            Some(Self::Temporary)
        } else {
            None
        }
    }
}

/// The content of CURRENT while a backup or a repair fills the directory. The directory cannot be
/// opened before the last step replaces this text by the name of a manifest.
pub(crate) const INCOMPLETE: &[u8] = b"incomplete\n";

/// The suffix in the name of the second copy of a file that is stored twice (CURRENT, a manifest).
const COPY: &str = ".copy";

const CURRENTS: [&str; 2] = ["CURRENT", "CURRENT.copy"];
const CURRENT_TMPS: [&str; 2] = ["CURRENT.tmp", "CURRENT.copy.tmp"];
const WAL_TMP: &str = "WAL.tmp";
const SSTABLE_TMP: &str = "SSTABLE.tmp";
const CHECKS_TMP: &str = "CHECKS.tmp";
const BACKUP_LINKS: &str = ".backup-";
const DAMAGED: &str = "damaged";

pub(crate) fn lock(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

/// Returns the path of the first of the two files that name the live manifest.
pub(crate) fn current(dir: &Path) -> PathBuf {
    dir.join(CURRENTS[0])
}

/// Returns the paths of both files that name the live manifest.
pub(crate) fn currents(dir: &Path) -> [PathBuf; 2] {
    CURRENTS.map(|name| dir.join(name))
}

pub(crate) fn reserve(dir: &Path) -> PathBuf {
    dir.join("RESERVE")
}

pub(crate) fn checks(dir: &Path) -> PathBuf {
    dir.join("CHECKS")
}

/// Returns the path of the temporary file that becomes CHECKS, the record of file checks, when it is
/// renamed.
pub(crate) fn checks_tmp(dir: &Path) -> PathBuf {
    dir.join(CHECKS_TMP)
}

/// Returns the paths of the temporary files that are renamed to CURRENT and its copy, the
/// files that name the live manifest.
pub(crate) fn current_tmps(dir: &Path) -> [PathBuf; 2] {
    CURRENT_TMPS.map(|name| dir.join(name))
}

/// Returns the digits of a file's number in the name of the file: at least six, with leading zeros.
fn digits_of(number: FileNumber) -> String {
    format!("{:06}", number.0)
}

/// Returns the name of the manifest with this number, as it is written in CURRENT.
pub(crate) fn manifest_name(number: FileNumber) -> String {
    format!("MANIFEST-{}", digits_of(number))
}

/// Returns the paths of both files of a manifest.
pub(crate) fn manifests(dir: &Path, number: FileNumber) -> [PathBuf; 2] {
    ["", COPY].map(|end| dir.join(manifest_name(number) + end))
}

pub(crate) fn wal(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("wal-{}.log", digits_of(number)))
}

/// Returns the path of the temporary file that becomes a WAL segment when it is renamed.
pub(crate) fn wal_tmp(dir: &Path) -> PathBuf {
    dir.join(WAL_TMP)
}

pub(crate) fn sstable(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("{}.sst", digits_of(number)))
}

/// Returns the path of the temporary file in a backup that replaces a damaged SSTable when it is renamed.
pub(crate) fn sstable_tmp(dir: &Path) -> PathBuf {
    dir.join(SSTABLE_TMP)
}

/// Returns the path of the folder of hard links to the files that the backup with this number copies.
pub(crate) fn backup_links(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{BACKUP_LINKS}{number}"))
}

/// Returns the path of the folder that keeps damaged SSTables after new ones have replaced them.
pub(crate) fn damaged_dir(dir: &Path) -> PathBuf {
    dir.join(DAMAGED)
}

/// Returns the path in the folder `dir` of the damaged SSTable with this number. The name is not that of
/// an SSTable, so the engine does not take the file for one.
pub(crate) fn damaged(dir: &Path, number: FileNumber) -> PathBuf {
    sstable(dir, number).with_added_extension("damaged")
}

/// Returns whether an entry of a database's directory has the name of a folder in which the engine keeps
/// files with the data of tables: `damaged`, or `.backup-1` (or another number).
pub fn is_folder_of_tables(path: &Path) -> bool {
    path.ends_with(DAMAGED) || is_backup_links(path)
}

/// Returns whether a path is that of a folder of links for a backup: see [`backup_links`].
pub(crate) fn is_backup_links(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let digits = name.and_then(|name| name.strip_prefix(BACKUP_LINKS));
    let is_number = |digits: &str| {
        let number = digits.parse::<u64>();
        number.is_ok_and(|number| number.to_string() == digits)
    };
    digits.is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_name_of_a_number_is_recognised(dir: &Path, n: FileNumber) {
        assert_eq!(FileKind::of(&wal(dir, n)), Some(FileKind::Wal(n)));
        assert_eq!(FileKind::of(&sstable(dir, n)), Some(FileKind::SsTable(n)));
        for manifest in manifests(dir, n) {
            assert_eq!(FileKind::of(&manifest), Some(FileKind::Manifest(n)));
        }
    }

    /// Regression: the engine took a stray copy `7.sst` for the file `000007.sst`, and then failed
    /// to remove that file when it opened the database. It took a copy `wal-5.log` for a second
    /// segment 5.
    #[test]
    fn every_name_is_recognised_as_what_it_is() {
        let dir = Path::new("d");
        for n in [FileNumber(42), FileNumber(1_234_567)] {
            every_name_of_a_number_is_recognised(dir, n);
        }
        let n = FileNumber(42);
        let others = [wal_tmp(dir), sstable_tmp(dir), checks_tmp(dir)];
        for temporary in current_tmps(dir).into_iter().chain(others) {
            assert_eq!(FileKind::of(&temporary), Some(FileKind::Temporary));
        }
        for foreign in [
            "LOCK",
            "CURRENT",
            "CURRENT.copy",
            "RESERVE",
            "CHECKS",
            "notes.txt",
            "x.sst",
            "wal-1.txt",
            "MANIFEST-",
            "MANIFEST-.copy",
            "MANIFEST-1.copy.copy",
            "MANIFEST-18446744073709551615",
            "7.sst",
            "+00007.sst",
            "0000007.sst",
            "wal-5.log",
            "wal-+00005.log",
            "MANIFEST-3",
            "MANIFEST-0000003.copy",
        ] {
            assert_eq!(FileKind::of(&dir.join(foreign)), None, "{foreign}");
            assert!(!is_backup_links(&dir.join(foreign)), "{foreign}");
        }
        assert_eq!(FileKind::of(&damaged_dir(dir)), None);
        assert_eq!(FileKind::of(&damaged(&damaged_dir(dir), n)), None);
        assert!(is_backup_links(&backup_links(dir, 3)));
        for (path, is_of_tables) in [
            (damaged_dir(dir), true),
            (backup_links(dir, 3), true),
            (dir.join("undamaged"), false),
        ] {
            assert_eq!(is_folder_of_tables(&path), is_of_tables);
        }
        for foreign in [".backup-monday", ".backup-+3", ".backup-03", ".backup-"] {
            assert!(!is_backup_links(&dir.join(foreign)), "{foreign}");
        }
    }
}
