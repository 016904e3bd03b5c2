//! The manifest's file (the book, Formats: Manifest).
//!
//! ```text
//!   header   magic "ebbMANIF" 8 | version u32 | crc32 u32 of the rest | database id 16
//!   record   crc32 u32 of the rest | length u32 | an Edit as JSON
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::database_id::DatabaseId;
use super::state::{Edit, State};
use crate::error::{Error, ErrorKind, Result};
use crate::file_system::WriteFile;
use crate::files::{self, FileKind};
use crate::formats::MANIFEST;
use crate::key::FileNumber;
use crate::log_store::LogStore;
use crate::mutation::{self, Mutation};

const MAGIC: &[u8; 8] = b"ebbMANIF";
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 8;
/// A manifest of this size is replaced by one that holds just the state, unless
/// it began with more than half of that.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;

/// So often CURRENT is read until the manifest that it names is there.
const CURRENT_TRIES_MAX: usize = 100;

/// The state and the file that it is kept in.
#[derive(Debug)]
pub(crate) struct Manifest {
    log_store: Arc<dyn LogStore>,
    dir: PathBuf,
    id: DatabaseId,
    state: State,
    /// The manifest that CURRENT names; `None` in a new directory.
    current: Option<PathBuf>,
    next_number: FileNumber,
    /// Edits that were read behind the state that the file begins with.
    edits_read: usize,
    /// A manifest of so many bytes is replaced: at the earliest when its edits have
    /// become as long as the state that it began with, so that an edit costs what
    /// it says, however large the state is.
    bytes_max: u64,
    /// Open once something was changed since the opening.
    file: Option<(Box<dyn WriteFile>, u64)>,
    /// What a failed edit left on disk is uncertain: no edit follows one.
    failed: Option<Arc<str>>,
}

impl Manifest {
    /// Whether a directory has CURRENT, and so a database.
    pub(crate) fn exists(log_store: &dyn LogStore, dir: &Path) -> Result<bool> {
        let current = files::current(dir);
        let found = log_store.exists(&current);
        found.map_err(Error::io("look for", &current))
    }

    /// Reads the manifest that CURRENT names; `None` when the directory holds
    /// no database.
    pub(crate) fn load(log_store: Arc<dyn LogStore>, dir: &Path) -> Result<Option<Self>> {
        if !Self::exists(&*log_store, dir)? {
            return Ok(None);
        }
        let (path, number) = read_current(&*log_store, dir)?;
        let (id, state, edits_read) = replay(&path, &read_all(&*log_store, &path)?)?;
        Ok(Some(Self {
            log_store,
            dir: dir.to_path_buf(),
            id,
            state,
            current: Some(path),
            next_number: number.next(),
            edits_read,
            bytes_max: MANIFEST_BYTES_MAX,
            file: None,
            failed: None,
        }))
    }

    /// A manifest for a new database, written at once.
    pub(crate) fn create(log_store: Arc<dyn LogStore>, dir: &Path) -> Result<Self> {
        Self::create_with(log_store, dir, State::default())
    }

    /// The first manifest of a directory, written at once; the directory holds
    /// the database of `state` when this returns, and none before.
    pub(crate) fn create_with(
        log_store: Arc<dyn LogStore>,
        dir: &Path,
        state: State,
    ) -> Result<Self> {
        let mut manifest = Self::unwritten(log_store, dir, state);
        let state = manifest.state.clone();
        manifest.roll(&state)?;
        Ok(manifest)
    }

    /// A manifest in memory, which the first edit would write.
    pub(crate) fn unwritten(log_store: Arc<dyn LogStore>, dir: &Path, state: State) -> Self {
        Self {
            log_store,
            dir: dir.to_path_buf(),
            id: DatabaseId::random(),
            state,
            current: None,
            next_number: FileNumber(1),
            edits_read: 0,
            bytes_max: MANIFEST_BYTES_MAX,
            file: None,
            failed: None,
        }
    }

