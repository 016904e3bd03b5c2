//! The search for files to load below some paths.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use walkdir::{DirEntry, WalkDir};

use super::reader::sniff;
use super::user_file::FileError;

/// The path that stands for standard input.
const STDIN: &str = "-";
/// The name of standard input in the keys of its lines.
const STDIN_NAME: &[u8] = b"stdin";

/// The name of the file by which a job of ebb, Spark or Hadoop marks its output folder as complete.
const SUCCESS: &str = "_SUCCESS";

/// A file to load: a file below a directory that looks like text by its first bytes, or a file or
/// stream that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// The path, which begins with the requested one; `-` is standard input.
    pub path: PathBuf,
    /// The size in bytes when the file was found; 0 for a stream.
    pub bytes: u64,
    /// True for a pipe, a device or standard input, which can be read only once.
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

    /// Returns the name of the file in keys of its lines: the path without a leading `./`; `stdin`
    /// for standard input.
    pub fn name(&self) -> &[u8] {
        if self.is_stdin() {
            return STDIN_NAME;
        }
        let path = self.path.strip_prefix(".").unwrap_or(&self.path);
        path.as_os_str().as_bytes()
    }

    /// Returns the part of a line's key before the line number.
    pub(super) fn key_prefix(&self) -> Vec<u8> {
        [self.name(), b":"].concat()
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == STDIN
}

/// The reason why a file was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The start of the file is not UTF-8 text: a message about the problem.
    NotText(String),
    /// The file cannot be loaded completely: the problem and its line.
    Bad(String),
    /// The file or directory cannot be read: the error of the system.
    Unreadable(String),
}

/// A skipped file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    pub reason: SkipReason,
}

/// Serializes a path as text, with replacement characters for bytes that are not UTF-8. Serde's own form of such a
/// path is an error, which would leave the report of a finished load unprinted.
fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// The result of a [`walk`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The files to load, in the order of the request; the files of a directory ascend by name. Of several
    /// files with the same [`TextFile::name`], only the first is here.
    pub files: Vec<TextFile>,
    /// Files below directories that are not text, and files and directories that cannot be read.
    pub skipped: Vec<Skipped>,
}

impl Found {
    /// Returns the total size of all text files in bytes. Streams count as 0.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Finds the text files below `paths`, which may be files, directories, pipes, and `-` for standard
/// input.
///
/// Below a directory, the walk skips names that start with a dot, files called `_SUCCESS`, directories
/// called `target` and the directory `leave_out`, and it does not follow symbolic links. A readable
/// file that is named in `paths` is always included: whether it is text turns out when it is read.
///
/// # Errors
/// If one of `paths` does not exist or cannot be reached, or if both standard input and a file called
/// `stdin` are to be read: their lines would have the same keys. Unreadable files and directories, also
/// among `paths`, are reported in [`Found::skipped`].
pub fn walk<P: AsRef<Path>>(paths: &[P], leave_out: Option<&Path>) -> Result<Found, FileError> {
    let leave_out = leave_out.and_then(|path| path.canonicalize().ok());
    let mut found = Found::default();
    for path in paths.iter().map(AsRef::as_ref) {
        if is_stdin(path) {
            found.files.push(TextFile::stream(path));
            continue;
        }
        let metadata = path.metadata();
        let metadata = metadata.map_err(|source| FileError::of(path, source))?;
        if !metadata.is_file() && !metadata.is_dir() {
            found.files.push(TextFile::stream(path));
            continue;
        }
        if metadata.is_file() {
            let path = path.to_path_buf();
            match File::open(&path) {
                Ok(_) => found.files.push(TextFile::new(path, metadata.len())),
                Err(error) => found.skipped.push(Skipped {
                    path,
                    reason: SkipReason::Unreadable(error.to_string()),
                }),
            }
            continue;
        }
        let entries = WalkDir::new(path).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| is_included(entry, leave_out.as_deref())) {
            match entry {
                Ok(entry) => found.add(&entry),
                Err(error) => found.skipped.push(unreadable(path, &error)),
            }
        }
    }
    check_names(&found.files)?;
    let mut names = HashSet::new();
    found
        .files
        .retain(|file| names.insert(file.name().to_vec()));
    found.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    found.skipped.dedup();
    Ok(found)
}

/// If standard input is to be loaded, checks that no file has the same name: the keys of their
/// lines would be equal.
fn check_names(files: &[TextFile]) -> Result<(), FileError> {
    let named = |file: &&TextFile| !file.is_stdin() && file.name() == STDIN_NAME;
    match files.iter().find(named) {
        Some(file) if files.iter().any(TextFile::is_stdin) => Err(FileError::Malformed {
            path: file.path.clone(),
            problem:
                "standard input has the same name: read one after the other, or rename the file"
                    .to_owned(),
        }),
        _ => Ok(()),
    }
}

impl Found {
    fn add(&mut self, entry: &DirEntry) {
        let path = entry.path();
        let sniffed = path.metadata().and_then(|metadata| {
            if metadata.is_file() {
                let content = sniff(&File::open(path)?)?;
                Ok(Some(content.map(|_| metadata.len())))
            } else {
                Ok(None)
            }
        });
        let reason = match sniffed {
            Ok(None) => return,
            Ok(Some(Ok(bytes))) => {
                let path = path.to_path_buf();
                return self.files.push(TextFile::new(path, bytes));
            }
            Ok(Some(Err(not_text))) => SkipReason::NotText(not_text.to_string()),
            Err(error) => SkipReason::Unreadable(error.to_string()),
        };
        self.skipped.push(Skipped {
            path: path.to_path_buf(),
            reason,
        });
    }
}

