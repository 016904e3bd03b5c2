//! A segment of the log with another number in its header. Its records need no change: they do not
//! contain the number.

use std::io;

use crate::error::{Error, Result};
use crate::file_system::ReadFile;
use crate::key::FileNumber;
use crate::wal::{SEGMENT_HEADER_BYTES, Segment, renumbered_header};

/// A reader of a log segment that replaces the number in the segment's header by the number that
/// the segment gets in the backup.
#[derive(Debug)]
pub(super) struct Renumbered<'a> {
    source: &'a dyn ReadFile,
    header: [u8; SEGMENT_HEADER_BYTES],
}

impl<'a> Renumbered<'a> {
    /// Returns a reader of the segment as if its number were `to`; `None` if the header of the
    /// segment is damaged or incomplete.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn new(
        source: &'a dyn ReadFile,
        segment: &Segment,
        to: FileNumber,
    ) -> Result<Option<Self>> {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        match source.read_exact_at(&mut header, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(Error::io("read", &segment.path)(error)),
        }
        let header = renumbered_header(&header, segment, to);
        Ok(header.map(|header| Self { source, header }))
    }

    /// Puts the new header into `bytes`, which were read from the segment at `offset`: overwrites
    /// those of them that belong to the header.
    fn put_header(&self, bytes: &mut [u8], offset: u64) {
        let header = usize::try_from(offset).ok();
        let header = header
            .and_then(|from| self.header.get(from..))
            .unwrap_or(&[]);
        let length = header.len().min(bytes.len());
        bytes[..length].copy_from_slice(&header[..length]);
    }
}

impl ReadFile for Renumbered<'_> {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.source.read_exact_at(bytes, offset)?;
        self.put_header(bytes, offset);
        Ok(())
    }

    fn read_once_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.source.read_once_exact_at(bytes, offset)?;
        self.put_header(bytes, offset);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.source.len()
    }
}