    /// Makes durable what was read, before anything relies on it. After an fsync
    /// that failed, edits and names can be read that never reach the disk from
    /// where they are: the system takes the pages for clean. So a manifest with
    /// edits is replaced by one that was written anew.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::DiskFull`] if the names cannot be synced. If a new
    /// manifest finds no space, the old one stays, because a full disk must not keep
    /// a database from being read.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.edits_read == 0 {
            // The state was synced before CURRENT named the file; that CURRENT
            // does may be news to the disk.
            return self.sync_names();
        }
        match self.roll(&self.state.clone()) {
            Err(Error::DiskFull { .. }) => self.sync_names(),
            outcome => outcome,
        }
    }

    pub(crate) fn id(&self) -> DatabaseId {
        self.id
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Bytes of the file, once something was changed since the opening; 0 before.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// The file that is live.
    pub(crate) fn current(&self) -> Option<&Path> {
        self.current.as_deref()
    }

    /// Makes an edit durable.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there was no space: the edit is nowhere, and the
    /// next one may succeed. After any other error it may or may not be on disk,
    /// and no other is accepted.
    pub(crate) fn commit(&mut self, edit: Edit) -> Result<()> {
        if let Some(cause) = &self.failed {
            return Err(Error::ReadOnly {
                cause: cause.clone(),
            });
        }
        let record = encode(&edit);
        // The last edit, damaged, looks like one that a crash tore. What flushes
        // and merges say would be missed; of the catalog nothing else knows.
        let appends = !edit.is_of_catalog() || mutation::is(Mutation::AppendCatalogEdits);
        let fits = self.state.check_edit(&edit);
        fits.expect("the engine makes edits that fit");
        let result = match self.file.take() {
            Some((file, bytes)) if appends && bytes < self.bytes_max => {
                self.append(file, bytes, &record)
            }
            // The new manifest begins with the state, the edit included.
            file => {
                let mut next = self.state.clone();
                next.apply(edit.clone()).expect("it was checked");
                self.roll(&next).inspect_err(|_| self.file = file)
            }
        };
        match &result {
            Ok(()) => self.state.apply(edit).expect("it was checked"),
            Err(_) if mutation::is(Mutation::KeepRefusedEdit) => {
                self.state.apply(edit).expect("it was checked");
            }
            Err(e) if e.kind() == ErrorKind::DiskFull => {}
            Err(e) => self.failed = Some(e.to_string().into()),
        }
        result
    }

    /// Appends to the open manifest, which has `bytes`. What finds no space is
    /// cut off again, durably, so that the next edit follows the last good one.
    ///
    /// This is safe after a sync that found no space, too (on a thin volume, or where space is
    /// allocated late). Each edit is synced before the next one is appended, so all that a failed
    /// sync can have dropped is this record, and the cut removes exactly that. If the cut fails, a
    /// crash may or may not show the edit, and the manifest takes no other.
    fn append(&mut self, mut file: Box<dyn WriteFile>, bytes: u64, record: &[u8]) -> Result<()> {
        let current = self.current.as_deref();
        let path = current.expect("an open manifest is current");
        let appended = file
            .append(record)
            .map_err(Error::no_space_or_io("write", path));
        let written = appended.and_then(|()| {
            let synced = mutation::unless(Mutation::EditWithoutSync, || file.sync());
            synced.map_err(Error::no_space_or_io("sync", path))
        });
        if let Err(e) = written {
            if e.kind() == ErrorKind::DiskFull {
                mutation::unless(Mutation::LeaveRefusedEdit, || {
                    self.log_store.truncate(path, bytes)
                })
                .map_err(Error::io("cut back", path))?;
                self.file = Some((file, bytes));
            }
            return Err(e);
        }
        self.file = Some((file, bytes + record.len() as u64));
        Ok(())
    }

    /// Begins a new manifest with `state`: written and synced whole, then named
    /// by CURRENT with an atomic rename, then the old one goes.
    ///
    /// Up to the rename nothing relies on the new manifest. If a write, a sync or the rename finds no
    /// space, the new manifest is removed and the edit is refused. The temporary file of CURRENT may
    /// stay, and is written anew by the next try. A sync of the directory that fails behind the
    /// rename is no refusal: either manifest may be the one that a crash leaves.
    fn roll(&mut self, state: &State) -> Result<()> {
        let name = files::manifest_name(self.next_number);
        let path = self.dir.join(&name);
        self.next_number = self.next_number.next();

        let mut bytes = header(self.id);
        bytes.extend_from_slice(&encode(&Edit::State(state.clone())));
        let file = self.write(&path, &bytes)?;

        let (tmp, current) = (files::current_tmp(&self.dir), files::current(&self.dir));
        self.write(&tmp, format!("{name}\n").as_bytes())
            .and_then(|_| self.sync_names())
            .inspect_err(|_| self.remove_unnamed(&path))?;
        let renamed = self.log_store.rename(&tmp, &current);
        renamed
            .map_err(Error::no_space_or_io("rename", &tmp))
            .inspect_err(|e| {
                // POSIX: a rename that fails leaves the old CURRENT, unless it fails by EIO.
                if e.kind() == ErrorKind::DiskFull {
                    self.remove_unnamed(&path);
                }
            })?;
        self.sync_dir().map_err(Error::io("sync", &self.dir))?;

        if let Some(old) = self.current.replace(path) {
            // The edit is durable, whether or not there is space to remove a name.
            self.remove_unnamed(&old);
        }
        let bytes = bytes.len() as u64;
        self.bytes_max = MANIFEST_BYTES_MAX.max(2 * bytes);
        self.file = Some((file, bytes));
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn WriteFile>> {
        let result = self.create_and_write(path, bytes);
        result.inspect_err(|_| self.remove_unnamed(path))
    }

    fn create_and_write(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn WriteFile>> {
        let mut file = self
            .log_store
            .create(path)
            .map_err(Error::no_space_or_io("create", path))?;
        file.append(bytes)
            .map_err(Error::no_space_or_io("write", path))?;
        mutation::unless(Mutation::ManifestWithoutSync, || file.sync())
            .map_err(Error::no_space_or_io("sync", path))?;
        Ok(file)
    }

    /// Removes a file that CURRENT does not name; one that stays is an orphan,
    /// which the next opening removes.
    fn remove_unnamed(&self, path: &Path) {
        let _ = self.log_store.remove(path);
    }

    /// Makes names durable on which nothing relies yet.
    fn sync_names(&self) -> Result<()> {
        self.sync_dir()
            .map_err(Error::no_space_or_io("sync", &self.dir))
    }

    fn sync_dir(&self) -> io::Result<()> {
        mutation::unless(Mutation::ManifestWithoutDirSync, || {
            self.log_store.sync_dir(&self.dir)
        })
    }
}

pub(super) fn read_all(log_store: &dyn LogStore, path: &Path) -> Result<Vec<u8>> {
    let file = log_store.open_read(path).map_err(Error::io("open", path))?;
    let mut bytes = vec![0; file.len().map_err(Error::io("read", path))? as usize];
    file.read_exact_at(&mut bytes, 0)
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// The live manifest of a directory, and its number.
fn read_current(log_store: &dyn LogStore, dir: &Path) -> Result<(PathBuf, FileNumber)> {
    let current = files::current(dir);
    let name = read_all(log_store, &current)?;
    if name == files::INCOMPLETE {
        let detail = "a backup or repair into this directory was interrupted; \
                      remove the directory and start again";
        return Err(Error::corruption(&current, 0, detail));
    }
    let path = std::str::from_utf8(&name)
        .ok()
        .map(|name| dir.join(name.trim_end()));
    match path.and_then(|path| FileKind::of(&path).map(|kind| (path, kind))) {
        Some((path, FileKind::Manifest(number))) => Ok((path, number)),
        _ => {
            let detail = "it does not name a manifest";
            Err(Error::corruption(&current, 0, detail))
        }
    }
}

/// Which database is in a directory, which somebody else may have open.
pub(crate) fn read_database_id(log_store: &dyn LogStore, dir: &Path) -> Result<DatabaseId> {
    let mut tries_left = CURRENT_TRIES_MAX;
    loop {
        let (path, _) = read_current(log_store, dir)?;
        let read = || -> io::Result<_> {
            let file = log_store.open_read(&path)?;
            let mut bytes = vec![0; HEADER_BYTES.min(file.len()? as usize)];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        tries_left -= 1;
        match read() {
            Ok(header) => return check_header(&path, &header),
            // Another one was named meanwhile, and this one removed.
            Err(e) if e.kind() == io::ErrorKind::NotFound && tries_left > 0 => {}
            Err(e) => return Err(Error::io("read", &path)(e)),
        }
    }
}

pub(super) fn header(id: DatabaseId) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&MANIFEST.version.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&id.0).to_le_bytes());
    bytes.extend_from_slice(&id.0);
    bytes
}

/// The version first: a header of another one may have another length.
fn check_header(path: &Path, bytes: &[u8]) -> Result<DatabaseId> {
    if bytes.len() < 12 || &bytes[..8] != MAGIC {
        return Err(Error::corruption(path, 0, "this is not a manifest"));
    }
    MANIFEST.check(path, u32_at(bytes, 8))?;
    let id = bytes.get(16..HEADER_BYTES);
    match id.filter(|id| crc32fast::hash(id) == u32_at(bytes, 12)) {
        Some(id) => Ok(DatabaseId(id.try_into().expect("16 bytes"))),
        None => {
            let detail = "the database id does not have its checksum";
            Err(Error::corruption(path, 12, detail))
        }
    }
}

pub(super) fn encode(edit: &Edit) -> Vec<u8> {
    let json = serde_json::to_vec(edit).expect("edits have string or number keys only");
    let mut out = vec![0; 4];
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&json);
    let crc = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Which database it is of, the state after all records, and how many edits made it.
/// An edit is synced
/// before the next one is written, so a record that does not read and has no good
/// one behind it was torn by a crash and never took effect: any part of it may be
/// missing, its length too. Anything else that does not read is damage.
pub(super) fn replay(path: &Path, bytes: &[u8]) -> Result<(DatabaseId, State, usize)> {
    let corrupt = |at: usize, detail: String| Error::corruption(path, at as u64, detail);
    let id = check_header(path, bytes)?;
    let mut state: Option<State> = None;
    let mut edits = 0;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let json = match record_at(bytes, at) {
            Ok(json) => json,
            // The first record was synced before CURRENT named the file.
            Err(detail) if state.is_none() => return Err(corrupt(at, detail)),
            Err(detail) => match later_record(bytes, at)
                .filter(|_| !mutation::is(Mutation::DamagedManifestIsTorn))
            {
                Some(later) => {
                    let detail = format!("{detail}, and a good record follows at offset {later}");
                    return Err(corrupt(at, detail));
                }
                None => break,
            },
        };
        let edit: Edit = serde_json::from_slice(json)
            .map_err(|e| corrupt(at, format!("a record that does not read: {e}")))?;
        match (&state, &edit) {
            (None, Edit::State(_)) | (Some(_), _) => {
                edits += usize::from(state.is_some());
                state
                    .get_or_insert_default()
                    .apply(edit)
                    .map_err(|detail| corrupt(at, detail))?;
            }
            (None, _) => return Err(corrupt(at, "the first record is not a state".into())),
        }
        at += RECORD_HEADER_BYTES + json.len();
    }
    let state = state.ok_or_else(|| corrupt(at, "no record".into()))?;
    state
        .check()
        .map_err(|detail| corrupt(HEADER_BYTES, detail))?;
    Ok((id, state, edits))
}

