//! A source that a reader of a table merges: a memtable or a run.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::{Cursor, Kind, SeqNo};
use crate::memtable::MemtableCursor;
use crate::runs::RunCursor;

/// A position in one source of a table; see [`Cursor`]. An enum rather than a trait object: the
/// branch between the two kinds of sources is nearly always predicted, and the code of both is
/// inlined into the loop around it, which virtual calls are not.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most are runs, and none is moved once it is there"
)]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunCursor),
}

macro_rules! of_either {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    #[inline]
    fn valid(&self) -> bool {
        of_either!(self, cursor => cursor.valid())
    }

    #[inline]
    fn damage(&self) -> Option<&Error> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(cursor) => cursor.damage(),
        }
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        of_either!(self, cursor => cursor.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        of_either!(self, cursor => cursor.seek_before(key, seq))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.seek_to_last())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.next())
    }

    fn prev(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.prev())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        of_either!(self, cursor => cursor.key())
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        of_either!(self, cursor => cursor.seq())
    }

    #[inline]
    fn kind(&self) -> Kind {
        of_either!(self, cursor => cursor.kind())
    }

    #[inline]
    fn value(&self) -> Bytes {
        of_either!(self, cursor => cursor.value())
    }
}
