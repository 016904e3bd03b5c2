//! Ingest: files that were written outside of the database become part of a table by one commit.
//!
//! Order of effects, each relying on the one before:
//!
//! 1. the files are verified, and are in the directory under numbers of their
//!    own, durable;
//! 2. under the order lock: the memtable is frozen, the run has its place above
//!    it, the WAL record that names it is pushed;
//! 3. the record is as durable as a write;
//! 4. the run is visible.
//!
//! The run moves from its place among the memtables into the manifest when the memtables below it
//! are flushed; until then the WAL keeps it.

use std::path::Path;
use std::sync::Arc;

use super::{Engine, TableCore};
use crate::commit::{WriteSet, encode_ingest};
use crate::error::{Error, Result};
use crate::key::{FileNumber, SeqNo};
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::options::{Maintenance, WriteOptions};
use crate::runs::{FileMeta, FileNumbers, Run, RunFile, RunMeta};
use crate::sstable::{BlockCache, NO_NUMBER, SsTable};
use crate::table_store::Imported;

/// The result of an ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestInfo {
    /// The sequence number of the ingest's commit: reads at this number or above see the ingested
    /// entries.
    pub seq: SeqNo,
    /// Number of ingested files.
    pub files: usize,
    /// The number of files that were linked rather than copied.
    pub linked_files: usize,
    /// Bytes of the ingested files.
    pub bytes: u64,
    /// Number of ingested entries, tombstones included.
    pub entries: u64,
}

impl Engine {
    /// Adds SSTables that were written outside of the database to a table by one commit. Returns
    /// once the commit is visible, and its record in the log is as durable as that of a write.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no file, if a file was not written for ingesting, or if two
    /// files have keys in the same range; the errors of a write; the damage of a file;
    /// [`Error::Io`].
    pub(crate) fn ingest(&self, table: &Arc<TableCore>, paths: &[&Path]) -> Result<IngestInfo> {
        self.check_access()?;
        table.check_writable()?;
        // A lack of space is found before files are copied.
        self.check_space(0)?;
        let sources = self.check_sources(paths)?;
        let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
            return Err(Error::InvalidRequest("no file to ingest".into()));
        };
        // To transactions an ingest is a write of the whole range of keys.
        let write_set = WriteSet::of_range(
            table.id,
            &first.properties().smallest_key,
            &last.properties().largest_key,
        );
        let mut taken = AdoptedFiles::new(self);
        for source in &sources {
            taken.add(source)?;
        }
        let (metas, files) = taken.open()?;
        let meta = RunMeta {
            id: self.runs.next_run_id(),
            // The commit's number is not known yet: see `RunMeta::ingested_by` below.
            smallest_seq: SeqNo::ZERO,
            largest_seq: SeqNo::ZERO,
            files: metas,
            keys: None,
            ingested_at: None,
            kept_for: Vec::new(),
        };
        let linked_files = taken.linked;
        let info = |seq| IngestInfo {
            seq,
            files: meta.files.len(),
            bytes: meta.bytes(),
            entries: meta.entries(),
            linked_files,
        };
        // An ingest costs no flush: it waits only where one more memtable would have to.
        self.admit_write(std::slice::from_ref(table), 0)?;