/// Returns the entry at or below `root` that the walk could not read, with the error of the system. The
/// message of the [`walkdir::Error`] itself is not used, because it would name the path again.
fn unreadable(root: &Path, error: &walkdir::Error) -> Skipped {
    let source = error.io_error().map(ToString::to_string);
    Skipped {
        path: error.path().unwrap_or(root).to_path_buf(),
        reason: SkipReason::Unreadable(source.unwrap_or_else(|| error.to_string())),
    }
}

fn is_included(entry: &DirEntry, leave_out: Option<&Path>) -> bool {
    let name = entry.file_name();
    let hidden = name.as_bytes().starts_with(b".");
    let built = entry.file_type().is_dir() && name == OsStr::new("target");
    let mark = entry.file_type().is_file() && name == OsStr::new(SUCCESS);
    // A link below a directory may lead anywhere, even back up.
    let link = entry.path_is_symlink();
    let left_out = || {
        let is_dir = leave_out.is_some() && entry.file_type().is_dir();
        is_dir && entry.path().canonicalize().ok().as_deref() == leave_out
    };
    entry.depth() == 0 || !(hidden || built || mark || link || left_out())
}

#[cfg(test)]
mod tests {
    use super::super::reader::SNIFF_BYTES;
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
    fn text_files_come_sorted_and_hidden_built_and_binary_ones_and_marks_do_not() {
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
            // A load of the CSV files in a folder that a job wrote once failed for this one.
            ("a/_SUCCESS", b""),
            ("b/_SUCCESS.md", b"s"),
            ("a/.git/config", b"g"),
            ("b/zero", b"text\0binary"),
            ("b/latin1", b"tea\ncaf\xe9\n"),
            ("empty", b""),
        ] {
            std::fs::write(root.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("b/loop")).unwrap();
        let found = walk(&[root, &root.join("b")], None).unwrap();
        assert_eq!(
            names(&found, root),
            ["a/y", "b/_SUCCESS.md", "b/deep/er/x.txt", "b/z", "empty"]
        );
        assert_eq!(found.bytes(), 6);
        let skipped = |at: usize| match &found.skipped[at].reason {
            SkipReason::NotText(why) => (found.skipped[at].path.clone(), &why[..]),
            other => panic!("{other:?}"),
        };
        let (latin1, why) = skipped(0);
        assert_eq!(latin1, root.join("b/latin1"));
        assert!(why.starts_with("line 2: byte 4 is not UTF-8"), "{why}");
        let (zero, why) = skipped(1);
        assert_eq!(zero, root.join("b/zero"));
        assert!(why.starts_with("line 1: it has a NUL byte"), "{why}");
        assert_eq!(found.skipped.len(), 2);
    }

    #[test]
    fn a_named_file_counts_as_text_until_it_is_read() {
        // The reader reports the line of the first byte that is not text, and the encoding.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("utf16.csv");
        std::fs::write(&path, b"\xff\xfei\0d\0").unwrap();
        assert_eq!(walk(&[&path], None).unwrap().files.len(), 1);
        let found = walk(&[dir.path()], None).unwrap();
        assert!(found.files.is_empty());
        let SkipReason::NotText(why) = &found.skipped[0].reason else {
            panic!("{found:?}");
        };
        assert!(why.starts_with("it is UTF-16: convert it"), "{why}");
    }

    #[test]
    fn files_come_in_the_order_of_the_request_each_once() {
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
    fn standard_input_and_a_file_of_its_name_are_refused_together() {
        // Regression: the file was left out, because lines of the two have the same keys.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdin");
        std::fs::write(&path, "x").unwrap();
        // With its directory the file has another name.
        assert_eq!(walk(&[Path::new("-"), &path], None).unwrap().files.len(), 2);
        let file = TextFile::new("stdin".into(), 1);
        let stream = TextFile::stream(Path::new("-"));
        let error = check_names(&[stream.clone(), file.clone()]).unwrap_err();
        let expected =
            "stdin: standard input has the same name: read one after the other, or rename the file";
        assert_eq!(error.to_string(), expected);
        check_names(&[stream.clone(), stream]).unwrap();
        check_names(&[file.clone(), file]).unwrap();
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
    fn a_hidden_file_counts_on_request_and_a_missing_path_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let hidden = dir.path().join(".profile");
        std::fs::write(&hidden, "x").unwrap();
        assert_eq!(walk(&[&hidden], None).unwrap().files.len(), 1);
        let missing = dir.path().join("missing");
        let error = walk(&[&hidden, &missing], None).unwrap_err().to_string();
        assert_eq!(error, format!("no such file: {}", missing.display()));
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_named_once() {
        let missing = Path::new("no/such/folder");
        let mut entries = WalkDir::new(missing).into_iter();
        let error = entries.next().unwrap().unwrap_err();
        let skipped = unreadable(Path::new("no"), &error);
        assert_eq!(skipped.path, missing);
        let SkipReason::Unreadable(why) = &skipped.reason else {
            panic!("{skipped:?}");
        };
        assert!(!why.contains("folder"), "{why}");
    }

    #[test]
    fn a_character_cut_by_the_sample_is_still_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("umlauts");
        std::fs::write(&path, format!("x{}", "ä".repeat(SNIFF_BYTES))).unwrap();
        assert_eq!(walk(&[dir.path()], None).unwrap().files.len(), 1);
    }
}
