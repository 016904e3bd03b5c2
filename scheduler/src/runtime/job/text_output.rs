//! One text file: a line `key<TAB>value` per row.
//!
//! Partitions are written to hidden temporary files beside the target. A commit
//! joins them in order of partition, syncs, and gives the result its name in
//! one step that fails if the name is taken. Keys and values are written as
//! they are: a tab or newline inside them is not escaped.

use super::output::{Output, OutputWriter};
use crate::runtime::error::TaskError;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::NamedTempFile;

type Parts = Arc<Mutex<BTreeMap<u32, NamedTempFile>>>;

/// A text file that appears when the job has succeeded; see the module.
#[derive(Debug)]
pub struct TextOutput {
    target: PathBuf,
    parts: Parts,
}

impl TextOutput {
    /// Writes to `target`, whose directory must exist and which must not.
    #[must_use]
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self {
            target: target.into(),
            parts: Parts::default(),
        }
    }

    fn directory(&self) -> &Path {
        match self.target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    fn temporary(&self) -> Result<NamedTempFile, TaskError> {
        tempfile::Builder::new()
            .prefix(".ebb-part-")
            // The process's mask applies; tempfile's own default is owner only.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(self.directory())
            .map_err(TaskError::io(format!(
                "creating a temporary file in {}",
                self.directory().display()
            )))
    }

    fn join(&self, parts: BTreeMap<u32, NamedTempFile>) -> io::Result<NamedTempFile> {
        let mut parts = parts.into_values();
        let Some(mut whole) = parts.next() else {
            return Err(io::Error::other("no partition was written"));
        };
        whole.as_file_mut().seek(io::SeekFrom::End(0))?;
        for mut part in parts {
            part.as_file_mut().rewind()?;
            io::copy(part.as_file_mut(), whole.as_file_mut())?;
        }
        whole.as_file().sync_all()?;
        Ok(whole)
    }
}

impl Output for TextOutput {
    fn check(&self) -> Result<(), TaskError> {
        let found = self.target.try_exists();
        if found.map_err(TaskError::io(format!(
            "looking for {}",
            self.target.display()
        )))? {
            return Err(TaskError::failed(format!(
                "{} exists; remove it or choose another name",
                self.target.display()
            )));
        }
        if !self.directory().is_dir() {
            return Err(TaskError::failed(format!(
                "{} is not a directory",
                self.directory().display()
            )));
        }
        Ok(())
    }

    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(TextWriter {
            file: BufWriter::new(self.temporary()?),
            partition,
            parts: Arc::clone(&self.parts),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        let mut parts =
            std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        if parts.is_empty() {
            parts.insert(0, self.temporary()?);
        }
        let name = self.target.display();
        let whole = self
            .join(parts)
            .map_err(TaskError::io(format!("writing {name}")))?;
        // Opened first, so that only the sync can fail once the result has its
        // name.
        let directory = File::open(self.directory())
            .map_err(TaskError::io(format!("opening the directory of {name}")))?;
        (whole.persist_noclobber(&self.target))
            .map_err(|e| TaskError::io(format!("naming the result {name}"))(e.error))?;
        directory.sync_all().map_err(|e| {
            // A commit that fails must leave nothing.
            let _ = fs::remove_file(&self.target);
            TaskError::io(format!("syncing the directory of {name}"))(e)
        })
    }

    fn abort(&self) {
        // Dropping a part removes its file.
        self.parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

struct TextWriter {
    file: BufWriter<NamedTempFile>,
    partition: u32,
    parts: Parts,
}

impl OutputWriter for TextWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let mut line = || {
            self.file.write_all(key)?;
            self.file.write_all(b"\t")?;
            self.file.write_all(value)?;
            self.file.write_all(b"\n")
        };
        line().map_err(TaskError::io("writing a row"))
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let file = self
            .file
            .into_inner()
            .map_err(|e| TaskError::io("writing rows")(e.into_error()))?;
        self.parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.partition, file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(output: &TextOutput, partition: u32, rows: &[(&str, &str)]) {
        let mut writer = output.open(partition, 1).unwrap();
        for (key, value) in rows {
            writer.write(key.as_bytes(), value.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_commit_joins_the_partitions_in_order_and_leaves_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let output = TextOutput::new(directory.path().join("out.tsv"));
        write(&output, 1, &[("b", "2")]);
        write(&output, 0, &[("a", "1"), ("c", "3")]);
        drop(output.open(2, 1).unwrap());
        assert!(!directory.path().join("out.tsv").exists());
        output.commit().unwrap();
        assert_eq!(names(directory.path()), ["out.tsv"]);
        let text = std::fs::read_to_string(directory.path().join("out.tsv")).unwrap();
        assert_eq!(text, "a\t1\nc\t3\nb\t2\n");
    }

    #[test]
    fn an_existing_target_is_refused_early_and_late_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out.tsv");
        let output = TextOutput::new(&target);
        write(&output, 0, &[("a", "1")]);
        std::fs::write(&target, "mine").unwrap();
        assert!(output.check().unwrap_err().to_string().contains("exists"));
        assert!(output.commit().is_err());
        output.abort();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
        assert_eq!(names(directory.path()), ["out.tsv"]);
    }

    #[test]
    fn an_abort_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let output = TextOutput::new(directory.path().join("out.tsv"));
        write(&output, 0, &[("a", "1")]);
        output.abort();
        assert!(names(directory.path()).is_empty());
    }
}
