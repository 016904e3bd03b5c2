//! The place of a publication: a folder, or a bucket of S3, and the catalog of its tables if they have one.
//!
//! Every object is written whole and then never changed, except the version hint. A name is created
//! at most once, however many publishers are at work: that is how a publication is committed without a
//! catalog. What a call has written is durable when the call returns.
//!
//! | file | content |
//! | --- | --- |
//! | `s3` | buckets, their settings and credentials |
//! | `upload` | an object that is written in parts |
//! | `error` | errors, without the credentials that answers of servers contain |
//! | `faulty` | targets for tests, one of whose calls fails |

mod error;
#[cfg(any(test, feature = "faults"))]
pub mod faulty;
#[cfg(feature = "s3")]
mod s3;
mod upload;

#[cfg(feature = "s3")]
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Component, Path as FsPath, PathBuf, absolute};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ebb_threads::enter_floor;
use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::runtime::{Builder, Runtime};

pub use self::error::TargetError;
pub use self::upload::Upload;
#[cfg(feature = "s3")]
use crate::catalog::RestCatalog;

/// The attempts to create an object that, by the answers, neither exists nor can be created. S3 answers
/// so (409) while another request for the same name is under way.
const CREATE_ATTEMPTS: usize = 10;

/// The attempts to prove that a target refuses to create a name twice. Each publisher that begins meanwhile
/// may cost one.
const PROOF_ATTEMPTS: usize = 10;

/// The folder of objects that are ebb's own and of no table.
const OWN: &str = "_ebb";

/// The beginning of the names, in that folder, of objects that prove that names are created once.
const PROBE: &str = "probe-";

type Result<T> = std::result::Result<T, TargetError>;

/// A folder or a bucket in which publications lie, with their catalog if they have one.
#[derive(Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    /// The location of the root, without a slash at its end.
    url: String,
    /// The root, if it is a folder.
    folder: Option<PathBuf>,
    /// The catalog by which tables are committed.
    #[cfg(feature = "s3")]
    catalog: Option<Arc<RestCatalog>>,
    runtime: Arc<Runtime>,
}