/// The state after the records before the first that does not read, does not fit
/// or makes no sense of the state, and the offset of that one; `None` without a
/// state. The header, which has no checksum, is passed over.
pub(super) fn replay_prefix(bytes: &[u8]) -> Option<(State, u64)> {
    let (state, end) = apply_prefix(bytes, false)?;
    match state.check() {
        Ok(()) => Some((state, end)),
        Err(_) => apply_prefix(bytes, true),
    }
}

/// `is_checked` ends it before the first edit after which the state makes no
/// sense; each edit costs as much as the state is long then.
fn apply_prefix(bytes: &[u8], is_checked: bool) -> Option<(State, u64)> {
    let mut state: Option<State> = None;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Ok(json) = record_at(bytes, at) else {
            break;
        };
        let before = if is_checked { state.clone() } else { None };
        let fits = match serde_json::from_slice(json) {
            Ok(edit @ Edit::State(_)) if state.is_none() => {
                state.get_or_insert_default().apply(edit).is_ok()
            }
            Ok(edit) => state
                .as_mut()
                .is_some_and(|state| state.apply(edit).is_ok()),
            Err(_) => false,
        };
        if is_checked && state.as_ref().is_some_and(|state| state.check().is_err()) {
            state = before;
            break;
        }
        if !fits {
            break;
        }
        at += RECORD_HEADER_BYTES + json.len();
    }
    state.map(|state| (state, at as u64))
}

