//! Verify: whether the files of a database say what they must.
//!
//! ```text
//!   manifest ─► runs ─► SSTables      each by itself, and as the run has it
//!       └─────► bookmarks
//!       └─────► WAL segments          records, numbers, tables
//! ```
//!
//! It reads and never writes, and goes on behind what it finds. Without a
//! manifest that reads, each file is checked by itself.

mod log_check;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log_check::LogCheck;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::{self, FileKind, FileNumber};
use crate::key::SeqNo;
use crate::manifest::{Manifest, State, TableMeta};
use crate::options::Options;
use crate::sstable::{BlockCache, SsTable};
use crate::version::run::RunMeta;
use crate::version::table_version::TableId;
use crate::vfs::{LockGuard, Vfs};
use crate::wal::{self, Lsn, Segment};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Byte offset of what is wrong; 0 where it is the file as a whole.
    pub offset: u64,
    /// What was expected and what was found.
    pub detail: String,
}

/// What was looked at, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct VerifyReport {
    /// Everything that is wrong; empty when all is well.
    pub findings: Vec<Finding>,
    /// SSTables and WAL segments read.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Versions and range tombstones in the SSTables.
    pub entries: u64,
    /// Runs.
    pub runs: u64,
    /// Named snapshots, by manifest and log.
    pub bookmarks: u64,
    /// Commits in the WAL.
    pub wal_records: u64,
    /// Bytes behind the last good record of the WAL: what a crash left of
    /// writes that were not acknowledged as durable. The next opening cuts them.
    pub wal_torn_bytes: u64,
}

/// How far a verification has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes read.
    pub bytes_done: u64,
    /// Bytes to read, as far as is known.
    pub bytes_total: u64,
}

