//! The live manifest, and the edits of it.
//!
//! Each edit is appended to both copies of the manifest, or begins a new manifest, whose state includes
//! the edit. Both copies are synced before anything relies on the edit, so damage to one copy loses
//! nothing. After such damage, the next opening for writing replaces the manifest by a new one, if the
//! disk has space for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copies::most_telling;
use super::current::{Current, Live, naming};
use super::database_id::DatabaseId;
use super::inspection::Inspection;
use super::record::{HEADER_BYTES, check_header, encode, header};
use super::replay::replay;
use super::state::{Edit, State};
use crate::error::{Error, Result};
use crate::file_system::WriteFile;
use crate::files;
use crate::key::FileNumber;
use crate::log_store::LogStore;
use crate::mutation::{self, Mutation};

/// The size, in bytes, at which a manifest is replaced by a new one that contains only the state. A
/// manifest that began with a state of more than half of this size may grow to twice that state.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;

/// The maximal number of times that [`read_database_id`] reads CURRENT. Before it opens the manifest that
/// CURRENT names, another process may replace that manifest by a new one. Then it reads CURRENT again.
const CURRENT_TRIES_MAX: usize = 100;

/// The state of the database, and the manifest files that store it.
#[derive(Debug)]
pub(crate) struct Manifest {
    log_store: Arc<dyn LogStore>,
    dir: PathBuf,
    id: DatabaseId,
    state: State,
    /// The number of the live manifest: of those that CURRENT and its copy name, the newest one that exists.
    /// `None` in a directory without a manifest.
    current: Option<FileNumber>,
    next_number: FileNumber,
    /// The number of edits that were read after the manifest's first record, which is a whole
    /// state.
    edits_read: usize,
    /// Whether, when the manifest was read, both CURRENT and its copy named it, and no damage was found.
    is_whole: bool,
    /// The damage to copies of the manifest or to CURRENT. Nothing was lost, because each damaged part was
    /// readable in the other copy.
    damage: Vec<Error>,
    /// The size, in bytes, at which the manifest is replaced: at least twice the size of the state
    /// that the manifest began with. Before the engine writes a whole state again, it has written
    /// edits of at least the same size. So the average cost of an edit does not depend on the size
    /// of the state.
    bytes_max: u64,
    /// The open copies of the manifest; `None` until the first change since the opening of the
    /// database.
    open: Option<OpenCopies>,
    /// The failure of an edit that left the content of the disk uncertain. No edit is made after it.
    failed: Option<Arc<str>>,
}

/// Both copies of a manifest, open to be appended to.
#[derive(Debug)]
struct OpenCopies {
    files: [Box<dyn WriteFile>; 2],
    paths: [PathBuf; 2],
    /// The length of each copy, in bytes.
    bytes: u64,
}

impl Manifest {
    /// Returns whether a directory has CURRENT or its copy. Then it has a database, or the incomplete copy of
    /// one that an interrupted backup or repair left.
    pub(crate) fn exists(log_store: &dyn LogStore, dir: &Path) -> Result<bool> {
        Current::exists(log_store, dir)
    }

    /// Reads the live manifest: of those that CURRENT and its copy name, the newest one that exists. Returns
    /// `None` if the directory has neither CURRENT nor its copy, so that it has no database.
    pub(crate) fn load(log_store: Arc<dyn LogStore>, dir: &Path) -> Result<Option<Self>> {
        if !Self::exists(&*log_store, dir)? {
            return Ok(None);
        }
        let Live {
            copies,
            mut damage,
            is_named_twice,
            newest_named,
        } = Current::read(&*log_store, dir)?.live(&*log_store, dir)?;
        damage.extend(copies.unreadable);
        if copies.read.is_empty() {
            return Err(most_telling(damage));
        }
        let replayed = replay(&copies.read)?;
        damage.extend(replayed.damage);
        Ok(Some(Self {
            log_store,
            dir: dir.to_path_buf(),
            id: replayed.id,
            state: replayed.state,
            current: Some(copies.number),
            next_number: newest_named.next(),
            edits_read: replayed.edits,
            is_whole: is_named_twice && damage.is_empty(),
            damage,
            bytes_max: MANIFEST_BYTES_MAX,
            open: None,
            failed: None,
        }))
    }

