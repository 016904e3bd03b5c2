//! Finding the files to load below some paths.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use walkdir::{DirEntry, WalkDir};

use super::format::GZIP_MAGIC;

/// Bytes at the start of a file that tell text from binary. What looks like text
/// here and is not further on is found when it is read.
const SNIFF_BYTES: u64 = 8 << 10;

/// The path that stands for standard input.
const STDIN: &str = "-";

/// A file that looks like text, or may be read once only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Where it is, as reached from the path that was asked for; `-` is standard input.
    pub path: PathBuf,
    /// Its size in bytes when it was found; 0 for one that is read once only.
    pub bytes: u64,
    /// A pipe, a device or standard input: it can be read once only.
    pub is_stream: bool,
}

impl TextFile {
    pub(super) fn new(path: PathBuf, bytes: u64) -> Self {
        Self {
            path,
            bytes,
            is_stream: false,
        }
    }

    fn stream(path: &Path) -> Self {
        Self {
            is_stream: true,
            ..Self::new(path.to_path_buf(), 0)
        }
    }

    pub(super) fn is_stdin(&self) -> bool {
        self.is_stream && is_stdin(&self.path)
    }

    /// What the keys of its lines start with: the path, without a leading `./`, or
    /// `stdin`.
    pub fn name(&self) -> &[u8] {
        if self.is_stdin() {
            return b"stdin";
        }
        let path = self.path.strip_prefix(".").unwrap_or(&self.path);
        path.as_os_str().as_bytes()
    }

    /// What comes before the number in the keys of its lines.
    pub(super) fn key_prefix(&self) -> Vec<u8> {
        [self.name(), b":"].concat()
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == STDIN
}

/// Why a file was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It begins with bytes that are not UTF-8, or NUL.
    NotText,
    /// It cannot be loaded whole: what is wrong with it, and in which line.
    Bad(String),
    /// The system's answer to the attempt to read it.
    Unreadable(String),
}

/// A file that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Which file.
    pub path: PathBuf,
    /// Why.
    pub reason: SkipReason,
}

/// What a [`walk`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Text files, each once, in the order in which they were asked for; those of a
    /// directory ascending by name.
    pub files: Vec<TextFile>,
    /// Files that are not text or cannot be read.
    pub skipped: Vec<Skipped>,
}

impl Found {
    /// Bytes of all text files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Finds the text files below `paths`, which may be files, directories, pipes, and `-` for
/// standard input.
///
/// Below a directory, names that start with a dot, directories called `target` and the
/// directory `leave_out` are left out, and symbolic links are not followed; a path that
/// was asked for by name always counts.
///
/// # Errors
/// When one of `paths` does not exist. What cannot be read below them is
/// reported in [`Found::skipped`].
pub fn walk<P: AsRef<Path>>(paths: &[P], leave_out: Option<&Path>) -> Result<Found> {
    let leave_out = leave_out.and_then(|path| path.canonicalize().ok());
    let mut found = Found::default();
    for path in paths.iter().map(AsRef::as_ref) {
        if is_stdin(path) {
            found.files.push(TextFile::stream(path));
            continue;
        }
        let metadata = path
            .metadata()
            .with_context(|| format!("cannot load {}", path.display()))?;
        if !metadata.is_file() && !metadata.is_dir() {
            found.files.push(TextFile::stream(path));
            continue;
        }
        let entries = WalkDir::new(path).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| is_wanted(entry, leave_out.as_deref())) {
            match entry {
                Ok(entry) => found.add(&entry),
                Err(error) => found.skipped.push(Skipped {
                    path: error.path().unwrap_or(path).to_path_buf(),
                    reason: SkipReason::Unreadable(error.to_string()),
                }),
            }
        }
    }
    let mut names = HashSet::new();
    found
        .files
        .retain(|file| names.insert(file.name().to_vec()));
    found.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    found.skipped.dedup();
    Ok(found)
}

impl Found {
    fn add(&mut self, entry: &DirEntry) {
        let path = entry.path();
        let sniffed = path
            .metadata()
            .and_then(|metadata| match metadata.is_file() {
                true => looks_like_text(path).map(|text| Some((text, metadata.len()))),
                false => Ok(None),
            });
        let reason = match sniffed {
            Ok(None) => return,
            Ok(Some((true, bytes))) => {
                let path = path.to_path_buf();
                return self.files.push(TextFile::new(path, bytes));
            }
            Ok(Some((false, _))) => SkipReason::NotText,
            Err(error) => SkipReason::Unreadable(error.to_string()),
        };
        self.skipped.push(Skipped {
            path: path.to_path_buf(),
            reason,
        });
    }
}

