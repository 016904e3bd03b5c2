//! Objects by their exact keys. Keys that other engines have chosen may contain characters that the names of
//! ebb's own objects do not contain, and that `Path::from` would replace.

use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};

use super::error::is_denied;
use super::{Result, Target, TargetError};

/// The greatest number of requests that one call makes at once. If each takes 50 ms, a thousand objects take
/// three seconds.
const READS_IN_FLIGHT: usize = 16;

/// The objects and folders directly in a folder.
#[derive(Debug)]
pub(crate) struct FolderEntries {
    /// The keys of the objects, and their sizes in bytes.
    pub(crate) objects: Vec<(Path, u64)>,
    /// The keys of the folders.
    pub(crate) folders: Vec<Path>,
}

/// A function of the key of an object. Returns whether [`Target::have_objects`] searches for this
/// object.
pub(crate) type IsSought = fn(&str) -> bool;

impl Target {
    /// Returns the key of an object that a location or a user names, with exactly these characters.
    ///
    /// # Errors
    /// If `object_store` takes no such key: a part of it is empty, `.` or `..`, or has a control character.
    pub(crate) fn key(&self, name: &str) -> Result<Path> {
        Path::parse(name).map_err(|error| TargetError::Object {
            call: "reading",
            url: self.url(name),
            reason: error.to_string(),
        })
    }

    /// Returns the size of an object in bytes; `None` if there is none.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn size(&self, key: &Path) -> Result<Option<u64>> {
        self.runtime.block_on(self.size_soon(key))
    }

    /// Returns the size in bytes of each object of `keys`, in the order of `keys`; `None` for an
    /// object that does not exist.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn sizes(&self, keys: &[Path]) -> Result<Vec<Option<u64>>> {
        let sizes = stream::iter(keys).map(|key| self.size_soon(key));
        let sizes = sizes.buffered(READS_IN_FLIGHT);
        self.runtime.block_on(sizes.try_collect())
    }

    async fn size_soon(&self, key: &Path) -> Result<Option<u64>> {
        match self.store.head(key).await {
            Ok(object) => Ok(Some(object.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("reading", key.as_ref(), &error)),
        }
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn get(&self, key: &Path) -> Result<Option<Bytes>> {
        self.runtime.block_on(self.get_soon(key))
    }

    /// Reads objects, [`READS_IN_FLIGHT`] at once. Calls `take` with the position of each key in the list,
    /// and with the object if it exists. Returns the results in the order of the keys. `take` must not use
    /// the target.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn get_each<T>(
        &self,
        keys: &[Path],
        take: impl Fn(usize, Option<Bytes>) -> T,
    ) -> Result<Vec<T>> {
        let take = &take;
        let taken = stream::iter(keys.iter().enumerate()).map(|(place, key)| async move {
            let read = self.get_soon(key).await;
            read.map(|bytes| take(place, bytes))
        });
        let taken = taken.buffered(READS_IN_FLIGHT);
        self.runtime.block_on(taken.try_collect())
    }

    async fn get_soon(&self, key: &Path) -> Result<Option<Bytes>> {
        let read = async {
            let found = self.store.get(key).await?;
            found.bytes().await
        };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("reading", key.as_ref(), &error)),
        }
    }

    /// Reads a part of an object. `range` must not be empty, and must lie within the object.
    ///
    /// # Errors
    /// If there is no such object or no such part, or if a request to the target fails.
    pub(crate) fn get_range(&self, key: &Path, range: Range<u64>) -> Result<Bytes> {
        let read = self.runtime.block_on(self.store.get_range(key, range));
        read.map_err(|error| self.failed("reading", key.as_ref(), &error))
    }

    /// Returns for each of `folders` whether it has a matching object. With a function, the
    /// matching objects are those directly in the folder for whose key the function returns true.
    /// With `None`, they are all objects below the folder, at any depth. A folder that the
    /// credentials may not list counts as empty. Looks into [`READS_IN_FLIGHT`] folders at once.
    ///
    /// A folder takes one request. With a function, it takes another one for each further 1000
    /// objects and folders directly in it. The objects in those folders cost nothing.
    ///
    /// # Errors
    /// If a request to the target fails for another reason than a lack of permission.
    pub(crate) fn have_objects(&self, folders: &[(Path, Option<IsSought>)]) -> Result<Vec<bool>> {
        let found = stream::iter(folders)
            .map(|(folder, is_sought)| self.has_object_soon(folder, *is_sought));
        let found = found.buffered(READS_IN_FLIGHT);
        self.runtime.block_on(found.try_collect())
    }

    async fn has_object_soon(&self, folder: &Path, is_sought: Option<IsSought>) -> Result<bool> {
        let found = match is_sought {
            None => {
                let first = self.store.list(Some(folder)).try_next().await;
                first.map(|object| object.is_some())
            }
            Some(is_sought) => {
                let listed = self.store.list_with_delimiter(Some(folder)).await;
                listed.map(|listed| {
                    let mut objects = listed.objects.iter();
                    objects.any(|object| is_sought(object.location.as_ref()))
                })
            }
        };
        match found {
            Err(error) if is_denied(&error) => Ok(false),
            found => found.map_err(|error| self.failed("listing", folder.as_ref(), &error)),
        }
    }

    /// Lists the objects and folders directly in the folder `key`. Both lists are empty if there is no such
    /// folder.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(crate) fn entries(&self, key: &Path) -> Result<FolderEntries> {
        let listed = self.store.list_with_delimiter(Some(key));
        let listed = self.runtime.block_on(listed);
        let listed = listed.map_err(|error| self.failed("listing", key.as_ref(), &error))?;
        let objects = listed.objects.into_iter();
        Ok(FolderEntries {
            // Some tools mark a folder by an empty object that has its name.
            objects: objects
                .filter(|object| object.location != *key)
                .map(|object| (object.location, object.size))
                .collect(),
            folders: listed.common_prefixes,
        })
    }
}
