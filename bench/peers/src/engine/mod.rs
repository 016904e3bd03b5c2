//! The interface to an engine under test.
//!
//! The benchmark measures what each store's own interface costs: values are passed to a callback in
//! place ([`See`]) and not copied, and every store gets the same bytes in the same calls.

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

/// A callback that gets a key and its value, without a copy.
pub type See<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// An open store.
pub trait Engine: Send + Sync {
    /// Passes the value of a key to `see`, and returns whether the key exists.
    ///
    /// # Errors
    /// The errors of the store.
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool>;

    /// Sets a key. [`Settings::durability`] decides when the write is acknowledged.
    ///
    /// # Errors
    /// The errors of the store.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets many keys in one write.
    ///
    /// # Errors
    /// The errors of the store.
    fn put_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;

    /// Passes at most `entries_max` entries from a key on to `see`, in ascending order.
    ///
    /// # Errors
    /// The errors of the store.
    fn scan(&self, from: &[u8], entries_max: usize, see: See<'_>) -> Result<()>;

    /// Passes all entries to `see` in ascending order, by the store's fastest full scan.
    ///
    /// # Errors
    /// The errors of the store.
    fn scan_all(&self, see: See<'_>) -> Result<()>;

    /// Takes a snapshot of the content.
    ///
    /// # Errors
    /// The errors of the store.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Flushes, and returns once no background work is left.
    ///
    /// # Errors
    /// The errors of the store.
    fn settle(&self) -> Result<()>;

    /// Returns the store's own counters, if it keeps them in normal operation.
    fn counts(&self) -> Option<Counts> {
        None
    }
}

/// The content of a store at one moment.
pub trait Snapshot {
    /// Passes the value of a key in the snapshot to `see`, and returns whether the key exists
    /// there.
    ///
    /// # Errors
    /// The errors of the store.
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool>;

    /// Passes all entries of the snapshot to `see`, in ascending order.
    ///
    /// # Errors
    /// The errors of the store.
    fn scan_all(&self, see: See<'_>) -> Result<()>;

    /// Deletes the snapshot.
    ///
    /// # Errors
    /// The errors of the store.
    fn release(self: Box<Self>) -> Result<()>;
}

/// Counters that a store keeps itself, since it was opened.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Bytes written to logs and tables.
    pub written_bytes: u64,
    /// The longest wait of a write for flushes and merges, in microseconds.
    pub write_wait_max_us: u64,
}

/// The settings that all stores have in common.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The directory; created if it does not exist.
    pub dir: PathBuf,
    /// The point at which a write is acknowledged.
    pub durability: Durability,
    /// Size of the block cache, in bytes; LMDB has only the page cache.
    pub cache_bytes: u64,
    /// Size of a memtable and, about, of a file, in bytes; LMDB has no memtable.
    pub memtable_bytes: u64,
    /// Whether one thread will hold several snapshots at once.
    pub holds_snapshots: bool,
}

/// The point at which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// After the operating system accepted the write.
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
    /// The store under test.
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
    /// Opens the store, configured as its own guide recommends.
    ///
    /// # Errors
    /// The errors of the store; if the directory cannot be created.
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

    /// Returns true for a B-tree, which is updated in place, page by page.
    pub fn is_b_tree(self) -> bool {
        match self {
            #[cfg(feature = "lmdb")]
            Self::Lmdb => true,
            _ => false,
        }
    }

    /// Returns true for the other LSM stores: ebb's ratios to these are the ones that count.
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