fn is_wanted(entry: &DirEntry, leave_out: Option<&Path>) -> bool {
    let name = entry.file_name();
    let hidden = name.as_bytes().starts_with(b".");
    let built = entry.file_type().is_dir() && name == OsStr::new("target");
    // A link below a directory may lead anywhere, even back up.
    let link = entry.path_is_symlink();
    let left_out = || {
        let is_dir = leave_out.is_some() && entry.file_type().is_dir();
        is_dir && entry.path().canonicalize().ok().as_deref() == leave_out
    };
    entry.depth() == 0 || !(hidden || built || link || left_out())
}

fn looks_like_text(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?
        .take(SNIFF_BYTES)
        .read_to_end(&mut start)?;
    // A character cut off at the end of the sample is no error.
    let utf8 = match std::str::from_utf8(&start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    Ok(start.starts_with(&GZIP_MAGIC) || utf8 && !start.contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &Found, root: &Path) -> Vec<String> {
        let relative = |file: &TextFile| file.path.strip_prefix(root).unwrap().to_path_buf();
        found
            .files
            .iter()
            .map(|file| relative(file).display().to_string())
            .collect()
    }

    #[test]
    fn text_files_come_sorted_and_hidden_built_and_binary_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for sub in ["b", "a/target", "a/.git", "b/deep/er"] {
            std::fs::create_dir_all(root.join(sub)).unwrap();
        }
        for (name, content) in [
            ("b/deep/er/x.txt", &b"x"[..]),
            ("b/z", b"z"),
            ("a/y", "ä\n".as_bytes()),
            ("a/.hidden", b"h"),
            ("a/target/built", b"t"),
            ("a/.git/config", b"g"),
            ("b/zero", b"text\0binary"),
            ("b/latin1", b"caf\xe9\n"),
            ("empty", b""),
        ] {
            std::fs::write(root.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("b/loop")).unwrap();
        let found = walk(&[root, &root.join("b")], None).unwrap();
        assert_eq!(
            names(&found, root),
            ["a/y", "b/deep/er/x.txt", "b/z", "empty"]
        );
        assert_eq!(found.bytes(), 5);
        let skipped: Vec<_> = found.skipped.iter().map(|s| (&s.path, &s.reason)).collect();
        assert_eq!(
            skipped,
            [
                (&root.join("b/latin1"), &SkipReason::NotText),
                (&root.join("b/zero"), &SkipReason::NotText)
            ]
        );
    }

    #[test]
    fn files_come_in_the_order_in_which_they_were_asked_for_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for name in ["z", "d/b", "d/a", "db/wal"] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let paths = [root.join("z"), root.to_path_buf(), PathBuf::from("-")];
        let found = walk(&paths, Some(&root.join("d/../db"))).unwrap();
        let (stdin, files) = found.files.split_last().unwrap();
        assert!(stdin.is_stdin() && stdin.name() == b"stdin");
        let found = Found {
            files: files.to_vec(),
            ..Found::default()
        };
        assert_eq!(names(&found, root), ["z", "d/a", "d/b"]);
    }

    #[test]
    fn names_do_not_start_with_the_current_directory() {
        let name = |path: &str| {
            let file = TextFile::new(path.into(), 0);
            String::from_utf8(file.name().to_vec()).unwrap()
        };
        assert_eq!(name("./docs/a.md"), "docs/a.md");
        assert_eq!(name("/docs/a.md"), "/docs/a.md");
        assert_eq!(name("../a.md"), "../a.md");
        assert_eq!(name("./-"), "-");
    }

    #[test]
    fn a_hidden_file_counts_when_asked_for_and_a_missing_path_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let hidden = dir.path().join(".profile");
        std::fs::write(&hidden, "x").unwrap();
        assert_eq!(walk(&[&hidden], None).unwrap().files.len(), 1);
        let missing = dir.path().join("missing");
        let error = format!("{:#}", walk(&[&hidden, &missing], None).unwrap_err());
        assert!(error.contains("missing"), "{error}");
    }

    #[test]
    fn a_character_cut_by_the_sample_is_still_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("umlauts");
        std::fs::write(&path, format!("x{}", "ä".repeat(SNIFF_BYTES as usize))).unwrap();
        assert_eq!(walk(&[&path], None).unwrap().files.len(), 1);
    }
}
