//! A corpus: text in files of many forms, and word counts computed from these files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::place::Place;

impl Place {
    /// Creates a working directory whose database has the corpus in `app.lines`, and
    /// the snapshot `s`.
    pub fn with_corpus() -> Self {
        let place = Self::new();
        place.write_corpus();
        place
            .ebb("load --table app.lines corpus --skip-bad --threads 3")
            .ok();
        place.ebb("snapshot create --keyspace app s").ok();
        place
    }

    /// Writes about a MiB of text to 12 files, and beside them an empty file, a hidden file, and
    /// two files that are no UTF-8 text.
    pub fn write_corpus(&self) {
        const WORDS: [&str; 12] = [
            "Ebb",
            "flow",
            "TIDE",
            "don't",
            "x86_64",
            "größe",
            "naïve",
            "42",
            "--",
            "snapshot,",
            "(run)",
            "日本",
        ];
        let mut state = 7_u64;
        let mut pick = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
            (state >> 33) as usize
        };
        for file in 0..12 {
            let mut text = String::new();
            for line in 0..1600 {
                for _ in 0..pick() % 14 {
                    text.push_str(WORDS[pick() % WORDS.len()]);
                    text.push_str(["", " ", " ", "\t", "w", "Z "][pick() % 6]);
                }
                text.push_str(if (file + line) % 9 == 0 { "\r\n" } else { "\n" });
            }
            text.push_str("the last line has no end");
            self.write(&format!("corpus/d{}/{file:02}.txt", file % 3), text);
        }
        self.write("corpus/empty.txt", "");
        self.write("corpus/picture.png", b"\x89PNG\0\0\0\x01");
        self.write("corpus/latin1.txt", b"caf\xe9\n");
        self.write("corpus/.hidden.txt", "hidden words\n");
    }
}

pub fn text_files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(root)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.is_file() && path.extension() == Some(OsStr::new("txt")))
        .filter(|path| !path.ends_with(".hidden.txt") && !path.ends_with("latin1.txt"))
        .collect();
    files.sort();
    files
}

/// Counts the words in [`text_files`], character by character, without code of the job. The tests
/// compare the output of the job with these counts.
pub fn count_words(root: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for file in text_files(root) {
        let mut word = String::new();
        for c in std::fs::read_to_string(file).unwrap().chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || !c.is_ascii() {
                word.push(c.to_ascii_lowercase());
            } else if !word.is_empty() {
                *counts.entry(std::mem::take(&mut word)).or_default() += 1;
            }
        }
    }
    counts
}