/// Without the store: that of S3 contains credentials.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// Opens a folder, which may be absent: the first object creates it.
    ///
    /// The calling thread has the ordinary class, because the target's thread inherits its class and its
    /// cores.
    ///
    /// # Errors
    /// If the folder is a file, or lies below one.
    pub fn folder(path: &FsPath) -> Result<Self> {
        let failed = |error| TargetError::Folder {
            path: path.display().to_string(),
            error,
        };
        let (there, absent) = split_absent(path).map_err(failed)?;
        // Unlike `join`, this adds no slash if nothing is absent.
        let folder: PathBuf = there.iter().chain(&absent).collect();
        let prefix = absent.to_str().ok_or(io::ErrorKind::InvalidInput);
        let prefix = prefix.map_err(|kind| failed(kind.into()))?;
        let prefix = Path::parse(prefix).map_err(|error| failed(io::Error::other(error)))?;
        let store = LocalFileSystem::new_with_prefix(&there);
        let store = store.map_err(|error| failed(io::Error::other(error)))?;
        let store = PrefixStore::new(store.with_fsync(true), prefix);
        let url = format!("file://{}", folder.display());
        Ok(Self {
            folder: Some(folder),
            ..Self::over(Arc::new(store), url)?
        })
    }

    /// Opens the objects of a bucket of S3 whose keys begin with `prefix`, which is empty for all of
    /// them. Endpoint and credentials come from the environment, and nothing is sent yet. Both names
    /// consist of characters that read the same in a key and in a URL.
    ///
    /// The calling thread has the ordinary class, as for [`Target::folder`].
    ///
    /// # Errors
    /// If a setting of the environment is invalid, or if this build has no S3.
    #[cfg(feature = "s3")]
    pub fn bucket(name: &str, prefix: &str) -> Result<Self> {
        s3::open(name, prefix, std::env::vars_os())
    }

    /// Refuses a bucket: this build has no S3.
    ///
    /// # Errors
    /// Always. The error names the feature that ebb has to be built with.
    #[cfg(not(feature = "s3"))]
    pub fn bucket(_name: &str, _prefix: &str) -> Result<Self> {
        Err(TargetError::Refused(
            "this build of ebb does not publish into buckets of S3: build it with \
             `cargo build --release --features s3`"
                .to_owned(),
        ))
    }

    /// Returns the target whose root `store` is. `url` is the location of the root.
    pub(crate) fn over(store: Arc<dyn ObjectStore>, url: String) -> Result<Self> {
        // Callers wait in their own threads. This one sends the parts of uploads meanwhile, keeps
        // connections alive and watches time-outs. Threads for files end after each call: kept ones
        // would serve a commit in the class, and on the core, of the task that started them.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("ebb-target")
            .thread_keep_alive(Duration::ZERO)
            // In the idle class, where tasks of jobs run, requests would time out on a busy machine and a
            // commit would wait. At this nice value they yield to the load.
            .on_thread_start(enter_floor)
            .enable_all()
            .build()
            .map_err(TargetError::Thread)?;
        Ok(Self {
            store,
            url,
            folder: None,
            #[cfg(feature = "s3")]
            catalog: None,
            runtime: Arc::new(runtime),
        })
    }

    /// Commits tables by the Iceberg REST catalog at `url` instead of objects of the target. The token comes
    /// from the environment, and nothing is sent yet.
    ///
    /// # Errors
    /// If the URL or a setting of the environment is invalid, or if this build has no HTTP.
    #[cfg(feature = "s3")]
    pub fn with_catalog(self, url: &str) -> Result<Self> {
        self.with_catalog_of(url, std::env::vars_os())
    }

    /// Refuses a catalog: this build has no HTTP.
    ///
    /// # Errors
    /// Always. The error names the feature that ebb has to be built with.
    #[cfg(not(feature = "s3"))]
    pub fn with_catalog(self, _url: &str) -> Result<Self> {
        Err(TargetError::Refused(
            "this build of ebb does not commit to catalogs: build it with \
             `cargo build --release --features s3`"
                .to_owned(),
        ))
    }

    /// The same with variables in the place of those of the environment.
    #[cfg(feature = "s3")]
    pub(crate) fn with_catalog_of(
        self,
        url: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let catalog = RestCatalog::open(url, variables, Arc::clone(&self.runtime));
        let catalog = catalog.map_err(|error| TargetError::Refused(error.to_string()))?;
        Ok(Self {
            catalog: Some(Arc::new(catalog)),
            ..self
        })
    }

    /// Returns the catalog by which tables are committed.
    #[cfg(feature = "s3")]
    pub(crate) fn catalog(&self) -> Option<&RestCatalog> {
        self.catalog.as_deref()
    }

    /// Returns the location of an object, as metadata names it.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Returns the name of the object at a location; `None` if the location lies outside of the target.
    pub fn name<'u>(&self, url: &'u str) -> Option<&'u str> {
        url.strip_prefix(&self.url)?.strip_prefix('/')
    }

    /// Proves that the target refuses to create a name twice, and removes the probes that killed publishers
    /// have left. `unique` is a unique name.
    ///
    /// A probe is made for no version of a table, so nothing shows whether its publisher is still at work,
    /// and clocks of servers and of this machine may differ too much to compare ages. A publisher may
    /// therefore lose its probe to another one. Then its second creation succeeds, as on a target that never
    /// refuses, and it begins anew.
    ///
    /// # Errors
    /// If the target does not refuse, or if it cannot be written.
    pub fn check_creates_once(&self, unique: &str) -> Result<()> {
        let name = format!("{OWN}/{PROBE}{unique}");
        let mut attempt = 1;
        loop {
            let is_last = attempt == PROOF_ATTEMPTS;
            match self.refuses_second(&name) {
                Ok(true) => return self.remove_probes(),
                Ok(false) if is_last => return Err(TargetError::CreatesTwice(self.url.clone())),
                // In a folder, another publisher may also remove the file in which the store collects the
                // probe: the creation fails.
                Err(error) if is_last || self.folder.is_none() => return Err(error),
                _ => attempt += 1,
            }
        }
    }

    /// Creates an object twice, with different bytes, and removes it. Returns whether the second creation
    /// was refused.
    fn refuses_second(&self, name: &str) -> Result<bool> {
        let first = self.create(name, Bytes::from_static(b"a"))?;
        let second = self.create(name, Bytes::from_static(b"b"));
        self.remove(name)?;
        Ok(first && !second?)
    }

    /// Removes all probes, and what was written of such that are not complete.
    fn remove_probes(&self) -> Result<()> {
        let path = Path::from(OWN);
        let listed = self.store.list_with_delimiter(Some(&path));
        let listed = self.runtime.block_on(listed);
        let listed = listed.map_err(|error| self.failed("listing", OWN, &error))?;
        let is_probe = |name: &str| name.starts_with(PROBE);
        for object in listed.objects {
            if object.location.filename().is_some_and(is_probe) {
                self.remove(object.location.as_ref())?;
            }
        }
        self.remove_unfinished(OWN, is_probe).map(drop)
    }

    /// Creates an object. Returns false, and changes nothing, if the name has other bytes already.
    ///
    /// The same bytes under the name are a success: a request whose answer was lost may have created
    /// the object, and S3's client repeats it by itself, so only the bytes show whose object it is.
    /// Publishers that compete for a name therefore write different bytes.
    ///
    /// # Errors
    /// If the target refuses. Whether the object is there is then unknown.
    pub fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let path = Path::from(name);
        let mut attempt = 1;
        loop {
            let payload = PutPayload::from(bytes.clone());
            let put = (self.store).put_opts(&path, payload, PutMode::Create.into());
            let Err(error) = self.runtime.block_on(put) else {
                return Ok(true);
            };
            match (self.read(name), &error) {
                (Ok(Some(found)), _) => return Ok(found == bytes),
                (Ok(None), Error::AlreadyExists { .. }) if attempt < CREATE_ATTEMPTS => {
                    attempt += 1;
                }
                _ => return Err(self.failed("creating", name, &error)),
            }
        }
    }

    /// Writes an object, in place of one of the same name.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        let path = Path::from(name);
        let put = self.store.put(&path, PutPayload::from(bytes));
        let put = self.runtime.block_on(put);
        put.map(drop)
            .map_err(|error| self.failed("writing", name, &error))
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let path = Path::from(name);
        let read = self.runtime.block_on(async {
            let found = self.store.get(&path).await?;
            found.bytes().await
        });
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("reading", name, &error)),
        }
    }

    /// Reads a part of an object, which is not empty and lies within the object.
    ///
    /// # Errors
    /// If there is no such object or no such part, or if the target refuses.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let path = Path::from(name);
        let read = self.runtime.block_on(self.store.get_range(&path, range));
        read.map_err(|error| self.failed("reading", name, &error))
    }

    /// Lists the names of all objects under the folder `name`.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn list(&self, name: &str) -> Result<Vec<String>> {
        let path = Path::from(name);
        let objects = self.store.list(Some(&path)).try_collect::<Vec<_>>();
        let objects = self.runtime.block_on(objects);
        let objects = objects.map_err(|error| self.failed("listing", name, &error))?;
        Ok(objects
            .into_iter()
            .map(|object| object.location.to_string())
            .collect())
    }

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = Path::from(name);
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("removing", name, &error)),
        }
    }

    /// Removes what uploads left under the folder `name` whose processes ended before them, if
    /// `is_left` returns true for the name of the object. Returns their number. A bucket has none that
    /// it lists: a rule of its lifecycle removes them.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn remove_unfinished(
        &self,
        name: &str,
        is_left: impl Fn(&str) -> bool,
    ) -> Result<usize> {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(name)) else {
            return Ok(0);
        };
        remove_staged(&folder, is_left).map_err(|error| TargetError::Folder {
            path: folder.display().to_string(),
            error,
        })
    }

    /// Begins an object that appears once it is [complete](Upload::complete).
    ///
    /// # Errors
    /// If the target refuses.
    pub fn upload(&self, name: &str) -> Result<Upload> {
        let path = Path::from(name);
        let upload = self.runtime.block_on(self.store.put_multipart(&path));
        let upload = upload.map_err(|error| self.failed("writing", name, &error))?;
        Ok(Upload::new(self.clone(), name.to_owned(), upload))
    }

    fn failed(&self, call: &'static str, name: &str, error: &Error) -> TargetError {
        TargetError::Object {
            call,
            url: self.url(name),
            reason: error::reason(error),
        }
    }
}

