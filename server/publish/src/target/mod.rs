//! The place of a publication: a folder, or a bucket of S3, and the catalog of its tables if they have one.
//! Files to load are read from buckets, too.
//!
//! Every object is written whole and then never changed, except the version hint. A name is created
//! at most once, however many publishers are at work: that is how a publication is committed without a
//! catalog. What a call has written is durable when the call returns.
//!
//! | file | content |
//! | --- | --- |
//! | `folder` | the path of a folder, and its incomplete files |
//! | `s3` | buckets, their settings and credentials |
//! | `proof` | the proof that a name is created once |
//! | `keys` | objects by their exact keys, as other engines give them |
//! | `upload` | an object that is written in parts |
//! | `error` | errors, without the credentials that answers of servers contain |
//! | `faulty` | targets for tests, one of whose calls fails |

mod error;
#[cfg(any(test, feature = "faults"))]
pub mod faulty;
mod folder;
mod keys;
mod proof;
#[cfg(feature = "s3")]
mod s3;
#[cfg(test)]
mod tests;
mod upload;

#[cfg(feature = "s3")]
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ebb_threads::{current_nice, nice_current_thread};
use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::runtime::{Builder, Runtime};

pub use self::error::TargetError;
use self::folder::{remove_staged, split_absent, sync_names, url_of};
pub(crate) use self::keys::IsSought;
pub use self::upload::Upload;
#[cfg(feature = "s3")]
use crate::catalog::RestCatalog;

/// The greatest number of attempts to create an object while the store answers that the object neither exists
/// nor can be created. S3 answers so (409) while another request for the same name is under way.
const CREATE_ATTEMPTS: usize = 10;

/// The least nice value of the threads that talk to a target. Beside one busy thread of nice value 0 such a
/// thread gets a tenth of the core.
const NICE: i32 = 10;

type Result<T> = std::result::Result<T, TargetError>;

/// A folder or a bucket in which publications lie, with the catalog of its tables if they have one. Clones
/// share the connections and the thread.
#[derive(Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    /// The location of the root, without a slash at its end.
    url: String,
    /// The path of the root; `None` for a bucket.
    folder: Option<PathBuf>,
    /// The catalog by which tables are committed; `None` if they are committed by objects of the target.
    #[cfg(feature = "s3")]
    catalog: Option<Arc<RestCatalog>>,
    runtime: Arc<Runtime>,
}

/// An object of a target, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedObject {
    pub(crate) name: String,
    /// The time at which the object was written, in microseconds since 1970, by the clock of the store. S3 has whole
    /// seconds, and for an object of several parts the time at which its upload began.
    pub(crate) written_us: i64,
}

