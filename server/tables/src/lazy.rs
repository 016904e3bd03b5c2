//! The catalog of a node's database, which few nodes need.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use ebb_storage::{Db, SystemClock};

use super::catalog::Catalog;
use super::error::Result;
use super::grace::GracePeriods;

/// Opens the catalog of a database when it is first asked for, and once: a second one would
/// give timestamps anew that the first has given. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LazyCatalog {
    grace_periods: GracePeriods,
    opened: Arc<Mutex<Option<Arc<Catalog>>>>,
}

impl LazyCatalog {
    /// Of a database whose merge operator was given the same `grace_periods`.
    pub fn new(grace_periods: GracePeriods) -> Self {
        Self {
            grace_periods,
            opened: Arc::default(),
        }
    }

    /// Returns the catalog if it is open, and does not wait while it is being opened.
    pub fn opened(&self) -> Option<Arc<Catalog>> {
        match self.opened.try_lock() {
            Ok(opened) => opened.clone(),
            Err(TryLockError::Poisoned(opened)) => opened.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The catalog of `db`, which is the same each time.
    ///
    /// # Errors
    /// As [`Catalog::open`].
    pub fn of(&self, db: &Db) -> Result<Arc<Catalog>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(catalog) = &*opened {
            return Ok(Arc::clone(catalog));
        }
        let catalog = Catalog::open(db, &self.grace_periods, Arc::new(SystemClock))?;
        Ok(Arc::clone(opened.insert(Arc::new(catalog))))
    }
}
