//! An object of a target as Parquet's library reads it: in parts, which are fetched in larger ones.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::target::Target;

/// The bytes of a request at least. A page of a short column has some ten KiB, and the pages of a column
/// lie behind each other.
const FETCH_BYTES_MIN: u64 = 128 << 10;

/// The parts that an object keeps in memory: of each column of a usual key the one at which it is read.
const PARTS_MAX: usize = 4;

/// An object whose size is known. Clones share the parts that they have fetched.
#[derive(Clone)]
pub(super) struct ObjectReader(Arc<Shared>);

struct Shared {
    target: Target,
    name: String,
    bytes: u64,
    parts: Mutex<VecDeque<Part>>,
}

struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    /// Returns the range of bytes that begins at `start`, if it lies in the part.
    fn slice(&self, start: u64, length: usize) -> Option<Bytes> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(length)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

impl ObjectReader {
    pub(super) fn new(target: Target, name: String, bytes: u64) -> Self {
        Self(Arc::new(Shared {
            target,
            name,
            bytes,
            parts: Mutex::default(),
        }))
    }

    fn read(&self, start: u64, length: usize) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let shared = &self.0;
        let too_short = || ParquetError::EOF("the file is shorter than it should be".to_owned());
        let end = start.checked_add(length as u64);
        let end = end
            .filter(|end| *end <= shared.bytes)
            .ok_or_else(too_short)?;
        let mut parts = shared.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = parts.iter().find_map(|part| part.slice(start, length)) {
            return Ok(found);
        }
        let end = end
            .max(start.saturating_add(FETCH_BYTES_MIN))
            .min(shared.bytes);
        let bytes = shared.target.read_range(&shared.name, start..end);
        let bytes = bytes.map_err(|error| ParquetError::External(Box::new(error)))?;
        let part = Part { start, bytes };
        let found = part.slice(start, length).ok_or_else(too_short)?;
        if parts.len() == PARTS_MAX {
            parts.pop_front();
        }
        parts.push_back(part);
        Ok(found)
    }
}

impl Length for ObjectReader {
    fn len(&self) -> u64 {
        self.0.bytes
    }
}

impl ChunkReader for ObjectReader {
    type T = ObjectStream;

    fn get_read(&self, start: u64) -> Result<ObjectStream> {
        Ok(ObjectStream {
            object: self.clone(),
            at: start,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.read(start, length)
    }
}

/// The bytes of an object from some place on.
pub(super) struct ObjectStream {
    object: ObjectReader,
    at: u64,
}

impl Read for ObjectStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.object.len().saturating_sub(self.at);
        let length = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let bytes = self
            .object
            .read(self.at, length)
            .map_err(io::Error::other)?;
        into[..length].copy_from_slice(&bytes);
        self.at += length as u64;
        Ok(length)
    }
}
