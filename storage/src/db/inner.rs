//! The engine with its threads, which keep a database open.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::Engine;
use super::background::Threads;
use crate::error::Result;
use crate::options::Options;
use crate::sync::Mutex;

/// An open database: the engine with its threads.
#[derive(Debug)]
pub(crate) struct DbInner {
    engine: Arc<Engine>,
    threads: Mutex<Threads>,
}

impl DbInner {
    /// Opens the database of a directory for reading and writing, and starts its threads.
    pub(crate) fn open(dir: &Path, options: Options) -> Result<Arc<Self>> {
        Self::start(Engine::open(dir, options)?)
    }

    pub(crate) fn open_read_only(dir: &Path, options: Options) -> Result<Arc<Self>> {
        Self::start(Engine::open_read_only(dir, options)?)
    }

    fn start(engine: Arc<Engine>) -> Result<Arc<Self>> {
        let threads = Threads::start(&engine)?;
        Ok(Arc::new(Self {
            engine,
            threads: Mutex::new(threads),
        }))
    }
}

impl Deref for DbInner {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for DbInner {
    fn drop(&mut self) {
        self.threads
            .get_mut()
            .unwrap_or_else(|e| e.into_inner())
            .stop(&self.engine);
        // A drop cannot report an error; acknowledged writes keep the durability that they had.
        if self.engine.check_access().is_ok() {
            let _ = self.engine.wal.sync_all();
        }
    }
}