        // A capture of the database takes this lock: it must not find the record in the log without
        // the files in the table's version. Locked after the wait above, which may be long.
        let ingesting = self.ingesting.lock().unwrap();
        let payload = encode_ingest(table.id, &meta);
        let (ticket, (position, layer, pruned)) = self.queue.try_enter(1, |seq| {
            // The table may have been dropped since the first check. This comes before all effects: a
            // commit that is refused here gets no number, and must leave nothing behind.
            table.check_writable()?;
            let run = Run::new(meta.clone().ingested_by(seq), files);
            let layer = Arc::new(Memtable::of_run(run, seq));
            // The log keeps the segment of the record until the manifest names the run.
            layer.note_segment(self.wal.segment_number());
            table.update(|version| Some(version.ingested(&layer)));
            let position = self.wal.push(seq, 1, &payload);
            // Only recorded, not checked: an ingest reads nothing, so it conflicts with no earlier write.
            let needed = self.conflicts.is_needed() && !mutation::is(Mutation::IngestIsNoWrite);
            let pruned = needed.then(|| self.conflicts.record(seq, write_set));
            Ok::<_, Error>((position, layer, pruned))
        })?;
        // Freed without the order lock.
        drop(pruned);
        let seq = ticket.first();
        if let Err(e) = self.make_durable(position, WriteOptions::default()) {
            // The run is taken back before the ticket is dropped: after that a flush could install it.
            if !mutation::is(Mutation::KeepRefusedIngest) {
                layer.abandon_run();
                table.update(|version| version.without(&layer));
            }
            // After a failed write the record may be in the log all the same, and then needs the
            // files. No capture finds this record without the files: captures of a failed log are
            // refused. After a refusal the record is not in the log.
            if matches!(e, Error::ReadOnly { .. }) && !mutation::is(Mutation::RemoveUncertainIngest)
            {
                taken.keep();
            }
            return Err(e);
        }
        taken.keep();
        // As in `Engine::insert`: released first, so that a later flush frees it.
        drop(layer);
        ticket.publish();
        drop(ingesting);
        let info = info(seq);
        self.after_commit(std::slice::from_ref(table));
        // The run is flushed soon, however small: the log keeps its record until the manifest names it.
        if self.options.maintenance == Maintenance::Background {
            self.signal.flush();
        }
        Ok(info)
    }

    /// Opens and verifies the files, and returns them ascending by key.
    ///
    /// # Errors
    /// The error of a file that does not open or is damaged; `InvalidRequest` if a file was not
    /// written for ingesting, or if two files have keys in the same range.
    fn check_sources(&self, paths: &[&Path]) -> Result<Vec<Arc<SsTable>>> {
        let mut sources = Vec::new();
        for path in paths {
            // The file is read once, so nothing of it is cached.
            let cache = Arc::new(BlockCache::new(0));
            let source = SsTable::open(self.disk(), path, NO_NUMBER, cache)?;
            let properties = source.properties();
            let numbers = (properties.smallest_seq, properties.largest_seq);
            if numbers != (SeqNo::ZERO, SeqNo::ZERO) || properties.range_tombstones.is_some() {
                return Err(Error::InvalidRequest(format!(
                    "{} was not written for ingesting: it has commit numbers, or deletes ranges",
                    path.display()
                )));
            }
            source.verify()?;
            sources.push(source);
        }
        sources.sort_by(|a, b| {
            let smallest = |source: &SsTable| source.properties().smallest_key.clone();
            smallest(a).cmp(&smallest(b))
        });
        for pair in sources.windows(2) {
            if pair[0].properties().largest_key >= pair[1].properties().smallest_key {
                return Err(Error::InvalidRequest(format!(
                    "{} and {} have keys in the same range, from \"{}\"",
                    pair[0].path().display(),
                    pair[1].path().display(),
                    pair[1].properties().smallest_key.escape_ascii()
                )));
            }
        }
        Ok(sources)
    }
}

/// Files that were linked or copied into the store of the tables for an ingest. A drop without
/// [`AdoptedFiles::keep`] removes them.
struct AdoptedFiles<'a> {
    engine: &'a Engine,
    numbers: Vec<FileNumber>,
    /// The number of files that were linked rather than copied.
    linked: usize,
    kept: bool,
}

impl<'a> AdoptedFiles<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            numbers: Vec::new(),
            linked: 0,
            kept: false,
        }
    }

    /// Links or copies a file into the store of the tables, under a number of its own. The content
    /// of the new file is durable then, but not its name.
    fn add(&mut self, source: &SsTable) -> Result<()> {
        let number = self.engine.next_file_number()?;
        self.numbers.push(number);
        let tables = self.engine.runs.tables();
        if tables.import(source.path(), source.file_bytes(), number.0)? == Imported::Linked {
            self.linked += 1;
        }
        Ok(())
    }

    /// Makes the names of the new files durable, and opens the files. Returns their records and the
    /// open files.
    fn open(&self) -> Result<(Vec<FileMeta>, Vec<Arc<RunFile>>)> {
        let store = &self.engine.runs;
        let last = *self.numbers.last().expect("a file was taken");
        // One sync makes all their names durable; `last` is only the name for an error.
        store.finish(last, Mutation::IngestWithoutDirSync)?;
        let open = |&number| store.open_new(number);
        let opened: Vec<_> = self.numbers.iter().map(open).collect::<Result<_>>()?;
        Ok(opened.into_iter().unzip())
    }

    /// Lets the files stay in the store of the tables when `self` is dropped.
    fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for AdoptedFiles<'_> {
    fn drop(&mut self) {
        if !self.kept {
            for &number in &self.numbers {
                self.engine.runs.remove(number);
            }
        }
    }
}