    /// Writes the first manifest of a new, empty database.
    pub(crate) fn create(log_store: Arc<dyn LogStore>, dir: &Path) -> Result<Self> {
        Self::create_with(log_store, dir, State::default())
    }

    /// Writes the first manifest of a directory, with `state`. The directory is no database before,
    /// and a database when this returns.
    pub(crate) fn create_with(
        log_store: Arc<dyn LogStore>,
        dir: &Path,
        state: State,
    ) -> Result<Self> {
        Self::create_numbered(log_store, dir, state, FileNumber(1))
    }

    /// Writes a manifest with the number `number`, which must be above that of the live manifest, and
    /// makes it the live one. The files of the older manifest stay.
    pub(crate) fn create_numbered(
        log_store: Arc<dyn LogStore>,
        dir: &Path,
        state: State,
        number: FileNumber,
    ) -> Result<Self> {
        let mut manifest = Self::unwritten(log_store, dir, state);
        manifest.next_number = number;
        let state = manifest.state.clone();
        manifest.roll(&state)?;
        Ok(manifest)
    }

    /// Returns a manifest in memory. The first edit, if there is one, writes its files.
    pub(crate) fn unwritten(log_store: Arc<dyn LogStore>, dir: &Path, state: State) -> Self {
        Self {
            log_store,
            dir: dir.to_path_buf(),
            id: DatabaseId::random(),
            state,
            current: None,
            next_number: FileNumber(1),
            edits_read: 0,
            is_whole: true,
            damage: Vec::new(),
            bytes_max: MANIFEST_BYTES_MAX,
            open: None,
            failed: None,
        }
    }

