//! The setup of a demo: a fresh store, filled with text and records.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use ebb_jobs::ScratchDir;
use ebb_storage::{Db, Keyspace, Options, Table, TableOptions};
use indicatif::{ProgressBar, ProgressStyle};

use super::corpus::{self, Corpus, TEXT_BYTES_MAX};
use super::load::{Load, VALUE_BYTES};
use crate::ycsb;

/// The number of records in the transactional table.
const RECORDS: u64 = 100_000;
/// Size of a memtable. Small memtables are flushed often, at a small cost each, so the load of a
/// short day is as even as that of a long one.
const MEMTABLE_BYTES: usize = 16 << 20;
/// The keyspace of the text; [`TEXT`] is its table.
pub(super) const KEYSPACE: &str = "demo";
pub(super) const TEXT: &str = "text";
/// The file that marks a folder of the demo. Only in a folder with this file does the demo delete
/// earlier results.
const MARKER: &str = "EBB-DEMO";

struct TextBar<'a>(&'a ProgressBar);

impl ebb_text::LoadControl for TextBar<'_> {
    fn progress(&self, now: ebb_text::LoadProgress) {
        self.0.set_position(now.bytes_read);
    }
}

/// The store, its tables and the load of a demo.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) db: Db,
    pub(super) keyspace: Keyspace,
    pub(super) text: Table,
    pub(super) load: Load,
    pub(super) corpus: Corpus,
    /// The folder for the jobs' output; `spill` is the folder for their spill files.
    pub(super) output: PathBuf,
    pub(super) spill: PathBuf,
}

/// Returns the options of the demo's store.
pub(super) fn store_options() -> Options {
    Options {
        memtable_bytes: MEMTABLE_BYTES,
        ..Options::default()
    }
}

/// Returns the folder of the store.
pub(super) fn store_in(data: &Path) -> PathBuf {
    data.join("store")
}

/// The text files to load.
pub(super) struct Text {
    description: String,
    paths: Vec<PathBuf>,
    found: ebb_text::Found,
}

/// Finds text, then creates the demo's folder, or deletes the store and the output of an earlier demo
/// in it.
pub(super) fn begin(data: &Path, asked_text: Option<&Path>) -> Result<Text> {
    let (description, paths) = corpus::find(asked_text)?;
    let found = ebb_text::walk(&paths, None)?;
    if found.files.is_empty() {
        bail!("no text in {description}; name a folder of text with --text");
    }
    clear(data)?;
    Ok(Text {
        description,
        paths,
        found,
    })
}

/// Creates the folder, or deletes the store and the output of an earlier demo in it. Opens a new store
/// there, and loads both tables. `asked_text` is the file or folder of text for the jobs to read; with
/// `None` they read Rust sources of this repository and of Cargo's registry.
pub(super) fn set_up(
    data: &Path,
    asked_text: Option<&Path>,
    notify: &dyn Fn(&str),
) -> Result<Setup> {
    let text = begin(data, asked_text)?;
    let db = Db::open(store_in(data), store_options())?;
    let users = db.keyspace(KEYSPACE)?;
    let users = users.table("usertable", TableOptions::default())?;
    fill(data, db.clone(), text, Load::Embedded { db, users }, notify)
}

/// Loads both tables: the text, and the records of the transactional table. `users`, the source of
/// the load, writes the records.
pub(super) fn fill(
    data: &Path,
    db: Db,
    text: Text,
    users: Load,
    notify: &dyn Fn(&str),
) -> Result<Setup> {
    let Text {
        description,
        paths,
        found,
    } = text;
    let keyspace = db.keyspace(KEYSPACE)?;
    let text = keyspace.table(TEXT, TableOptions::default())?;
    let bar = bar(
        found.bytes().min(TEXT_BYTES_MAX),
        "text   {bar:32} {binary_bytes:>10} {binary_bytes_per_sec}",
    );
    let load = ebb_text::LoadOptions {
        max_bytes: Some(TEXT_BYTES_MAX),
        // Files that are not text are skipped: the sources may have some.
        skip_bad: true,
        ..Default::default()
    };
    // On the file system of the store, so that the store takes the sorted files without a copy.
    let scratch = ScratchDir::create_in(data)
        .with_context(|| format!("cannot make a folder in {}", data.display()))?;
    let loaded = ebb_text::load(&text, &found, &load, scratch.path(), &TextBar(&bar))?;
    // Removes the folder. The store has its own links to the files.
    drop(scratch);
    bar.finish_and_clear();
    let corpus = Corpus {
        description,
        paths,
        files: loaded.files,
        rows: loaded.rows,
        bytes: loaded.bytes,
    };
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let (files, rows) = (corpus.files, corpus.rows);
    notify(&format!(
        "text: {}: {files} files, {rows} rows, {:.1} MB in {:.1} s ({:.0} MB/s)",
        corpus.description,
        mb(corpus.bytes),
        loaded.seconds,
        mb(corpus.bytes) / loaded.seconds,
    ));

    let bar = self::bar(RECORDS, "records {bar:32} {pos:>7} {per_sec}");
    let started = Instant::now();
    let progress = |records| bar.set_position(records);
    match &users {
        Load::Embedded { db, users } => {
            let load = ycsb::LoadOptions {
                value_bytes: VALUE_BYTES,
                ..Default::default()
            };
            ycsb::load(db, users, 0..RECORDS, &load, progress)?;
        }
        Load::Process(client) => client.load(RECORDS, progress)?,
    }
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    notify(&format!(
        "load: {RECORDS} records of {VALUE_BYTES} bytes in {seconds:.1} s"
    ));
    let setup = Setup {
        db,
        keyspace,
        text,
        load: users,
        corpus,
        output: data.join("output"),
        spill: data.join("spill"),
    };
    // The flushes and merges of loading are not part of any measurement.
    setup.settle()?;
    Ok(setup)
}

impl Setup {
    /// Flushes and compacts, so that this work does not fall into later measurements.
    pub(super) fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.compact()?)
    }
}

/// Creates the folder and its [`MARKER`]. In the folder of an earlier demo, deletes the store, the
/// output and the spill files, and keeps all other files. Refuses any other folder that is not empty.
fn clear(data: &Path) -> Result<()> {
    let marker = data.join(MARKER);
    let context = || format!("cannot prepare {}", data.display());
    if data.exists() {
        let used = fs::read_dir(data).with_context(context)?.next().is_some();
        if used && !marker.exists() {
            bail!(
                "{} holds something that no demo made; name an empty or new folder with --data",
                data.display()
            );
        }
        for part in ["store", "output", "spill"] {
            let part = data.join(part);
            if part.exists() {
                fs::remove_dir_all(&part).with_context(context)?;
            }
        }
    }
    fs::create_dir_all(data.join("output")).with_context(context)?;
    fs::write(
        &marker,
        "Made by `ebb demo`, which may delete what is in this folder.\n",
    )
    .with_context(context)
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(&format!("  {template}")).expect("the template is a constant");
    ProgressBar::new(length).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
        let error = clear(dir.path()).unwrap_err().to_string();
        assert!(error.contains("--data"), "{error}");
        assert!(dir.path().join("thesis.tex").exists());
    }

    #[test]
    fn a_folder_of_an_earlier_demo_is_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("demo");
        clear(&data).unwrap();
        fs::create_dir(data.join("store")).unwrap();
        fs::write(data.join("store/old"), "").unwrap();
        clear(&data).unwrap();
        assert!(!data.join("store").exists() && data.join("output").exists());
    }
}
