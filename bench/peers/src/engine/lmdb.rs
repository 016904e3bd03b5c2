//! LMDB, through heed.
//!
//! LMDB binds a reader's slot to its thread, which makes reads faster, or to its transaction, which
//! lets one thread hold many snapshots. [`Settings::holds_snapshots`] selects the second.

use std::ops::Bound;

use anyhow::Result;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, TlsUsage, WithTls, WithoutTls};

use super::{Durability, Engine, See, Settings, Snapshot};

/// Address space set aside for the map; the file grows as it is written.
const MAP_BYTES: usize = 256 << 30;
/// The most read transactions, snapshots included, that may be open at the same time.
const READERS_MAX: u32 = 512;

/// Opens an environment whose reader slots suit [`Settings::holds_snapshots`].
pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    let options = EnvOpenOptions::new();
    Ok(if settings.holds_snapshots {
        Box::new(Lmdb::<WithoutTls>::new(map::open(
            options.read_txn_without_tls(),
            settings,
        )?)?)
    } else {
        Box::new(Lmdb::<WithTls>::new(map::open(options, settings)?)?)
    })
}

/// The owner of a reader's slot: the thread with `WithTls`, the transaction with `WithoutTls`.
trait Slots: TlsUsage + Sized {
    /// The transaction with its kind of slot erased: databases accept only that type.
    fn any<'t>(txn: &'t RoTxn<'_, Self>) -> &'t RoTxn<'t>;
}

impl Slots for WithTls {
    fn any<'t>(txn: &'t RoTxn<'_, Self>) -> &'t RoTxn<'t> {
        txn
    }
}

impl Slots for WithoutTls {
    fn any<'t>(txn: &'t RoTxn<'_, Self>) -> &'t RoTxn<'t> {
        txn
    }
}

/// An environment and its unnamed database.
struct Lmdb<T: Slots> {
    env: Env<T>,
    entries: Database<Bytes, Bytes>,
}

impl<T: Slots> Lmdb<T> {
    fn new(env: Env<T>) -> Result<Self> {
        let mut txn = env.write_txn()?;
        let entries = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Self { env, entries })
    }
}

impl<T: Slots> Engine for Lmdb<T> {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        get(&self.entries, T::any(&self.env.read_txn()?), key, see)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.entries.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn put_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in entries {
            self.entries.put(&mut txn, key, value)?;
        }
        Ok(txn.commit()?)
    }

    fn scan(&self, from: &[u8], entries_max: usize, see: See<'_>) -> Result<()> {
        let txn = self.env.read_txn()?;
        let range = (Bound::Included(from), Bound::Unbounded);
        for entry in self.entries.range(T::any(&txn), &range)?.take(entries_max) {
            let (key, value) = entry?;
            see(key, value);
        }
        Ok(())
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        scan_all(&self.entries, T::any(&self.env.read_txn()?), see)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(LmdbSnapshot {
            entries: self.entries,
            txn: self.env.read_txn()?,
        }))
    }

    /// Does nothing: LMDB has no background work.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

struct LmdbSnapshot<'a, T: Slots> {
    entries: Database<Bytes, Bytes>,
    txn: RoTxn<'a, T>,
}

impl<T: Slots> Snapshot for LmdbSnapshot<'_, T> {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        get(&self.entries, T::any(&self.txn), key, see)
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        scan_all(&self.entries, T::any(&self.txn), see)
    }

    fn release(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn get(
    entries: &Database<Bytes, Bytes>,
    txn: &RoTxn<'_>,
    key: &[u8],
    see: See<'_>,
) -> Result<bool> {
    let value = entries.get(txn, key)?;
    Ok(value.inspect(|value| see(key, value)).is_some())
}

fn scan_all(entries: &Database<Bytes, Bytes>, txn: &RoTxn<'_>, see: See<'_>) -> Result<()> {
    for entry in entries.iter(txn)? {
        let (key, value) = entry?;
        see(key, value);
    }
    Ok(())
}

/// The only module with unsafe code: it maps a file into memory.
mod map {
    #![expect(unsafe_code, reason = "LMDB maps its file into memory")]

    use super::*;

    pub(super) fn open<T: Slots>(
        mut options: EnvOpenOptions<T>,
        settings: &Settings,
    ) -> Result<Env<T>> {
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        if settings.durability == Durability::Os {
            // SAFETY: these flags give up the file's integrity when the machine crashes; no process
            // opens the file of a measurement after a crash.
            unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC) };
        }
        // SAFETY: the directory was made for this process, on a local disk, and
        // nothing else changes the file while it is mapped.
        Ok(unsafe { options.open(&settings.dir) }?)
    }
}