    /// Makes the state that was read durable, before anything relies on it. After a failed fsync in
    /// an earlier process, edits and the content of CURRENT may be only in the system's cache, and
    /// never reach the disk, because the system takes these pages for clean. So a manifest with
    /// edits, or with a damaged copy, is replaced by a new one. If there is no space for the new
    /// one, the old one stays, because a full disk must not prevent reads.
    ///
    /// # Errors
    /// [`Error::DiskFull`] if there is no space to sync the directory, or to replace the manifest
    /// of a backup. (The manifest of a backup cannot stay: while it has the mark of the backup, an
    /// opening ignores WAL segments that were written after the backup.) [`Error::Io`].
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.state.backup.take().is_some() {
            return self.roll(&self.state.clone());
        }
        if self.edits_read == 0 && self.is_whole {
            // The state was synced before CURRENT named the manifest. The name itself may not be
            // durable yet.
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

    /// Returns the damage that was found when the copies of the manifest and of CURRENT were read.
    /// Nothing was lost by it.
    pub(crate) fn damage(&self) -> &[Error] {
        &self.damage
    }

    /// Begins a check of the manifest's files. Edits may be made as soon as this has returned. The
    /// check of a directory without a manifest finds no damage.
    ///
    /// # Errors
    /// As [`Inspection::begin`].
    pub(crate) fn inspect(&self) -> Result<Inspection> {
        let Some(live) = self.current else {
            return Ok(Inspection::default());
        };
        let written = self.open.as_ref().map(|open| open.bytes);
        let is_exact = written.is_some() || self.is_whole;
        Inspection::begin(&*self.log_store, &self.dir, live, written, is_exact)
    }

    /// Returns the total length of both copies of the manifest, in bytes; 0 until the first change
    /// since the opening of the database.
    pub(crate) fn bytes(&self) -> u64 {
        let open = self.open.as_ref();
        open.map_or(0, |open| open.bytes * open.files.len() as u64)
    }

    pub(crate) fn next_number(&self) -> FileNumber {
        self.next_number
    }

    /// Returns the number of the live manifest, which CURRENT or its copy names; `None` if none was written
    /// yet.
    pub(crate) fn current(&self) -> Option<FileNumber> {
        self.current
    }

    /// Returns whether an edit failed and left the content of the disk uncertain: the edit may be there
    /// at the next opening.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Makes an edit durable.
    ///
    /// # Errors
    /// [`Error::DiskFull`] if there was no space, [`Error::NoDescriptor`] if there was no file
    /// descriptor or no memory: the edit is in neither copy of the manifest, and the next edit may
    /// succeed. After any other error the edit may or may not be on disk, and every later edit fails
    /// with [`Error::ReadOnly`].
    pub(crate) fn commit(&mut self, edit: Edit) -> Result<()> {
        if let Some(cause) = &self.failed {
            return Err(Error::ReadOnly {
                cause: cause.clone(),
            });
        }
        let fits = self.state.check_edit(&edit);
        fits.expect("the engine makes edits that fit");
        let result = match self.open.take() {
            Some(open) if open.bytes < self.bytes_max => self.append(open, &encode(&edit)),
            // The new manifest begins with the state, the edit included.
            open => {
                let mut next = self.state.clone();
                next.apply(edit.clone()).expect("it was checked");
                self.roll(&next).inspect_err(|_| self.open = open)
            }
        };
        match &result {
            Ok(()) => self.state.apply(edit).expect("it was checked"),
            Err(_) if mutation::is(Mutation::KeepRefusedEdit) => {
                self.state.apply(edit).expect("it was checked");
            }
            Err(e) if e.is_refusal() => {}
            Err(e) => self.failed = Some(e.to_string().into()),
        }
        result
    }

    /// Appends a record to both copies of the manifest. If there is no space or no memory for it in
    /// one of them, the record is cut off again from both, durably, so that the next edit follows the
    /// last good one.
    ///
    /// This is safe after a sync that found no space, too (on a thin volume, or where space is
    /// allocated late). Each edit is synced in both copies before the next one is appended, so a
    /// failed sync can have dropped only this record, and the cut removes exactly this record. If a
    /// cut fails, the edit may or may not be there after a crash, and the manifest accepts no other
    /// edit.
    fn append(&mut self, mut open: OpenCopies, record: &[u8]) -> Result<()> {
        let appended = open.append(record);
        let written = appended.and_then(|()| open.sync(Mutation::EditWithoutSync));
        if let Err(e) = written {
            if e.is_refusal() {
                for path in &open.paths {
                    mutation::unless(Mutation::LeaveRefusedEdit, || {
                        self.log_store.truncate(path, open.bytes)
                    })
                    .map_err(Error::io("cut back", path))?;
                }
                self.open = Some(open);
            }
            return Err(e);
        }
        open.bytes += record.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    /// Begins a new manifest with `state`. Writes and syncs both copies of it, then replaces CURRENT
    /// and its copy by atomic renames, so that they name the new manifest, and then removes the old
    /// manifest.
    ///
    /// Before the rename of CURRENT nothing relies on the new manifest. If a write, a sync or this
    /// rename finds no space, both copies of the new manifest are removed, and the edit is refused.
    /// The temporary files of CURRENT may stay; the next try writes them anew.
    ///
    /// From the rename of CURRENT on, the edit can no longer be refused, even for lack of space:
    /// after a crash, either manifest may be live. If a call fails then, the manifest accepts no
    /// other edit: if the copy of CURRENT still names the old manifest, that one would be used after
    /// damage to CURRENT, and lacks all later edits. The next opening of the database reads the
    /// newer manifest, and begins another one, which both CURRENT and its copy name.
    fn roll(&mut self, state: &State) -> Result<()> {
        let number = self.next_number;
        self.next_number = number.next();

        let mut bytes = header(self.id);
        bytes.extend_from_slice(&encode(&Edit::State(state.clone())));
        let open = self.write_twice(files::manifests(&self.dir, number), &bytes)?;

        let [tmp, copy_tmp] = files::current_tmps(&self.dir);
        self.write_twice([tmp.clone(), copy_tmp.clone()], naming(number).as_bytes())
            .and_then(|_| self.sync_names())
            .inspect_err(|_| self.remove_unnamed(&open.paths))?;
        // CURRENT first: a directory that is being filled has no copy of it, and becomes a
        // database by this rename.
        let [current, current_copy] = files::currents(&self.dir);
        self.log_store
            .rename(&tmp, &current)
            .map_err(refused("rename", &tmp))
            .inspect_err(|e| {
                // POSIX: a rename that fails leaves the old CURRENT, unless it fails by EIO.
                if e.is_refusal() {
                    self.remove_unnamed(&open.paths);
                }
            })?;
        self.log_store
            .rename(&copy_tmp, &current_copy)
            .map_err(Error::io("rename", &copy_tmp))?;
        self.sync_dir().map_err(Error::io("sync", &self.dir))?;

        if let Some(old) = self.current.replace(number) {
            // The edit is durable, whether or not there is space to remove a name.
            self.remove_unnamed(&files::manifests(&self.dir, old));
        }
        self.bytes_max = MANIFEST_BYTES_MAX.max(2 * open.bytes);
        self.open = Some(open);
        Ok(())
    }

    /// Writes and syncs two new files with the same content. If this fails, removes both.
    fn write_twice(&self, paths: [PathBuf; 2], bytes: &[u8]) -> Result<OpenCopies> {
        let written = self.create_and_write(&paths[0], bytes).and_then(|first| {
            let second = self.create_and_write(&paths[1], bytes)?;
            let mut open = OpenCopies {
                files: [first, second],
                paths: paths.clone(),
                bytes: bytes.len() as u64,
            };
            open.sync(Mutation::ManifestWithoutSync)?;
            Ok(open)
        });
        written.inspect_err(|_| self.remove_unnamed(&paths))
    }

    fn create_and_write(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn WriteFile>> {
        let mut file = self
            .log_store
            .create(path)
            .map_err(refused("create", path))?;
        file.append(bytes).map_err(refused("write", path))?;
        Ok(file)
    }

    /// Removes files that CURRENT and its copy do not name. A file that cannot be removed is an
    /// orphan, which the next opening removes.
    fn remove_unnamed(&self, paths: &[PathBuf; 2]) {
        for path in paths {
            let _ = self.log_store.remove(path);
        }
    }

    /// Syncs the directory, so that CURRENT and its copy keep their new content after a crash.
    fn sync_names(&self) -> Result<()> {
        self.sync_dir().map_err(refused("sync", &self.dir))
    }

    fn sync_dir(&self) -> io::Result<()> {
        mutation::unless(Mutation::ManifestWithoutDirSync, || {
            self.log_store.sync_dir(&self.dir)
        })
    }
}

impl OpenCopies {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        let copies = mutation::replace(self.files.len(), Mutation::EditOneManifest, 1);
        let mut files = self.files.iter_mut().zip(&self.paths).take(copies);
        files.try_for_each(|(file, path)| {
            let appended = file.append(record);
            appended.map_err(refused("write", path))
        })
    }

    /// Syncs both copies of the manifest. (With the deliberate fault `unless`, tests leave the syncs
    /// out.) The caller writes both copies before this syncs the first: then most file systems write
    /// both in one commit of their journal.
    fn sync(&mut self, unless: Mutation) -> Result<()> {
        let mut files = self.files.iter_mut().zip(&self.paths);
        files.try_for_each(|(file, path)| {
            let synced = mutation::unless(unless, || file.sync());
            synced.map_err(refused("sync", path))
        })
    }
}

/// Returns a function (for `map_err`) that wraps the error of a call on whose effect nothing relies yet.
/// A lack of space, of file descriptors or of memory becomes the error of a refused edit: see
/// [`Error::is_refusal`].
fn refused(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let wrap = Error::no_space_or_io(action, path);
    move |source| wrap(source).into_refusal().unwrap_or_else(|other| other)
}

/// Reads the id of the database in a directory. Another process may have the database open.
pub(crate) fn read_database_id(log_store: &dyn LogStore, dir: &Path) -> Result<DatabaseId> {
    let mut tries_left = CURRENT_TRIES_MAX;
    loop {
        let mut failed = Vec::new();
        for path in Current::read(log_store, dir)?.manifests(dir)? {
            match read_id(log_store, &path) {
                Ok(id) => return Ok(id),
                Err(error) => failed.push(error),
            }
        }
        tries_left -= 1;
        // If all are missing, CURRENT names another manifest now, and these were removed.
        let error = most_telling(failed);
        if tries_left == 0 || !error.is_of_missing_file() {
            return Err(error);
        }
    }
}

fn read_id(log_store: &dyn LogStore, path: &Path) -> Result<DatabaseId> {
    let read = || -> io::Result<_> {
        let file = log_store.open_read(path)?;
        let mut bytes = vec![0; HEADER_BYTES.min(file.len()? as usize)];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    check_header(path, &read().map_err(Error::io("read", path))?)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::file_system::FileSystem;
    use crate::key::SeqNo;
    use crate::simulation::{FaultOp, MemDisk};
    use crate::snapshots::{SnapshotChanges, SnapshotOp, SnapshotRecord};

    const DIR: &str = "/db";

    /// Regression: with many snapshots of many tables the state alone was longer than the largest
    /// manifest, so each flush and each merge wrote the whole state.
    #[test]
    fn a_large_state_is_not_written_anew_with_each_edit() {
        let disk = Arc::new(MemDisk::new());
        let dir = Path::new(DIR);
        disk.create_dir_all(dir).unwrap();
        let state = State {
            keyspaces: vec!["x".repeat(MANIFEST_BYTES_MAX as usize)],
            ..State::default()
        };
        let mut manifest = Manifest::create_with(disk, dir, state).unwrap();
        let first = manifest.current();
        let mut trim = |floor, snapshots| {
            let floor = FileNumber(floor);
            manifest.commit(Edit::TrimWal { floor, snapshots }).unwrap();
            manifest.current()
        };
        for floor in 2..10 {
            assert_eq!(trim(floor, None), first);
        }
        // Once the edits are as long as the state, a new manifest is worth it.
        let record = SnapshotRecord {
            name: "y".repeat(MANIFEST_BYTES_MAX as usize + 100),
            ..SnapshotRecord::example(1)
        };
        let changes = SnapshotChanges {
            as_of: SeqNo(1),
            ops: vec![(SeqNo(1), SnapshotOp::Create(record))],
        };
        assert_eq!(trim(10, Some(changes)), first);
        assert_ne!(trim(11, None), first);
    }

    fn add(name: &str) -> Edit {
        let name = name.to_string();
        Edit::AddKeyspace { name }
    }

    fn trim(floor: u64) -> Edit {
        Edit::TrimWal {
            floor: FileNumber(floor),
            snapshots: None,
        }
    }

    fn load(disk: &MemDisk) -> Manifest {
        let manifest = Manifest::load(Arc::new(disk.clone()), Path::new(DIR));
        manifest.unwrap().unwrap()
    }

    /// Returns a new manifest on a disk of its own. With `is_appended_to`, the next edit is appended
    /// to it; otherwise, the next edit begins another manifest.
    fn manifest(is_appended_to: bool) -> (MemDisk, Manifest) {
        let (disk, dir) = (MemDisk::new(), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        let mut manifest = Manifest::create(Arc::new(disk.clone()), dir).unwrap();
        if !is_appended_to {
            manifest = load(&disk);
        }
        (disk, manifest)
    }

    /// An inspection does not block edits while it reads, so edits may be made after it has begun.
    #[test]
    fn edits_during_an_inspection_are_no_damage_and_hide_none() {
        for is_damaged in [false, true] {
            let (disk, mut manifest) = manifest(true);
            manifest.commit(add("a")).unwrap();
            let [path, _] = files::manifests(Path::new(DIR), manifest.current().unwrap());
            if is_damaged {
                let len = disk.file_len(&path).unwrap();
                disk.flip_bit(&path, len - 1, 0).unwrap();
            }
            let [first, second] = [(); 2].map(|()| manifest.inspect().unwrap());
            let damage = |inspection: Inspection| inspection.finish().len();
            manifest.commit(add("b")).unwrap();
            assert_eq!(damage(first), usize::from(is_damaged));
            let state = manifest.state().clone();
            manifest.roll(&state).unwrap();
            assert!(!disk.exists(&path).unwrap());
            assert_eq!(damage(second), usize::from(is_damaged));
            assert_eq!(damage(manifest.inspect().unwrap()), 0);
        }
    }

    /// A crash between the renames of CURRENT and of its copy leaves one of them naming an older manifest. It
    /// still does after an opening of the database that found no space for a new manifest.
    #[test]
    fn a_name_of_an_older_manifest_is_damage_once_both_names_were_written() {
        let (disk, mut manifest) = manifest(true);
        let dir = Path::new(DIR);
        disk.fail_next(FaultOp::Rename, 2, io::ErrorKind::Other);
        let state = manifest.state().clone();
        manifest.roll(&state).unwrap_err();
        drop(manifest);
        let manifest = load(&disk);
        assert!(!manifest.is_whole);
        assert_eq!(manifest.inspect().unwrap().finish().len(), 0);
        // The older manifest is gone now, so its name is damaged.
        for path in files::manifests(dir, FileNumber(1)) {
            disk.remove(&path).unwrap();
        }
        let damage = manifest.inspect().unwrap().finish();
        assert_eq!(damage.len(), 1);
        let mut manifest = load(&disk);
        manifest.settle().unwrap();
        assert_eq!(manifest.inspect().unwrap().finish().len(), 0);
        let [_, copy] = files::currents(dir);
        let mut file = disk.create(&copy).unwrap();
        file.append(naming(FileNumber(1)).as_bytes()).unwrap();
        assert_eq!(manifest.inspect().unwrap().finish().len(), 1);
    }

    /// Regression: a sync or a rename that found no space, or any call that found no memory, stopped all
    /// writes until the next opening.
    #[test]
    fn an_edit_that_finds_no_space_or_memory_is_refused_in_any_call_and_the_next_one_is_taken() {
        for (is_appended_to, op, calls) in [
            // An edit is appended to both copies.
            (true, FaultOp::Append, 2),
            (true, FaultOp::Sync, 2),
            // Both copies of a new manifest, then both of CURRENT, are written, synced and named. The
            // first rename alone can be refused.
            (false, FaultOp::Create, 4),
            (false, FaultOp::Append, 4),
            (false, FaultOp::Sync, 4),
            (false, FaultOp::SyncDir, 1),
            (false, FaultOp::Rename, 1),
        ] {
            let kinds = [
                io::ErrorKind::StorageFull,
                io::ErrorKind::QuotaExceeded,
                io::ErrorKind::OutOfMemory,
            ];
            for (nth, kind) in (1..=calls).flat_map(|nth| kinds.map(|kind| (nth, kind))) {
                let (disk, mut manifest) = manifest(is_appended_to);
                let files_before = disk.list(Path::new(DIR)).unwrap().len();
                disk.fail_next(op, nth, kind);
                let refused = manifest.commit(add("refused")).unwrap_err();
                assert!(refused.is_refusal(), "{op:?} {nth} {kind:?}: {refused}");
                assert_eq!(disk.armed_faults(), 0, "{op:?} {nth}");
                let found = load(&disk.fork());
                assert!(found.state().keyspaces.is_empty(), "{op:?} {nth}");
                assert!(found.is_whole, "{op:?} {nth}");
                let mut left = disk.list(Path::new(DIR)).unwrap();
                left.retain(|path| !files::current_tmps(Path::new(DIR)).contains(path));
                assert_eq!(left.len(), files_before, "{op:?} {nth}");
                manifest.commit(trim(3)).unwrap();
                manifest.commit(add("kept")).unwrap();
                manifest.commit(trim(4)).unwrap();
                drop(manifest);
                disk.restart(nth);
                let found = load(&disk);
                assert_eq!(found.state().keyspaces, ["kept"], "{op:?} {nth}");
                assert_eq!(found.state().wal_floor, FileNumber(4));
                assert!(found.is_whole, "{op:?} {nth}");
            }
        }
    }

    /// If an edit finds no space, its record is cut off both copies. If a cut fails, a copy may still
    /// have the record, and the next opening of the database would apply it.
    #[test]
    fn a_cut_that_fails_ends_all_edits() {
        for cut in 1..=2 {
            for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
                let (disk, mut manifest) = manifest(true);
                disk.fail_next(FaultOp::Sync, 2, io::ErrorKind::StorageFull);
                disk.fail_next(FaultOp::Truncate, cut, kind);
                let failed = manifest.commit(add("uncertain")).unwrap_err();
                assert_eq!(failed.kind(), ErrorKind::Io, "{cut}");
                assert_eq!(disk.armed_faults(), 0, "{cut}");
                let refused = manifest.commit(add("refused")).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{cut}");
                assert_eq!(load(&disk.fork()).state().keyspaces, ["uncertain"]);
            }
        }
    }

    #[test]
    fn an_edit_is_done_whether_or_not_the_old_copies_can_be_removed() {
        for nth in 1..=2 {
            let (disk, mut manifest) = manifest(false);
            disk.fail_next(FaultOp::Remove, nth, io::ErrorKind::StorageFull);
            manifest.commit(add("a")).unwrap();
            assert_eq!(disk.armed_faults(), 0, "{nth}");
            manifest.commit(add("b")).unwrap();
            drop(manifest);
            disk.restart(nth);
            assert_eq!(load(&disk).state().keyspaces, ["a", "b"], "{nth}");
        }
    }

    #[test]
    fn a_failure_behind_the_rename_of_current_ends_all_edits_until_an_opening() {
        for op in [FaultOp::Rename, FaultOp::SyncDir] {
            for seed in 0..10 {
                let (disk, mut manifest) = manifest(false);
                disk.fail_next(op, 2, io::ErrorKind::StorageFull);
                let failed = manifest.commit(add("uncertain")).unwrap_err();
                assert_eq!(failed.kind(), ErrorKind::Io, "{op:?}");
                assert_eq!(disk.armed_faults(), 0, "{op:?}");
                let refused = manifest.commit(add("refused")).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{op:?}");
                drop(manifest);
                // Without a crash the newer manifest counts, with one either may.
                assert_eq!(load(&disk.fork()).state().keyspaces, ["uncertain"]);
                disk.restart(seed);
                let mut reopened = load(&disk);
                let keyspaces = reopened.state().keyspaces.clone();
                assert!(keyspaces.is_empty() || keyspaces == ["uncertain"]);
                reopened.settle().unwrap();
                reopened.commit(add("later")).unwrap();
                drop(reopened);
                disk.restart(seed);
                let found = load(&disk);
                assert!(found.is_whole, "{op:?} {seed}");
                let expected = [keyspaces, vec!["later".to_string()]].concat();
                assert_eq!(found.state().keyspaces, expected, "{op:?} {seed}");
            }
        }
    }
}
