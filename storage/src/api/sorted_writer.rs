//! Writes sorted entries into files that a table can ingest, without a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::LocalDisk;
use crate::error::{Error, Result};
use crate::file_system::{self, FileSystem};
use crate::key::{Kind, SeqNo, check_lengths};
use crate::options::Options;
use crate::read::{ExpiryBounds, KeyPrefixes, MergeOperator, ValueBounds, bounds_of};
use crate::sstable::{NO_NUMBER, SsTableOptions, SsTableWriter};

/// Options of a [`SortedWriter`].
#[derive(Debug, Clone)]
pub struct SortedWriterOptions {
    /// The file system to which the files are written. Default: that of this machine.
    pub disk: Arc<dyn FileSystem>,
    /// The options of the files' format, such as compression and filters.
    pub sstable: SsTableOptions,
    /// The approximate size of a file, after which the next one begins. Default: 64 MiB.
    pub file_bytes: u64,
    /// The merge operator of the table, if the writer gets operands. With an operator, the files
    /// record the bounds of the timestamps and expiries of their values. Merges use these bounds to
    /// purge values, and [`changed_keys`](crate::SnapshotTable::changed_keys) uses them to leave
    /// files unread. With [`FilterPrefix::Operator`](crate::FilterPrefix::Operator), the filters of
    /// the files also contain the prefixes of keys that the operator returns. Default: none.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
}

impl Default for SortedWriterOptions {
    fn default() -> Self {
        Self {
            disk: Arc::new(LocalDisk::default()),
            sstable: SsTableOptions::default(),
            file_bytes: 64 << 20,
            merge_operator: None,
        }
    }
}

/// Creates options for files that a database with the given options will ingest: they are written
/// on its disk, and have the size of its own files.
impl From<&Options> for SortedWriterOptions {
    fn from(options: &Options) -> Self {
        Self {
            disk: options.disk.clone(),
            sstable: SsTableOptions::default(),
            file_bytes: options.file_bytes,
            merge_operator: None,
        }
    }
}

/// Writes entries in ascending order of their keys into files, to be made part of
/// a table by [`Table::ingest`](crate::Table::ingest). It needs no database, so
/// that any process can do the work.
///
/// A drop without [`SortedWriter::finish`] removes the files.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = ebb_storage::Db::open(dir.path().join("db"), Default::default())?;
/// # let table = db.keyspace("k")?.table("t", Default::default())?;
/// let out = dir.path().join("out");
/// let mut writer = ebb_storage::SortedWriter::create(&out, "part-1", Default::default())?;
/// for i in 0..1000u32 {
///     writer.put(&i.to_be_bytes(), b"value")?;
/// }
/// let files = writer.finish()?;
/// table.ingest(&files)?;
/// assert_eq!(table.range::<&[u8], _>(..).count(), 1000);
/// # Ok::<(), ebb_storage::Error>(())
/// ```
pub struct SortedWriter {
    options: SortedWriterOptions,
    dir: PathBuf,
    name: String,
    writer: Option<SsTableWriter>,
    /// The bounds of the timestamps and expiries of the values in the file that is being written.
    bounds: ValueBounds,
    last_key: Option<Vec<u8>>,
    files: Vec<PathBuf>,
    finished: bool,
}

impl SortedWriter {
    /// Returns a writer of files `NAME-000001.sst`, ... in `dir`, which is created if absent.
    /// Replaces files of these names; tables that ingested them keep the old content.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an option that is out of its range, or a name that is empty or
    /// has characters other than letters, digits, `_` and `-`; [`Error::DiskFull`]; [`Error::Io`].
    pub fn create(dir: impl AsRef<Path>, name: &str, options: SortedWriterOptions) -> Result<Self> {
        options.sstable.validate()?;
        let legal = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(legal) {
            return Err(Error::InvalidRequest(format!(
                "{name:?} cannot name a file: use letters, digits, '_' and '-'"
            )));
        }
        let dir = dir.as_ref().to_path_buf();
        let made = options.disk.create_dir_all(&dir);
        made.map_err(Error::no_space_or_io("create", &dir))?;
        Ok(Self {
            options,
            dir,
            name: name.to_string(),
            writer: None,
            bounds: ValueBounds::of_none(None),
            last_key: None,
            files: Vec::new(),
            finished: false,
        })
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] when the key is not above the key of the entry before (the message
    /// names both keys), or when the entry is too large: this entry is not written;
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(key, Kind::Put, value)
    }

    /// Writes a deletion: ingesting the files removes the key from the table, if the table has it.
    /// Errors: see [`SortedWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(key, Kind::Delete, &[])
    }

    /// Merges an operand into a key, by the merge operator of the table that ingests the files.
    /// Errors: see [`SortedWriter::put`].
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(key, Kind::Merge, operand)
    }

    /// Completes the files and makes them durable; returns them in the order of
    /// their keys, none when nothing was written.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        self.finish_file()?;
        let dir = &self.dir;
        let synced = self.options.disk.sync_dir(dir);
        synced.map_err(Error::no_space_or_io("sync", dir))?;
        self.finished = true;
        Ok(std::mem::take(&mut self.files))
    }

    fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        check_lengths(key, value).map_err(Error::InvalidRequest)?;
        if let Some(last) = self.last_key.as_deref().filter(|last| *last >= key) {
            return Err(Error::InvalidRequest(format!(
                "key \"{}\" comes after \"{}\": keys have to ascend",
                key.escape_ascii(),
                last.escape_ascii()
            )));
        }
        let bytes_max = self.options.file_bytes;
        let full = |writer: &SsTableWriter| writer.is_full(bytes_max);
        if self.writer.as_ref().is_some_and(full) {
            self.finish_file()?;
        }
        if self.writer.is_none() {
            let name = format!("{}-{:06}.sst", self.name, self.files.len() + 1);
            let path = self.dir.join(name);
            // A table that ingested a file of this name shares its bytes, and
            // would lose them if they were overwritten.
            let removed = file_system::gone(self.options.disk.remove(&path));
            removed.map_err(Error::io("remove", &path))?;
            self.files.push(path.clone());
            let mut writer = SsTableWriter::create(
                &*self.options.disk,
                &path,
                (NO_NUMBER, 0),
                self.options.sstable.of_run(false),
            )?;
            let operator = self.options.merge_operator.as_ref();
            let prefixes = KeyPrefixes::new(self.options.sstable.filter_prefix, operator);
            writer.set_prefixes(prefixes.as_ref());
            self.writer = Some(writer);
            self.bounds = ValueBounds::of_none(operator.map(|operator| &**operator));
        }
        let writer = self.writer.as_mut().expect("just opened");
        writer.add(key, SeqNo::ZERO, kind, value)?;
        // Even without an operator here, the table may have one.
        let operator = self.options.merge_operator.as_deref();
        let more = bounds_of(operator, ExpiryBounds::Unknown, key, kind, value);
        self.bounds = self.bounds.union(more);
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.set_bounds(self.bounds);
            writer.finish()?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for SortedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedWriter")
            .field("dir", &self.dir)
            .field("name", &self.name)
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

impl Drop for SortedWriter {
    fn drop(&mut self) {
        if !self.finished {
            for path in &self.files {
                // A drop cannot report an error, and the files are of no use.
                let _ = self.options.disk.remove(path);
            }
        }
    }
}
