//! A file to read, on this machine or in a bucket.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use object_store::path::Path as Key;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};

use super::{Result, SourceError};
use crate::object::{ObjectReader, Window};
use crate::target::Target;

/// The memory, in bytes, that a reader of a file in a bucket takes for fetched byte ranges, for all
/// columns together. Each column gets at least 128 KiB, so more than 256 columns take more.
const AHEAD_BYTES: u64 = 32 << 20;

/// The place of a file that another engine wrote: on this machine or in a bucket.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The path of a local file, or the URL of an object. Errors show it.
    path: PathBuf,
    /// The object in a bucket; `None` for a file of this machine.
    object: Option<Object>,
}

/// A file in a bucket.
#[derive(Debug, Clone)]
struct Object {
    target: Target,
    key: Key,
    /// The size of the object; `None` if it has not been looked up.
    bytes: Option<u64>,
}

impl Place {
    /// Returns the place of a local file.
    pub(super) fn file(path: PathBuf) -> Self {
        Self { path, object: None }
    }

    /// Returns the place of an object in a bucket. `bytes` is the size of the object, if it is known.
    pub(super) fn object(target: Target, key: Key, bytes: Option<u64>) -> Self {
        Self {
            path: target.url(key.as_ref()).into(),
            object: Some(Object { target, key, bytes }),
        }
    }

    /// Returns the path of a local file, or the URL of an object in a bucket.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the file in its folder; `None` if the name is not UTF-8.
    pub(super) fn name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }

    /// Returns the key of an object in a bucket; `None` for a local file.
    pub(super) fn key(&self) -> Option<&Key> {
        self.object.as_ref().map(|object| &object.key)
    }

    /// Returns this place with the size of its object. `bytes` is `None` if the bucket has no such object.
    ///
    /// # Errors
    /// If there is no such object.
    pub(super) fn with_size(mut self, bytes: Option<u64>) -> Result<Self> {
        if bytes.is_none() {
            return Err(self.is_absent());
        }
        if let Some(object) = &mut self.object {
            object.bytes = bytes;
        }
        Ok(self)
    }

    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// If the file does not exist or cannot be read.
    pub(super) fn bytes(&self) -> Result<u64> {
        let Some(object) = &self.object else {
            let metadata = fs::metadata(&self.path).map_err(SourceError::io(&self.path))?;
            return Ok(metadata.len());
        };
        match object.bytes {
            Some(bytes) => Ok(bytes),
            None => (object.target.size(&object.key)?).ok_or_else(|| self.is_absent()),
        }
    }

    /// Returns a path or a location that identifies the file. All links to a file have the same
    /// result.
    ///
    /// # Errors
    /// If the file does not exist or cannot be read.
    pub(super) fn identity(&self) -> Result<PathBuf> {
        match &self.object {
            None => (self.path.canonicalize()).map_err(SourceError::io(&self.path)),
            Some(_) => Ok(self.path.clone()),
        }
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// If the file does not exist or cannot be read.
    pub(super) fn read(&self) -> Result<Bytes> {
        match &self.object {
            None => fs::read(&self.path)
                .map(Bytes::from)
                .map_err(SourceError::io(&self.path)),
            Some(object) => (object.target.get(&object.key)?).ok_or_else(|| self.is_absent()),
        }
    }

    /// Opens the file for Parquet's library, which will read `columns` columns at once.
    ///
    /// # Errors
    /// If the file does not exist or cannot be read. An object whose size is known is not looked up: if it is
    /// absent, its first read fails.
    pub(super) fn open(&self, columns: usize) -> Result<PlaceReader> {
        let Some(Object { target, key, .. }) = &self.object else {
            let file = File::open(&self.path).map_err(SourceError::io(&self.path))?;
            return Ok(PlaceReader::File(file));
        };
        let window = Window::scan(columns, AHEAD_BYTES);
        let object = ObjectReader::new(target.clone(), key.clone(), self.bytes()?, window);
        Ok(PlaceReader::Object(object))
    }

    fn is_absent(&self) -> SourceError {
        SourceError::io(&self.path)(io::ErrorKind::NotFound.into())
    }
}

/// An open file, as Parquet's library reads it.
pub(super) enum PlaceReader {
    File(File),
    Object(ObjectReader),
}

impl Length for PlaceReader {
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => Length::len(file),
            Self::Object(object) => object.len(),
        }
    }
}

impl ChunkReader for PlaceReader {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(match self {
            Self::File(file) => Box::new(file.get_read(start)?),
            Self::Object(object) => Box::new(object.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match self {
            Self::File(file) => file.get_bytes(start, length),
            Self::Object(object) => object.get_bytes(start, length),
        }
    }
}
