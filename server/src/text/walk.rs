//! Finding the text files below some paths.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use walkdir::{DirEntry, WalkDir};

/// Bytes at the start of a file that tell text from binary. What looks like text
/// here and is not further on is found by [`rows`](super::rows).
const SNIFF_BYTES: u64 = 8 << 10;

/// A file that looks like text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Where it is, as reached from the path that was asked for.
    pub path: PathBuf,
    /// Its size in bytes when it was found.
    pub bytes: u64,
}

impl TextFile {
    /// What the keys of its rows start with: the path, without a leading `./`.
    pub fn name(&self) -> &[u8] {
        let path = self.path.strip_prefix(".").unwrap_or(&self.path);
        path.as_os_str().as_bytes()
    }
}

/// Why a file was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It is not UTF-8, holds NUL bytes, or has a line longer than
    /// [`LINE_BYTES_MAX`](super::LINE_BYTES_MAX).
    NotText,
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
    /// Text files, each once, ascending by name.
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

/// Finds the text files below `paths`, which may be files or directories.
///
/// Below a directory, names that start with a dot and directories called
/// `target` are left out, and symbolic links are not followed; a path that was
/// asked for by name always counts.
///
/// # Errors
/// When one of `paths` does not exist. What cannot be read below them is
/// reported in [`Found::skipped`].
pub fn walk<P: AsRef<Path>>(paths: &[P]) -> Result<Found> {
    let mut found = Found::default();
    for path in paths {
        let path = path.as_ref();
        path.metadata()
            .with_context(|| format!("cannot load {}", path.display()))?;
        let entries = WalkDir::new(path).into_iter().filter_entry(is_wanted);
        for entry in entries {
            match entry {
                Ok(entry) => found.add(&entry),
                Err(error) => found.skipped.push(Skipped {
                    path: error.path().unwrap_or(path).to_path_buf(),
                    reason: SkipReason::Unreadable(error.to_string()),
                }),
            }
        }
    }
    found.files.sort_by(|a, b| a.name().cmp(b.name()));
    found.files.dedup_by(|a, b| a.name() == b.name());
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
                return self.files.push(TextFile { path, bytes });
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

fn is_wanted(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let hidden = name.as_bytes().starts_with(b".");
    let built = entry.file_type().is_dir() && name == OsStr::new("target");
    // A link below a directory may lead anywhere, even back up.
    let link = entry.path_is_symlink();
    entry.depth() == 0 || !(hidden || built || link)
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
    Ok(utf8 && !start.contains(&0))
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
        let found = walk(&[root, &root.join("b")]).unwrap();
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
    fn a_hidden_file_counts_when_asked_for_and_a_missing_path_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let hidden = dir.path().join(".profile");
        std::fs::write(&hidden, "x").unwrap();
        assert_eq!(walk(&[&hidden]).unwrap().files.len(), 1);
        let missing = dir.path().join("missing");
        let error = format!("{:#}", walk(&[&hidden, &missing]).unwrap_err());
        assert!(error.contains("missing"), "{error}");
    }

    #[test]
    fn a_character_cut_by_the_sample_is_still_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("umlauts");
        std::fs::write(&path, format!("x{}", "ä".repeat(SNIFF_BYTES as usize))).unwrap();
        assert_eq!(walk(&[&path]).unwrap().files.len(), 1);
    }
}
