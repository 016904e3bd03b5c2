//! The place of a publication: a folder, or later a bucket.
//!
//! Every object is written whole and then never changed, except the version hint. A name is created
//! at most once, however many publishers are at work: that is how a publication is committed. What a
//! call has written is durable when the call returns.

use std::fs;
use std::io::{self, Write};
use std::path::Path as FsPath;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::runtime::{Builder, Runtime};

/// The size of a part of an upload. S3 takes no smaller ones, and 10,000 of them at most.
const PART_BYTES: usize = 8 << 20;

/// An error of a target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The folder cannot be used.
    #[error("{path}: {error}")]
    Folder {
        /// The folder, as the user named it.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// An object cannot be read or written.
    #[error("{call} {url}: {error}")]
    Object {
        /// The call.
        call: &'static str,
        /// The location of the object.
        url: String,
        /// The reason.
        error: Error,
    },
    /// The target lets two publishers create one name.
    #[error(
        "{0} does not refuse to create an object twice, so two publishers could overwrite each other; choose a target that does"
    )]
    CreatesTwice(String),
}

type Result<T> = std::result::Result<T, TargetError>;

/// A folder in which publications lie.
#[derive(Debug, Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    /// The location of the root, without a slash at its end.
    url: String,
    runtime: Arc<Runtime>,
}

impl Target {
    /// Opens a folder, and creates it if it is absent.
    ///
    /// # Errors
    /// If the folder cannot be created, or if it is none.
    pub fn folder(path: &FsPath) -> Result<Self> {
        let failed = |error| TargetError::Folder {
            path: path.display().to_string(),
            error,
        };
        fs::create_dir_all(path).map_err(failed)?;
        let path = fs::canonicalize(path).map_err(failed)?;
        let store = LocalFileSystem::new_with_prefix(&path);
        let store = store.map_err(|error| failed(io::Error::other(error)))?;
        // One thread, on which calls run while the caller waits.
        let runtime = Builder::new_current_thread().build().map_err(failed)?;
        Ok(Self {
            store: Arc::new(store.with_fsync(true)),
            url: format!("file://{}", path.display()),
            runtime: Arc::new(runtime),
        })
    }

    /// Returns the location of an object, as metadata names it.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Proves that the target refuses to create a name twice. `unique` is a unique name.
    ///
    /// # Errors
    /// If it does not, or if it cannot be written.
    pub fn check_creates_once(&self, unique: &str) -> Result<()> {
        let name = format!("_ebb/probe-{unique}");
        let first = self.create(&name, Bytes::from_static(b"a"))?;
        let second = self.create(&name, Bytes::from_static(b"b"));
        self.remove(&name)?;
        match (first, second?) {
            (true, false) => Ok(()),
            _ => Err(TargetError::CreatesTwice(self.url.clone())),
        }
    }

    /// Creates an object. Returns false, and changes nothing, if there is one of the name.
    ///
    /// # Errors
    /// If the target refuses. Whether the object is there is then unknown.
    pub fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let path = Path::from(name);
        let put = (self.store).put_opts(&path, PutPayload::from(bytes), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed("creating", name, error)),
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
            .map_err(|error| self.failed("writing", name, error))
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
            Err(error) => Err(self.failed("reading", name, error)),
        }
    }

    /// Lists the names of all objects under the folder `name`.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn list(&self, name: &str) -> Result<Vec<String>> {
        let path = Path::from(name);
        let objects = self.store.list(Some(&path)).try_collect::<Vec<_>>();
        let objects = self.runtime.block_on(objects);
        let objects = objects.map_err(|error| self.failed("listing", name, error))?;
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
            Err(error) => Err(self.failed("removing", name, error)),
        }
    }

    /// Begins an object that appears once it is [complete](Upload::complete).
    ///
    /// # Errors
    /// If the target refuses.
    pub fn upload(&self, name: &str) -> Result<Upload> {
        let path = Path::from(name);
        let upload = self.runtime.block_on(self.store.put_multipart(&path));
        let upload = upload.map_err(|error| self.failed("writing", name, error))?;
        Ok(Upload {
            target: self.clone(),
            name: name.to_owned(),
            upload: Some(upload),
            part: Vec::new(),
        })
    }

    fn failed(&self, call: &'static str, name: &str, error: Error) -> TargetError {
        TargetError::Object {
            call,
            url: self.url(name),
            error,
        }
    }
}

/// An object that is being written. It leaves nothing behind if it is dropped before it is complete,
/// unless the process ends.
#[derive(Debug)]
pub struct Upload {
    target: Target,
    name: String,
    /// `None` once the object is complete.
    upload: Option<Box<dyn MultipartUpload>>,
    part: Vec<u8>,
}

impl Upload {
    /// Makes the object appear under its name.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn complete(mut self) -> Result<()> {
        let sent = self.send_part();
        let Some(mut upload) = self.upload.take() else {
            return Ok(());
        };
        let runtime = &self.target.runtime;
        let completed = match sent {
            Ok(()) => runtime.block_on(upload.complete()).map(drop),
            Err(error) => Err(error),
        };
        completed.map_err(|error| {
            let _ = runtime.block_on(upload.abort());
            self.target.failed("writing", &self.name, error)
        })
    }

    fn send_part(&mut self) -> std::result::Result<(), Error> {
        let part = std::mem::take(&mut self.part);
        match &mut self.upload {
            Some(upload) if !part.is_empty() => {
                let sent = upload.put_part(PutPayload::from(part));
                self.target.runtime.block_on(sent)
            }
            _ => Ok(()),
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PART_BYTES - self.part.len();
        let taken = bytes.len().min(room);
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == PART_BYTES {
            self.send_part().map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    /// Parts are sent when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            let _ = self.target.runtime.block_on(upload.abort());
        }
    }
}

#[cfg(test)]
mod tests {
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
        target
            .replace("a/v1", Bytes::from_static(b"three"))
            .unwrap();
        assert_eq!(target.read("a/v1").unwrap().unwrap(), "three");
        target.remove("a/v1").unwrap();
        target.remove("a/v1").unwrap();
    }

    #[test]
    fn an_upload_appears_when_it_is_complete_or_leaves_nothing() {
        let (dir, target) = target();
        let bytes = vec![7; PART_BYTES + 10];
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
    fn a_target_that_is_a_file_is_refused_by_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Target::folder(file.path()).unwrap_err().to_string();
        assert!(
            error.contains(&file.path().display().to_string()),
            "{error}"
        );
    }
}
