//! The free space that long work leaves on the disk of a database.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::db::Engine;
use crate::disk::Disk;
use crate::error::{Error, Result};

/// The free space that long work leaves, as a multiple of the low-water mark (the space that writes
/// leave free), so that no write is refused because of this work. If less than twice this space is
/// free when the work starts, it leaves half of the free space.
const LOW_WATER_MARKS: u64 = 2;

/// The number of processed bytes between two looks at the free space. A look takes a system call, and
/// pieces may be small, so not every piece takes a look.
const LOOK_EVERY_BYTES: u64 = 256 << 10;

/// A watch over the free space on the disk of a database: see [`Db::watch_space`](crate::Db::watch_space).
#[derive(Debug, Clone)]
pub struct SpaceWatch {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The least number of free bytes that the work leaves; `None` if the free space is not known.
    free_bytes_min: Option<u64>,
}

impl SpaceWatch {
    pub(crate) fn new(engine: &Engine) -> Self {
        let left_bytes = engine.low_water_bytes().saturating_mul(LOW_WATER_MARKS);
        let mut watch = Self {
            disk: engine.options.disk.clone(),
            dir: engine.dir().to_path_buf(),
            free_bytes_min: None,
        };
        watch.free_bytes_min = watch.free_bytes().map(|free| left_bytes.min(free / 2));
        watch
    }

    /// Looks at the free space, with one call to the disk.
    ///
    /// # Errors
    /// [`Error::DiskFull`] if the work has to end, because it leaves too little free space for writes.
    /// It is no error if the free space is not known.
    pub fn check(&self) -> Result<()> {
        self.check_for(0)
    }

    /// Does the same as [`Self::check`], for work that is about to write `bytes`.
    pub(super) fn check_for(&self, bytes: u64) -> Result<()> {
        let free_and_min = self.free_bytes_min.zip(self.free_bytes());
        if free_and_min.is_some_and(|(min, free)| free < min.saturating_add(bytes)) {
            let path = self.dir.clone();
            return Err(Error::DiskFull { path });
        }
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes(&self.dir).ok().flatten()
    }
}

/// Looks at the free space from time to time while bytes are processed.
#[derive(Debug)]
pub(super) struct SpaceLooks {
    watch: SpaceWatch,
    /// The number of processed bytes at which the next look is due.
    look_at: u64,
    /// The error of the last look, if there was too little free space.
    shortage: Option<Error>,
}

impl SpaceLooks {
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            watch: SpaceWatch::new(engine),
            look_at: LOOK_EVERY_BYTES,
            shortage: None,
        }
    }

    /// Looks at the free space if that is due after `bytes_done` bytes. Returns `Break` if there is too
    /// little; [`Self::shortage`] is the error then.
    pub(super) fn look(&mut self, bytes_done: u64) -> ControlFlow<()> {
        if bytes_done >= self.look_at {
            self.look_at = bytes_done + LOOK_EVERY_BYTES;
            self.shortage = self.watch.check().err();
        }
        if self.shortage.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Returns the error of work that ended because of [`Self::look`]; `None` if there was enough space.
    pub(super) fn shortage(&self) -> Option<Error> {
        self.shortage.clone()
    }
}