/// Verifies the database of a directory without opening it: nothing is
/// recovered, cut or removed, and it may be one that does not open.
///
/// # Errors
/// [`Error::NoDatabase`], [`Error::Locked`]; [`Error::Io`] when the directory
/// cannot be read. What is wrong with the files is in the report.
pub fn verify(
    dir: impl AsRef<Path>,
    options: &Options,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport> {
    let (dir, vfs) = (dir.as_ref(), &options.vfs);
    let files = DbFiles::list(&**vfs, dir)?;
    let _lock = lock_to_read(&**vfs, dir)?;
    let mut check = Check::new(vfs, dir, progress);
    match Manifest::load(vfs.clone(), dir) {
        Ok(Some(manifest)) => {
            let state = manifest.state();
            let segments = check.segments(state.wal_floor);
            check.state(state, &segments);
        }
        Ok(None) => {
            check.add(&files::current(dir), 0, "it is missing");
            check.by_itself(&files);
        }
        Err(error) => {
            check.add_error(error);
            check.by_itself(&files);
        }
    }
    Ok(check.report)
}

/// Verifies the files in which a state of the database in `dir` stands; they
/// must stay meanwhile. `segments` are those of the WAL with the bytes that
/// count.
pub(crate) fn verify_state(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    state: &State,
    segments: &[(FileNumber, u64)],
    progress: &mut dyn FnMut(VerifyProgress),
) -> VerifyReport {
    let mut check = Check::new(vfs, dir, progress);
    let with_path = |&(number, bytes): &(FileNumber, u64)| {
        let path = files::wal(dir, number);
        (Segment { number, path }, bytes)
    };
    let segments: Vec<_> = segments.iter().map(with_path).collect();
    check.state(state, &segments);
    check.report
}

/// The SSTables and WAL segments of a directory, ascending.
#[derive(Debug, Default)]
pub(crate) struct DbFiles {
    pub(crate) sstables: Vec<FileNumber>,
    pub(crate) segments: Vec<FileNumber>,
    pub(crate) manifests: Vec<FileNumber>,
}

impl DbFiles {
    /// # Errors
    /// [`Error::NoDatabase`] when there is nothing of a database.
    pub(crate) fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Self> {
        let none = || Error::NoDatabase {
            path: dir.to_path_buf(),
        };
        if !vfs.exists(dir).map_err(Error::io("look for", dir))? {
            return Err(none());
        }
        let mut files = Self::default();
        for path in vfs.list(dir).map_err(Error::io("list", dir))? {
            match FileKind::of(&path) {
                Some(FileKind::SsTable(number)) => files.sstables.push(number),
                Some(FileKind::Wal(number)) => files.segments.push(number),
                Some(FileKind::Manifest(number)) => files.manifests.push(number),
                Some(FileKind::Temporary) | None => {}
            }
        }
        for list in [
            &mut files.sstables,
            &mut files.segments,
            &mut files.manifests,
        ] {
            list.sort_unstable();
        }
        let current = files::current(dir);
        let is_empty =
            files.sstables.is_empty() && files.segments.is_empty() && files.manifests.is_empty();
        if is_empty
            && !vfs
                .exists(&current)
                .map_err(Error::io("look for", &current))?
        {
            return Err(none());
        }
        Ok(files)
    }
}

/// The lock of a directory that is only read; `None` where it cannot be written
/// to, and so nobody else can either.
pub(crate) fn lock_to_read(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    match files::take_lock(vfs, dir) {
        Ok(lock) => Ok(Some(lock)),
        Err(Error::Io { source, .. })
            if matches!(
                source.kind(),
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

struct Check<'a> {
    vfs: &'a Arc<dyn Vfs>,
    dir: &'a Path,
    cache: Arc<BlockCache>,
    report: VerifyReport,
    bytes_total: u64,
    progress: &'a mut dyn FnMut(VerifyProgress),
}

impl<'a> Check<'a> {
    fn new(
        vfs: &'a Arc<dyn Vfs>,
        dir: &'a Path,
        progress: &'a mut dyn FnMut(VerifyProgress),
    ) -> Self {
        Self {
            vfs,
            dir,
            cache: Arc::new(BlockCache::new(0)),
            report: VerifyReport::default(),
            bytes_total: 0,
            progress,
        }
    }

    fn add(&mut self, path: &Path, offset: u64, detail: impl Into<String>) {
        self.report.findings.push(Finding {
            path: path.to_path_buf(),
            offset,
            detail: detail.into(),
        });
    }

    fn add_error(&mut self, error: Error) {
        self.report.findings.push(finding(error, self.dir));
    }

    /// Counts bytes as read.
    fn read(&mut self, bytes: u64) {
        self.report.files += 1;
        self.report.bytes += bytes;
        (self.progress)(VerifyProgress {
            bytes_done: self.report.bytes,
            bytes_total: self.bytes_total.max(self.report.bytes),
        });
    }

    /// The WAL segments from `floor` on with their lengths; holes are findings.
    fn segments(&mut self, floor: FileNumber) -> Vec<(Segment, u64)> {
        match wal::segments(&**self.vfs, self.dir, floor) {
            Ok(segments) => segments
                .into_iter()
                .map(|segment| {
                    let bytes = self.file_bytes(&segment.path);
                    (segment, bytes)
                })
                .collect(),
            Err(error) => {
                self.add_error(error);
                Vec::new()
            }
        }
    }

    fn file_bytes(&self, path: &Path) -> u64 {
        let file = self.vfs.open_read(path);
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    fn state(&mut self, state: &State, segments: &[(Segment, u64)]) {
        let wal_bytes: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
        self.bytes_total = state.runs().map(|run| run.bytes).sum::<u64>() + wal_bytes;
        let manifest = files::current(self.dir);
        for detail in contradictions(state) {
            self.add(&manifest, 0, detail);
        }
        for table in state.tables.values() {
            for run in &table.runs {
                self.run(table, run);
            }
        }
        self.wal(state, segments);
    }

    fn run(&mut self, table: &TableMeta, run: &RunMeta) {
        self.report.runs += 1;
        let name = format!("run {} of {}.{}", run.id.0, table.keyspace, table.name);
        let (mut bytes, mut entries, mut whole) = (0, 0, true);
        let mut before: Option<Vec<u8>> = None;
        for &number in &run.files {
            let Some(file) = self.sstable(number) else {
                (whole, before) = (false, None);
                continue;
            };
            let told = file.properties();
            bytes += file.file_bytes();
            entries += told.entries_with_tombstones();
            let ingested = run.ingested_at.is_some();
            let (expected, span) = match ingested {
                true => (0, (SeqNo::ZERO, SeqNo::ZERO)),
                false => (table.id.0, (run.smallest_seq, run.largest_seq)),
            };
            if told.table_id != expected {
                let detail = format!("{name} has a file of table {}", told.table_id);
                self.add(file.path(), 0, detail);
            }
            if told.smallest_seq < span.0 || told.largest_seq > span.1 {
                let detail = format!(
                    "{name} spans {} to {}, the file {} to {}",
                    span.0, span.1, told.smallest_seq, told.largest_seq
                );
                self.add(file.path(), 0, detail);
            }
            if told.entries == 0 {
                // Range tombstones only: they have no place among the keys.
                continue;
            }
            if before.is_some_and(|before| before >= told.smallest_key) {
                let detail = format!("{name}: the file before it reaches into its keys");
                self.add(file.path(), 0, detail);
            }
            before = Some(told.largest_key.clone());
        }
        if whole && (bytes, entries) != (run.bytes, run.entries) {
            let detail = format!(
                "{name} has {} versions in {} bytes, its files {entries} in {bytes}",
                run.entries, run.bytes
            );
            self.add(&files::current(self.dir), 0, detail);
        }
    }

    /// Checks an SSTable against itself; `None` when it does not open.
    fn sstable(&mut self, number: FileNumber) -> Option<Arc<SsTable>> {
        let path = files::sstable(self.dir, number);
        let file = match SsTable::open(&**self.vfs, &path, number.0, self.cache.clone()) {
            Ok(file) => file,
            Err(error) => {
                self.add_error(error);
                self.read(self.file_bytes(&path));
                return None;
            }
        };
        let mut found = Vec::new();
        file.verify_all(&mut |error| found.push(error));
        for error in found {
            self.add_error(error);
        }
        self.report.entries += file.properties().entries_with_tombstones();
        self.read(file.file_bytes());
        Some(file)
    }

    fn wal(&mut self, state: &State, segments: &[(Segment, u64)]) {
        let (mut log, mut base) = (LogCheck::new(Some(state)), None);
        for (i, (segment, bytes_max)) in segments.iter().enumerate() {
            let is_last = i + 1 == segments.len();
            match self.segment(segment, *bytes_max, is_last, base, &mut log) {
                Ok(end) => base = Some(end),
                Err(error) => {
                    self.add_error(error);
                    base = None;
                }
            }
        }
        self.report.bookmarks = log.snapshots.len() as u64;
        self.bytes_total += log.waiting.iter().map(|(_, run)| run.bytes).sum::<u64>();
        for (table, run) in &log.waiting {
            self.run(&state.tables[table], run);
        }
    }

    fn segment(
        &mut self,
        segment: &Segment,
        bytes_max: u64,
        is_last: bool,
        base: Option<Lsn>,
        log: &mut LogCheck<'_>,
    ) -> Result<Lsn> {
        let mut bytes = wal::read_all(&**self.vfs, &segment.path)?;
        bytes.truncate(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        self.read(bytes.len() as u64);
        let mut records = 0;
        let replayed =
            wal::replay_bytes(&bytes, segment, is_last, base, |first, count, ops, at| {
                records += 1;
                log.commit(first, count, ops)
                    .map_err(|detail| Error::corruption(&segment.path, at, detail))
            });
        self.report.wal_records += records;
        let replayed = replayed?;
        self.report.wal_torn_bytes = bytes.len() as u64 - replayed.good_bytes;
        Ok(replayed.end)
    }

    /// Checks every file without knowing what it is for.
    fn by_itself(&mut self, files: &DbFiles) {
        let paths = files.sstables.iter().map(|&n| files::sstable(self.dir, n));
        let paths = paths.chain(files.segments.iter().map(|&n| files::wal(self.dir, n)));
        self.bytes_total = paths.map(|path| self.file_bytes(&path)).sum();
        for &number in &files.sstables {
            self.sstable(number);
        }
        for (i, &number) in files.segments.iter().enumerate() {
            let path = files::wal(self.dir, number);
            let segment = Segment { number, path };
            let is_last = i + 1 == files.segments.len();
            let checked = self.segment(&segment, u64::MAX, is_last, None, &mut LogCheck::new(None));
            if let Err(error) = checked {
                self.add_error(error);
            }
        }
    }
}

/// What in the manifest's state contradicts itself.
fn contradictions(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    let (mut runs, mut numbers, mut names) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (id, table) in &state.tables {
        let name = format!("{}.{}", table.keyspace, table.name);
        if *id > state.last_table_id {
            let last = state.last_table_id.0;
            found.push(format!(
                "table {name} has id {}, above the last one, {last}",
                id.0
            ));
        }
        if *id != table.id {
            found.push(format!(
                "table {name} is listed as {} and says {}",
                id.0, table.id.0
            ));
        }
        if !table.dropped && !state.keyspaces.contains(&table.keyspace) {
            found.push(format!("table {name} is in no keyspace that is listed"));
        }
        if !table.dropped && !names.insert(name.clone()) {
            found.push(format!("table {name} is listed twice"));
        }
        for run in &table.runs {
            if !runs.insert(run.id) {
                found.push(format!("run {} is listed twice", run.id.0));
            }
            if run.files.is_empty() {
                found.push(format!("run {} has no file", run.id.0));
            }
            if run.smallest_seq > run.largest_seq || run.largest_seq > table.flushed_seq {
                found.push(format!(
                    "run {} of {name} spans {} to {}; the table is flushed up to {}",
                    run.id.0, run.smallest_seq, run.largest_seq, table.flushed_seq
                ));
            }
            for file in run.files.iter().filter(|file| !numbers.insert(**file)) {
                found.push(format!("file {} is listed twice", file.0));
            }
        }
    }
    contradicting_bookmarks(state, &mut found);
    found
}

fn contradicting_bookmarks(state: &State, found: &mut Vec<String>) {
    let bookmarks = &state.bookmarks;
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    let mut before = SeqNo::ZERO;
    for bookmark in &bookmarks.list {
        let record = &bookmark.record;
        let name = format!("snapshot {} of {}", record.name, record.keyspace);
        if !ids.insert(record.id) || record.id > bookmarks.last_id {
            found.push(format!(
                "{name} has id {}, which is not its own or above the last one, {}",
                record.id, bookmarks.last_id
            ));
        }
        if !names.insert((&record.keyspace, &record.name)) {
            found.push(format!("{name} is listed twice"));
        }
        if bookmark.seq < before || bookmark.seq > bookmarks.as_of {
            found.push(format!(
                "{name} is commit {}, after {before} in a list as of {}",
                bookmark.seq, bookmarks.as_of
            ));
        }
        before = bookmark.seq;
        let known = |id: &TableId| state.tables.contains_key(id);
        for (table, _) in record.tables.iter().filter(|(_, id)| !known(id)) {
            found.push(format!("{name} shows a table {table} that there is not"));
        }
    }
}

/// An error as a finding; one that names no file is of the directory.
pub(crate) fn finding(error: Error, dir: &Path) -> Finding {
    match error {
        Error::Corruption {
            path,
            offset,
            detail,
        } => Finding {
            path,
            offset,
            detail,
        },
        Error::UnsupportedFormat {
            path,
            found,
            supported,
        } => Finding {
            path,
            offset: 0,
            detail: format!("format version {found}; this build reads version {supported}"),
        },
        Error::Io { path, source, .. } => Finding {
            path,
            offset: 0,
            detail: match source.kind() {
                std::io::ErrorKind::NotFound => "it is missing".to_string(),
                _ => format!("it cannot be read: {source}"),
            },
        },
        other => Finding {
            path: dir.to_path_buf(),
            offset: 0,
            detail: other.to_string(),
        },
    }
}

/// A path as text, for reports.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::retention::register::{Bookmark, SnapshotRecord};
    use crate::version::run::RunId;

    fn run(id: u64, span: (u64, u64), file: u64) -> RunMeta {
        RunMeta {
            id: RunId(id),
            smallest_seq: SeqNo(span.0),
            largest_seq: SeqNo(span.1),
            files: vec![FileNumber(file)],
            bytes: 1,
            entries: 1,
            ingested_at: None,
            kept_for: Vec::new(),
        }
    }

    fn sound() -> State {
        let table = TableMeta {
            id: TableId(1),
            keyspace: "app".into(),
            name: "t".into(),
            options: Default::default(),
            flushed_seq: SeqNo(9),
            dropped: false,
            runs: vec![run(2, (5, 9), 2), run(1, (1, 4), 1)],
        };
        let bookmark = |seq, id| Bookmark {
            seq: SeqNo(seq),
            record: SnapshotRecord {
                id,
                keyspace: "app".into(),
                name: format!("s{id}"),
                tables: vec![("t".into(), TableId(1))],
                single_table: false,
                created_ms: 0,
                expires_ms: None,
            },
        };
        let mut state = State {
            keyspaces: vec!["app".into()],
            tables: [(TableId(1), table)].into(),
            last_table_id: TableId(1),
            ..State::default()
        };
        state.bookmarks.as_of = SeqNo(7);
        state.bookmarks.last_id = 2;
        state.bookmarks.list = vec![bookmark(3, 1), bookmark(6, 2)];
        state
    }

    #[test]
    fn a_state_that_contradicts_itself_is_told() {
        assert_eq!(contradictions(&sound()), [] as [String; 0]);
        type Change = fn(&mut State);
        fn table(state: &mut State) -> &mut TableMeta {
            state.tables.get_mut(&TableId(1)).unwrap()
        }
        let cases: [(Change, &str); 11] = [
            (|s| table(s).runs[0].id = RunId(1), "run 1 is listed twice"),
            (|s| table(s).runs[0].files[0] = FileNumber(1), "file 1 is"),
            (|s| table(s).runs[0].files.clear(), "run 2 has no file"),
            (|s| table(s).runs[0].smallest_seq = SeqNo(10), "spans 10"),
            (|s| table(s).flushed_seq = SeqNo(8), "flushed up to 8"),
            (|s| table(s).id = TableId(2), "says 2"),
            (|s| s.keyspaces.clear(), "in no keyspace"),
            (|s| s.bookmarks.list[0].record.id = 2, "has id 2"),
            (|s| s.bookmarks.last_id = 1, "has id 2"),
            (|s| s.bookmarks.as_of = SeqNo(5), "commit 6"),
            (
                |s| s.bookmarks.list[0].record.tables[0].1 = TableId(7),
                "table t that there is not",
            ),
        ];
        for (change, expected) in cases {
            let mut state = sound();
            change(&mut state);
            let found = contradictions(&state);
            assert!(
                found.iter().any(|detail| detail.contains(expected)),
                "{expected}: {found:?}"
            );
        }
    }
}
