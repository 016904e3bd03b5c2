//! The catalog of a node's database, opened on demand: few nodes need it.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use ebb_storage::{Db, SystemClock};

use super::catalog::Catalog;
use super::error::Result;
use super::grace::GracePeriods;

/// Opens the catalog of a database on first use, and only once: a second catalog would assign the
/// timestamps of the first again. Clones share the catalog.
#[derive(Debug, Clone, Default)]
pub struct LazyCatalog {
    grace_periods: GracePeriods,
    opened: Arc<Mutex<Option<Arc<Catalog>>>>,
}

impl LazyCatalog {
    /// Creates the lazy catalog of a database. Once it is open, the catalog stores the grace
    /// periods of its tables in `grace_periods`. So these must be the ones that the database's
    /// merge operator was created with.
    pub fn new(grace_periods: GracePeriods) -> Self {
        Self {
            grace_periods,
            opened: Arc::default(),
        }
    }

    /// Returns the catalog if it is open. Never waits: also returns `None` while another thread
    /// holds the lock, either to open the catalog or, for a moment, to get the open one.
    pub fn opened(&self) -> Option<Arc<Catalog>> {
        match self.opened.try_lock() {
            Ok(opened) => opened.clone(),
            Err(TryLockError::Poisoned(opened)) => opened.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the catalog if it is open. Waits while another thread opens it.
    pub fn opened_or_opening(&self) -> Option<Arc<Catalog>> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.clone()
    }

    /// Runs `work` under the lock of [`Catalog::exclusively`] if the catalog is open, otherwise without a
    /// lock: before the catalog is open, no statement of CQL runs, because a server opens it before it
    /// listens for requests.
    pub fn exclusively<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.opened_or_opening() {
            Some(catalog) => catalog.exclusively(|_| work()),
            None => work(),
        }
    }

    /// Returns the catalog of `db`, opened at the first call.
    ///
    /// # Errors
    /// See [`Catalog::open`].
    pub fn of(&self, db: &Db) -> Result<Arc<Catalog>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(catalog) = &*opened {
            return Ok(Arc::clone(catalog));
        }
        let catalog = Catalog::open(db, &self.grace_periods, Arc::new(SystemClock))?;
        Ok(Arc::clone(opened.insert(Arc::new(catalog))))
    }
}
