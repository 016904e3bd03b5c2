//! An engine under test, behind one small door.
//!
//! What is measured is what each store's own interface costs: values are shown
//! where they lie ([`See`]), not copied, and every store gets the same bytes in
//! the same calls.

#[cfg(feature = "rocksdb")]
mod rocksdb;

#[cfg(feature = "fjall")]
mod fjall;

#[cfg(feature = "lmdb")]
mod lmdb;

mod ebb;

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Is shown a key and its value, in place.
pub type See<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// A store, open.
pub trait Engine: Send + Sync {
    /// Shows the value of a key; says whether there is one.
    ///
    /// # Errors
    /// What the store says.
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool>;

    /// Sets a key. Acknowledged as [`Settings::durability`] says.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets many keys in one write.
    ///
    /// # Errors
    /// What the store says.
    fn put_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;

    /// Shows at most `entries_max` entries from a key on, ascending.
    ///
    /// # Errors
    /// What the store says.
    fn scan(&self, from: &[u8], entries_max: usize, see: See<'_>) -> Result<()>;

    /// Shows all entries, ascending, as the store does this best.
    ///
    /// # Errors
    /// What the store says.
    fn scan_all(&self, see: See<'_>) -> Result<()>;

    /// Holds on to the content as it is now, until dropped.
    ///
    /// # Errors
    /// What the store says.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Flushes, and returns when no background work is left.
    ///
    /// # Errors
    /// What the store says.
    fn settle(&self) -> Result<()>;

    /// What the store counts itself, if it does so without being asked.
    fn counts(&self) -> Option<Counts> {
        None
    }
}

/// The content of a store at one moment.
pub trait Snapshot {
    /// Shows the value that a key had; says whether there was one.
    ///
    /// # Errors
    /// What the store says.
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool>;

    /// Shows all entries that there were, ascending.
    ///
    /// # Errors
    /// What the store says.
    fn scan_all(&self, see: See<'_>) -> Result<()>;

    /// Lets go of it.
    ///
    /// # Errors
    /// What the store says.
    fn release(self: Box<Self>) -> Result<()>;
}

/// What a store says of itself, since it was opened.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Bytes written to logs and tables.
    pub written_bytes: u64,
    /// The longest that a write was held up by flushes and merges, in
    /// microseconds.
    pub write_wait_max_us: u64,
}

/// What every store is given alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The directory, made when it is not there.
    pub dir: PathBuf,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// The block cache; LMDB has none but the page cache.
    pub cache_bytes: u64,
    /// A memtable; LMDB has none. Files are about as large.
    pub memtable_bytes: u64,
    /// Whether one thread will hold several snapshots at once.
    pub holds_snapshots: bool,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// When the operating system has it.
    Os,
    /// After an fsync.
    Sync,
}

/// The stores, in the order of the tables.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    /// What this is about.
    Ebb,
    /// LSM, C++.
    #[cfg(feature = "rocksdb")]
    #[value(name = "rocksdb")]
    RocksDb,
    /// LSM, Rust.
    #[cfg(feature = "fjall")]
    Fjall,
    /// B-tree in a memory map, C: the bound of what reads can cost.
    #[cfg(feature = "lmdb")]
    Lmdb,
}

impl EngineName {
    /// Opens it, with all that its own guide recommends.
    ///
    /// # Errors
    /// What the store says.
    pub fn open(self, settings: &Settings) -> Result<Box<dyn Engine>> {
        std::fs::create_dir_all(&settings.dir)?;
        Ok(match self {
            Self::Ebb => Box::new(ebb::Ebb::open(settings)?),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => Box::new(rocksdb::RocksDb::open(settings)?),
            #[cfg(feature = "fjall")]
            Self::Fjall => Box::new(fjall::Fjall::open(settings)?),
            #[cfg(feature = "lmdb")]
            Self::Lmdb => lmdb::open(settings)?,
        })
    }

    /// Whether it is a tree that is changed in place, by pages.
    pub fn is_b_tree(self) -> bool {
        match self {
            #[cfg(feature = "lmdb")]
            Self::Lmdb => true,
            _ => false,
        }
    }

    /// Whether it is the same kind of store as ebb: the ratios that count are
    /// those to these.
    pub fn is_lsm_peer(self) -> bool {
        self != Self::Ebb && !self.is_b_tree()
    }
}

impl std::fmt::Display for EngineName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Ebb => "ebb",
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => "rocksdb",
            #[cfg(feature = "fjall")]
            Self::Fjall => "fjall",
            #[cfg(feature = "lmdb")]
            Self::Lmdb => "lmdb",
        })
    }
}