/// The edit of the record at `at`, its checksum verified; the error says what is
/// wrong.
pub(super) fn record_at(bytes: &[u8], at: usize) -> Result<&[u8], String> {
    let left = bytes.len() - at;
    if left < RECORD_HEADER_BYTES {
        return Err(format!("{left} bytes where a record begins"));
    }
    let len = u32_at(bytes, at + 4) as usize;
    if len > left - RECORD_HEADER_BYTES {
        return Err(format!("a record of {len} bytes where {left} are left"));
    }
    let end = at + RECORD_HEADER_BYTES + len;
    let (found, expected) = (crc32fast::hash(&bytes[at + 4..end]), u32_at(bytes, at));
    if found != expected && !mutation::is(Mutation::TrustManifest) {
        return Err(format!(
            "record checksum {found:#010x}, expected {expected:#010x}"
        ));
    }
    Ok(&bytes[at + RECORD_HEADER_BYTES..end])
}

/// The offset of the first good record behind a bad one.
fn later_record(bytes: &[u8], bad: usize) -> Option<usize> {
    (bad + 1..bytes.len().saturating_sub(RECORD_HEADER_BYTES)).find(|&at| {
        // An edit is a JSON object or a string; looking for that first spares
        // most of the checksums.
        matches!(bytes[at + RECORD_HEADER_BYTES], b'{' | b'"') && record_at(bytes, at).is_ok()
    })
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::file_system::FileSystem;
    use crate::key::SeqNo;
    use crate::simulation::{FaultOp, MemDisk};
    use crate::snapshots::{Bookmarks, SnapshotRecord};

    fn manifest(keyspaces: &[&str]) -> Vec<u8> {
        let mut bytes = header(DatabaseId([7; 16]));
        bytes.extend_from_slice(&encode(&Edit::State(State::default())));
        for name in keyspaces {
            let name = name.to_string();
            bytes.extend_from_slice(&encode(&Edit::AddKeyspace { name }));
        }
        bytes
    }

    fn keyspaces(bytes: &[u8]) -> Result<Vec<String>> {
        replay(Path::new("MANIFEST-000001"), bytes).map(|(_, state, _)| state.keyspaces)
    }

    /// With many snapshots of many tables the state alone was longer than a manifest
    /// may become: each flush and each merge wrote all of it.
    #[test]
    fn a_large_state_is_not_written_anew_with_each_edit() {
        let disk = Arc::new(MemDisk::new());
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        let state = State {
            keyspaces: vec!["x".repeat(MANIFEST_BYTES_MAX as usize)],
            ..State::default()
        };
        let mut manifest = Manifest::create_with(disk, dir, state).unwrap();
        let first = manifest.current().map(Path::to_path_buf);
        let mut trim = |floor, bookmarks| {
            let floor = FileNumber(floor);
            manifest.commit(Edit::TrimWal { floor, bookmarks }).unwrap();
            manifest.current().map(Path::to_path_buf)
        };
        for floor in 2..10 {
            assert_eq!(trim(floor, None), first);
        }
        // Edits as long as that are worth a new one.
        let mut bookmarks = Bookmarks::default();
        let record = SnapshotRecord {
            id: 1,
            keyspace: "x".into(),
            name: "y".repeat(MANIFEST_BYTES_MAX as usize + 100),
            tables: Vec::new().into(),
            single_table: false,
            created_ms: 0,
            expires_ms: None,
        };
        bookmarks.add(SeqNo(1), record);
        assert_eq!(trim(10, Some(bookmarks)), first);
        assert_ne!(trim(11, None), first);
    }

    fn add(name: &str) -> Edit {
        let name = name.to_string();
        Edit::AddKeyspace { name }
    }

    fn trim(floor: u64) -> Edit {
        Edit::TrimWal {
            floor: FileNumber(floor),
            bookmarks: None,
        }
    }

    /// A sync or a rename that found no space stopped all writes until the next opening.
    #[test]
    fn an_edit_that_finds_no_space_is_refused_in_any_call_and_the_next_one_is_taken() {
        let dir = Path::new("/db");
        for (edit, op, nth) in [
            // A new manifest and then CURRENT are written, synced, and named.
            (add("refused"), FaultOp::Create, 1),
            (add("refused"), FaultOp::Create, 2),
            (add("refused"), FaultOp::Append, 2),
            (add("refused"), FaultOp::Sync, 1),
            (add("refused"), FaultOp::Sync, 2),
            (add("refused"), FaultOp::SyncDir, 1),
            (add("refused"), FaultOp::Rename, 1),
            // An edit is appended.
            (trim(7), FaultOp::Append, 1),
            (trim(7), FaultOp::Sync, 1),
        ] {
            for (seed, kind) in [
                (1, io::ErrorKind::StorageFull),
                (2, io::ErrorKind::QuotaExceeded),
            ] {
                let disk = MemDisk::new();
                disk.create_dir_all(dir).unwrap();
                let mut manifest = Manifest::create(Arc::new(disk.clone()), dir).unwrap();
                disk.fail_next(op, nth, kind);
                let refused = manifest.commit(edit.clone()).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::DiskFull, "{op:?} {nth}");
                let load = |disk: MemDisk| Manifest::load(Arc::new(disk), dir).unwrap().unwrap();
                let found = load(disk.fork());
                assert!(found.state().keyspaces.is_empty(), "{op:?} {nth}");
                assert_eq!(found.state().wal_floor, FileNumber::default());
                manifest.commit(trim(3)).unwrap();
                manifest.commit(add("kept")).unwrap();
                manifest.commit(trim(4)).unwrap();
                drop(manifest);
                disk.restart(seed);
                let found = load(disk);
                assert_eq!(found.state().keyspaces, ["kept"], "{op:?} {nth}");
                assert_eq!(found.state().wal_floor, FileNumber(4));
            }
        }
    }

    #[test]
    fn behind_the_rename_an_edit_is_done_or_its_failure_ends_all_edits() {
        let dir = Path::new("/db");
        let no_space = io::ErrorKind::StorageFull;
        let disk = MemDisk::new();
        disk.create_dir_all(dir).unwrap();
        let mut manifest = Manifest::create(Arc::new(disk.clone()), dir).unwrap();
        disk.fail_next(FaultOp::Remove, 1, no_space);
        manifest.commit(add("kept")).unwrap();
        assert_eq!(disk.armed_faults(), 0);
        disk.fail_next(FaultOp::SyncDir, 2, no_space);
        let failed = manifest.commit(add("uncertain")).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Io);
        let refused = manifest.commit(add("refused")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    }

    /// The power failed in the sync of an edit that lay in two sectors, and only
    /// the second had reached the disk: the record began with zeros, which is a
    /// length of 0 with the rest behind it, and was refused as damage.
    #[test]
    fn an_edit_torn_at_its_start_or_end_or_both_never_took_effect() {
        let (before, whole) = (manifest(&["a"]), manifest(&["a", "b"]));
        for zeros_to in before.len() + 1..=whole.len() {
            for cut in before.len()..=whole.len() {
                let mut torn = whole.clone();
                torn[before.len()..zeros_to].fill(0);
                torn.truncate(cut);
                assert_eq!(keyspaces(&torn).unwrap(), ["a"], "{zeros_to} {cut}");
            }
        }
    }

    /// A length that a flipped bit made too long looked like a record cut off by
    /// a crash, and all edits behind it were forgotten without a word.
    #[test]
    fn a_flipped_bit_in_an_edit_with_another_behind_it_is_damage() {
        let (before, whole) = (manifest(&["a"]), manifest(&["a", "b"]));
        for bit in 0..before.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(
                    keyspaces(&damaged),
                    Err(Error::Corruption { .. } | Error::UnsupportedFormat { .. })
                ),
                "bit {bit}"
            );
        }
    }
}