/// The output leaves out the store, because that of S3 contains credentials.
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
    /// The calling thread must have the ordinary scheduling class, not the idle class of tasks, because the
    /// target's thread inherits the class and the cores of the caller.
    ///
    /// # Errors
    /// If the folder is a file, or lies below one, if its path has characters that some readers do not parse
    /// correctly in a URL, or if the target's thread cannot be started.
    pub fn folder(path: &FsPath) -> Result<Self> {
        let failed = |error| TargetError::Folder {
            path: path.display().to_string(),
            error,
        };
        let (there, absent) = split_absent(path).map_err(failed)?;
        // Unlike `join`, this adds no slash if nothing is absent.
        let folder: PathBuf = there.iter().chain(&absent).collect();
        let url = url_of(&folder)?;
        let prefix = absent.to_str().ok_or(io::ErrorKind::InvalidInput);
        let prefix = prefix.map_err(|kind| failed(kind.into()))?;
        let prefix = Path::parse(prefix).map_err(|error| failed(io::Error::other(error)))?;
        let store = LocalFileSystem::new_with_prefix(&there);
        let store = store.map_err(|error| failed(io::Error::other(error)))?;
        let store = PrefixStore::new(store.with_fsync(true), prefix);
        Ok(Self {
            folder: Some(folder),
            ..Self::over(Arc::new(store), url)?
        })
    }

    /// Opens the folder `prefix` of the bucket `name` of S3, or the whole bucket if `prefix` is empty. Endpoint
    /// and credentials come from the environment, and nothing is sent yet. `name` and `prefix` must consist of
    /// characters that read the same in a key and in a URL.
    ///
    /// The calling thread must have the ordinary scheduling class, as for [`Target::folder`].
    ///
    /// # Errors
    /// If a setting of the environment is invalid, or if the target's thread cannot be started.
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
            "this build of ebb does not reach buckets of S3: build it with \
             `cargo build --release --features s3`"
                .to_owned(),
        ))
    }

    /// Returns the target with the root of `store` as its root, and starts its thread. `url` is the location
    /// of this root.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn over(store: Arc<dyn ObjectStore>, url: String) -> Result<Self> {
        // Callers wait in their own threads. This one sends the parts of uploads meanwhile, keeps
        // connections alive and watches time-outs. Threads for files end after each call: kept ones
        // would serve a commit in the class, and on the core, of the task that started them.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("ebb-target")
            .thread_keep_alive(Duration::ZERO)
            // In the idle class, where tasks of jobs run, requests would time out on a busy machine and a
            // commit would wait. At this nice value they leave nine tenths of a core to the load.
            .on_thread_start(|| nice_current_thread((NICE - current_nice()).max(0)))
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

    /// Returns this target with its tables committed by the Iceberg REST catalog at `url` instead of by
    /// objects of the target. Secrets come from the environment, and nothing is sent yet.
    ///
    /// # Errors
    /// If the URL or a setting of the environment is invalid.
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

    /// Returns this target with its tables committed by the catalog at `url`, whose settings come from
    /// `variables` instead of from the environment.
    ///
    /// # Errors
    /// If the URL or a setting is invalid.
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

    /// Returns the catalog by which tables are committed; `None` if they are committed by objects of the
    /// target.
    #[cfg(feature = "s3")]
    pub(crate) fn catalog(&self) -> Option<&RestCatalog> {
        self.catalog.as_deref()
    }

    /// Returns the location of the object `name`, as metadata names it.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Returns the name of the object at the location `url`; `None` if the location lies outside of the
    /// target.
    pub fn name<'u>(&self, url: &'u str) -> Option<&'u str> {
        url.strip_prefix(&self.url)?.strip_prefix('/')
    }

    /// Creates an object. Returns false, and changes nothing, if the name has other bytes already.
    ///
    /// The same bytes under the name are a success: a request whose answer was lost may have created
    /// the object, and S3's client repeats it by itself, so only the bytes show whose object it is.
    /// Publishers that compete for a name therefore write different bytes.
    ///
    /// # Errors
    /// If a request to the target fails. It is then unknown whether the object exists.
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
    /// If a request to the target fails.
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
    /// If a request to the target fails.
    pub fn read(&self, name: &str) -> Result<Option<Bytes>> {
        self.get(&Path::from(name))
    }

    /// Lists the names of all objects below the folder `name`, at any depth, in no particular order; none if
    /// there is no such folder.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub fn list(&self, name: &str) -> Result<Vec<String>> {
        let objects = self.list_objects(name)?.into_iter();
        Ok(objects.map(|object| object.name).collect())
    }

    /// Lists all objects below the folder `name`, as [`list`](Self::list) does, with the times at which they were
    /// written.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn list_objects(&self, name: &str) -> Result<Vec<ListedObject>> {
        let path = Path::from(name);
        let objects = self.store.list(Some(&path)).try_collect::<Vec<_>>();
        let objects = self.runtime.block_on(objects);
        let objects = objects.map_err(|error| self.failed("listing", name, &error))?;
        let listed = objects.into_iter().map(|object| ListedObject {
            name: object.location.to_string(),
            written_us: object.last_modified.timestamp_micros(),
        });
        Ok(listed.collect())
    }

    /// Lists the names of the folders directly in the folder `name`, each with the path from the root, in no
    /// particular order; none if there is no such folder.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub fn folders(&self, name: &str) -> Result<Vec<String>> {
        let path = Path::from(name);
        let found = self.store.list_with_delimiter(Some(&path));
        let found = self.runtime.block_on(found);
        let found = found.map_err(|error| self.failed("listing", name, &error))?;
        let folders = found.common_prefixes.iter();
        Ok(folders.map(ToString::to_string).collect())
    }

    /// Removes an object, if it is there. In a folder it may come back after a power loss.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = Path::from(name);
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("removing", name, &error)),
        }
    }

    /// Removes an object, if it is there. It stays removed after a power loss, also if an earlier call of
    /// [`remove`](Self::remove) has removed it.
    ///
    /// # Errors
    /// If a request to the target fails, or if the folder of the object cannot be written to the disk.
    pub fn remove_durably(&self, name: &str) -> Result<()> {
        self.remove(name)?;
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(name)) else {
            return Ok(());
        };
        let synced = path.parent().map_or(Ok(()), sync_names);
        synced.map_err(|error| TargetError::Folder {
            path: path.display().to_string(),
            error,
        })
    }

    /// Removes the temporary files of incomplete uploads directly in the folder `name`, if `is_left` returns
    /// true for the name of the object in the folder. `is_left` must return true only for an upload that can
    /// no longer be of use, because its publisher was killed or will be refused. Returns the number of
    /// removed files. For a bucket it is 0: a rule of the bucket's lifecycle removes incomplete uploads.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file cannot be removed.
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

    /// Begins to write an object, which appears once the upload is [complete](Upload::complete).
    ///
    /// # Errors
    /// If a request to the target fails.
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
