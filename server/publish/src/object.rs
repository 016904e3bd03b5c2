//! An object of a target as Parquet's library reads it: in parts, which are fetched in larger ones.
//!
//! The library reads each column from page to page, and the pages of a column lie one after the other. So an
//! object keeps a part for each place at which it is read, and the next part of a column takes the place of
//! the one before it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::path::Path;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::target::{Target, TargetError};

/// The least number of bytes that one request fetches. A page of a short column has only some ten KiB, so one
/// request then fetches several pages.
const FETCH_BYTES_MIN: u64 = 128 << 10;

/// The greatest number of bytes that one request fetches, unless the Parquet library reads more at
/// once. With a store that takes 50 ms for a request, a column is read at 80 MiB/s.
const FETCH_BYTES_MAX: u64 = 4 << 20;

/// The limits of an [`ObjectReader`]: the number of parts (byte ranges of its object) that it keeps
/// in memory, and the least number of bytes that one request fetches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// The least number of bytes that one request fetches.
    fetch_bytes: u64,
    /// The greatest number of byte ranges of the object that are kept in memory.
    parts_max: usize,
}

impl Window {
    /// The window for looking up keys in a data file: up to four parts (byte ranges in memory), one
    /// for each column of the key. Keys of more columns share them.
    pub(crate) const SEARCH: Self = Self {
        fetch_bytes: FETCH_BYTES_MIN,
        parts_max: 4,
    };

    /// Returns the window for reading `columns` columns from their beginnings to their ends, with
    /// one part (range of bytes in memory) for each. The parts together take `bytes` at most, or
    /// 128 KiB for each column if that is more. A part is larger if the Parquet library reads more
    /// at once.
    pub(crate) fn scan(columns: usize, bytes: u64) -> Self {
        let parts_max = columns.max(1);
        let fetch_bytes = bytes / parts_max as u64;
        Self {
            fetch_bytes: fetch_bytes.clamp(FETCH_BYTES_MIN, FETCH_BYTES_MAX),
            parts_max,
        }
    }
}

/// A reader of an object whose size is known. Clones share the parts (byte ranges of the object) that they
/// have fetched.
#[derive(Clone)]
pub(crate) struct ObjectReader(Arc<Shared>);

struct Shared {
    target: Target,
    key: Path,
    bytes: u64,
    window: Window,
    parts: Mutex<VecDeque<Part>>,
    /// The last failure of a request for a part, until [`ObjectReader::take_failure`] takes it.
    failure: Mutex<Option<TargetError>>,
}

struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    /// Returns `length` bytes that begin at `start` in the object, if they lie in this part of the object.
    fn slice(&self, start: u64, length: usize) -> Option<Bytes> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(length)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }

    /// Returns whether `start`, the offset of a read, lies in this part of the object after its
    /// first byte, or right at its end. If so, the read continues the column that was read from
    /// this part.
    fn reaches(&self, start: u64) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        self.start < start && start <= end
    }
}

impl ObjectReader {
    /// Opens the object at `key`, which has `bytes` bytes. Reads nothing yet.
    pub(crate) fn new(target: Target, key: Path, bytes: u64, window: Window) -> Self {
        Self(Arc::new(Shared {
            target,
            key,
            bytes,
            window,
            parts: Mutex::default(),
            failure: Mutex::default(),
        }))
    }

    /// Returns the last failure of a request to the target, and forgets it. The Parquet library passes on only its
    /// text, which looks like that of a damaged file. `None` if no request has failed, or if one failed because the
    /// object is missing or has another size: then the file is at fault.
    pub(crate) fn take_failure(&self) -> Option<TargetError> {
        let failure = self.0.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the error of a failed request for the Parquet library, and keeps it for
    /// [`take_failure`](Self::take_failure).
    fn failed(&self, error: TargetError) -> ParquetError {
        let shared = &self.0;
        let text = error.to_string();
        let size = shared.target.size(&shared.key);
        let is_at_fault = size.is_ok_and(|size| size != Some(shared.bytes));
        let failure = shared.failure.lock();
        *failure.unwrap_or_else(PoisonError::into_inner) = Some(error).filter(|_| !is_at_fault);
        ParquetError::External(text.into())
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
            .max(start.saturating_add(shared.window.fetch_bytes))
            .min(shared.bytes);
        let bytes = shared.target.get_range(&shared.key, start..end);
        let bytes = bytes.map_err(|error| self.failed(error))?;
        let part = Part { start, bytes };
        let found = part.slice(start, length).ok_or_else(too_short)?;
        // The part that the same column was read from reaches this place. If other parts do, too, it is the one
        // that begins last.
        let before = parts.iter().enumerate();
        let before = before.filter(|(_, part)| part.reaches(start));
        let before = before.max_by_key(|(_, part)| part.start);
        let before = before.map(|(place, _)| place);
        let is_full = parts.len() >= shared.window.parts_max;
        if let Some(place) = before.or(is_full.then_some(0)) {
            parts.remove(place);
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

/// A reader of the bytes of an object, from an offset on.
pub(crate) struct ObjectStream {
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

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::target::faulty::{Event, faulty_target, target};

    #[test]
    fn columns_that_are_read_by_turns_are_fetched_once() {
        const COLUMN: usize = 1 << 20;
        const PAGE: usize = 10_000;
        let bytes: Vec<u8> = (0..4 * COLUMN).map(|at| (at % 251) as u8).collect();
        let store = InMemory::new();
        target(&store).replace("a", bytes.clone().into()).unwrap();
        // A part has thirteen pages, so a column takes nine requests. Further ones are refused.
        let (target, _) = faulty_target(&store, 4 * 9, Event::Kill);
        let window = Window::scan(4, 0);
        let object = ObjectReader::new(target, "a".into(), bytes.len() as u64, window);
        for page in (0..COLUMN).step_by(PAGE) {
            for column in 0..4 {
                let start = column * COLUMN + page;
                let length = PAGE.min(COLUMN - page);
                let read = object.get_bytes(start as u64, length).unwrap();
                assert_eq!(read, bytes[start..start + length]);
            }
        }
        assert_eq!(object.0.parts.lock().unwrap().len(), 4);
    }
}