/// Splits the path of a folder at the end of the part that is there. Returns that part, without links,
/// and the rest.
fn split_absent(path: &FsPath) -> io::Result<(PathBuf, PathBuf)> {
    let path = absolute(path)?;
    let there = path.ancestors().find(|part| part.exists());
    let there = there.ok_or(io::ErrorKind::NotFound)?;
    if !there.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let absent = path.strip_prefix(there).map_err(io::Error::other)?;
    let is_name = |part| matches!(part, Component::Normal(_));
    if !absent.components().all(is_name) {
        return Err(io::Error::other(
            "its path has a '..' behind an absent folder",
        ));
    }
    Ok((fs::canonicalize(there)?, absent.to_path_buf()))
}

/// Removes files `OBJECT#NUMBER` of a folder if `is_left` returns true for the name of the object. In
/// such a file `object_store` collects an object until it is complete. Returns the number of removed files.
fn remove_staged(folder: &FsPath, is_left: impl Fn(&str) -> bool) -> io::Result<usize> {
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        files => files?,
    };
    let mut removed = 0;
    for file in files {
        let file = file?;
        let name = file.file_name();
        let object = name.to_str().and_then(|name| name.split_once('#'));
        if object.is_some_and(|(object, _)| is_left(object)) {
            match fs::remove_file(file.path()) {
                // Its publisher has ended it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => {
                    done?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use object_store::memory::InMemory;

    use super::faulty::{Event, faulty_target};
    use super::upload::PART_BYTES;
    use super::*;

    fn target() -> (tempfile::TempDir, Target) {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(&dir.path().join("new/folder")).unwrap();
        (dir, target)
    }

    #[test]
    fn a_name_is_created_once() {
        let (_dir, target) = target();
        target.check_creates_once("1").unwrap();
        assert!(target.list("_ebb").unwrap().is_empty());
        assert!(target.create("a/v1", Bytes::from_static(b"one")).unwrap());
        assert!(!target.create("a/v1", Bytes::from_static(b"two")).unwrap());
        assert_eq!(target.read("a/v1").unwrap().unwrap(), "one");
        assert_eq!(target.read("a/v2").unwrap(), None);
        assert_eq!(target.read_range("a/v1", 1..3).unwrap(), "ne");
        assert!(
            target.read_range("a/v1", 3..4).is_err() && target.read_range("a/v2", 0..1).is_err()
        );
        assert_eq!(target.name(&target.url("a/v1")), Some("a/v1"));
        assert_eq!(target.name("file:///elsewhere/a/v1"), None);
        target
            .replace("a/v1", Bytes::from_static(b"three"))
            .unwrap();
        assert_eq!(target.read("a/v1").unwrap().unwrap(), "three");
        target.remove("a/v1").unwrap();
        target.remove("a/v1").unwrap();
    }

    #[test]
    fn probes_of_killed_publishers_are_removed_and_nothing_else() {
        let (dir, target) = target();
        let own = dir.path().join("new/folder/_ebb");
        fs::create_dir_all(own.join("app")).unwrap();
        let probes = ["probe-1", "probe-2#1"];
        let others = ["monday.json", "monday.json#1", "app/probe-3"];
        for name in probes.iter().chain(&others) {
            fs::write(own.join(name), "a").unwrap();
        }
        target.check_creates_once("4").unwrap();
        let is_there = |name: &str| own.join(name).exists();
        assert!(!probes.iter().any(|name| is_there(name)));
        assert!(others.iter().all(|name| is_there(name)));
    }

    #[test]
    fn publishers_prove_that_names_are_created_once_wherever_another_one_removes_their_probes() {
        for at in 0.. {
            let store = InMemory::new();
            let rival = faulty::target(&store);
            let prove = move || rival.check_creates_once("rival").unwrap();
            let (target, calls) = faulty_target(&store, at, Event::Meanwhile(Arc::new(prove)));
            target.check_creates_once("1").unwrap();
            assert!(faulty::target(&store).list("").unwrap().is_empty());
            if !calls.met_event() {
                break;
            }
        }
    }

    #[test]
    fn a_create_whose_answer_was_lost_is_distinguished_from_a_rivals() {
        let ours = || Bytes::from_static(b"ours");
        for (rival, is_ours) in [(None, true), (Some("theirs"), false), (Some("ours"), true)] {
            let store = InMemory::new();
            if let Some(bytes) = rival {
                faulty::target(&store).create("v1", bytes.into()).unwrap();
            }
            let (target, _) = faulty_target(&store, 0, Event::LoseAnswer);
            assert_eq!(target.create("v1", ours()).unwrap(), is_ours);
        }
        let (target, _) = faulty_target(&InMemory::new(), 0, Event::Kill);
        let error = target.create("v1", ours()).unwrap_err().to_string();
        assert!(error.starts_with("creating memory://store/v1: "), "{error}");
    }

    #[test]
    fn an_upload_with_a_failed_part_stays_incomplete() {
        // The call 0 begins the upload.
        let store = InMemory::new();
        let (target, _) = faulty_target(&store, 1, Event::LoseAnswer);
        let mut upload = target.upload("data/1").unwrap();
        let part = vec![7; PART_BYTES];
        // The write that finds out is one of the last two, or none.
        let sent = (0..4).try_for_each(|_| upload.write_all(&part));
        let error = upload.complete().unwrap_err();
        let error = sent.map_or_else(|sent| sent.to_string(), |()| error.to_string());
        assert!(error.contains("the connection was closed"), "{error}");
        assert_eq!(faulty::target(&store).read("data/1").unwrap(), None);
    }

    #[test]
    fn an_upload_appears_when_it_is_complete_or_leaves_nothing() {
        let (dir, target) = target();
        let bytes: Vec<u8> = (0..3 * PART_BYTES + 10).map(|i| (i / 1000) as u8).collect();
        let mut upload = target.upload("data/1").unwrap();
        upload.write_all(&bytes).unwrap();
        assert_eq!(target.read("data/1").unwrap(), None);
        upload.complete().unwrap();
        assert_eq!(target.read("data/1").unwrap().unwrap(), bytes);

        let mut upload = target.upload("data/2").unwrap();
        upload.write_all(&bytes).unwrap();
        drop(upload);
        let files = fs::read_dir(dir.path().join("new/folder/data")).unwrap();
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn an_absent_folder_has_the_location_that_it_gets_and_the_first_object_creates_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        symlink(&root, root.join("link")).unwrap();
        for name in ["lake", "a b/50% #1", "link/lake2"] {
            let folder = root.join(name);
            let target = Target::folder(&folder).unwrap();
            assert!(target.list("").unwrap().is_empty());
            assert!(!folder.exists(), "{name}");
            target.create("ks/t", Bytes::from_static(b"one")).unwrap();
            assert_eq!(fs::read(folder.join("ks/t")).unwrap(), b"one");
            let again = Target::folder(&folder).unwrap();
            assert_eq!(again.url("ks/t"), target.url("ks/t"));
            for target in [target, again] {
                assert_eq!(target.list("ks").unwrap(), ["ks/t"], "{name}");
            }
        }
        let url = Target::folder(&root.join("link/lake2")).unwrap().url("");
        assert_eq!(url, format!("file://{}/lake2/", root.display()));
        let error = Target::folder(&root.join("none/../lake")).unwrap_err();
        assert!(error.to_string().contains(".."), "{error}");
    }

    #[test]
    fn a_target_that_is_a_file_is_refused_by_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path().to_path_buf(), file.path().join("below")] {
            let error = Target::folder(&path).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn files_of_an_upload_whose_process_ended_are_removed_and_no_others() {
        let (dir, target) = target();
        let data = dir.path().join("new/folder/data");
        fs::create_dir_all(&data).unwrap();
        let [left, next, whole] = ["ebb-1-a.parquet#1", "ebb-2-a.parquet#12", "ebb-1-b.parquet"];
        for name in [left, next, whole] {
            fs::write(data.join(name), "rows").unwrap();
        }
        let is_left = |object: &str| object.starts_with("ebb-1-");
        assert_eq!(target.remove_unfinished("data", is_left).unwrap(), 1);
        assert!(!data.join(left).exists());
        assert!(data.join(next).exists() && data.join(whole).exists());
        assert_eq!(target.remove_unfinished("none", is_left).unwrap(), 0);
    }

    #[test]
    fn a_dropped_upload_does_not_wait_for_a_store_that_stalls() {
        let (target, calls) = faulty_target(&InMemory::new(), 1, Event::Stall);
        let mut upload = target.upload("data/1").unwrap();
        upload.write_all(&vec![7; PART_BYTES]).unwrap();
        drop(upload);
        assert!(calls.met_event());
    }
}
