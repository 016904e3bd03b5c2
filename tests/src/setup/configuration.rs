//! The ways in which the metamorphic proof runs a list of operations.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_storage::{
    Bounding, CompactionOptions, Compression, Durability, Maintenance, ManualClock, Options,
    SsTableOptions, TieredPicker,
};
use rand::RngExt;

use super::{START_MS, drawn, drawn_options, pickers, tables};
use crate::disk::{INGEST_DIR, MemDisk, manual};
use crate::seed::{Rng, rng};
use crate::session::Setup;

/// The number of seeds after which [`drawn_maintenance`] repeats: for one seed in this many,
/// background threads flush and compact.
pub const MAINTENANCE_PERIOD: u64 = 5;

/// A configuration in which a list of operations is run. Reads must return the same in each.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// A configuration that has a name.
    Named(&'static Configuration),
    /// A configuration drawn from this seed: the picker, and the values of many options. Options
    /// that may change at an opening are drawn again at each one.
    Drawn(u64),
}

impl Way {
    /// Finds the configuration of this name: a named one, or for `drawn-SEED` the one drawn from
    /// that seed.
    ///
    /// # Errors
    /// If there is none; the error names those that exist.
    pub fn find(name: &str) -> Result<Self> {
        if let Some(seed) = name.strip_prefix("drawn-") {
            return Ok(Self::Drawn(
                seed.parse().context("a way is drawn from a seed")?,
            ));
        }
        let found = CONFIGURATIONS.iter().find(|c| c.name == name);
        found.map(Self::Named).with_context(|| {
            let names = CONFIGURATIONS.iter().map(|c| c.name).collect::<Vec<_>>();
            format!("no configuration {name:?}; there are {names:?}, and \"drawn-SEED\"")
        })
    }

    /// Returns the name by which [`Way::find`] finds the configuration.
    pub fn name(self) -> String {
        match self {
            Self::Named(configuration) => configuration.name.into(),
            Self::Drawn(seed) => format!("drawn-{seed}"),
        }
    }

    /// Returns the set-up for a database on `mem`.
    pub fn setup(self, mem: &MemDisk) -> Setup {
        match self {
            Self::Named(configuration) => configuration.setup(mem),
            Self::Drawn(seed) => {
                let mut rng = rng(seed ^ 0xab);
                let bytes = some_bytes(&mut rng);
                let mut setup = drawn(&mut rng, mem, bytes);
                setup.options = drawn_way(seed, &mut rng, setup.options);
                setup
            }
        }
    }

    /// Returns the options for the reopening with this number, counted from 1; `None` if the
    /// options do not change.
    pub fn reopened(self, mem: &MemDisk, reopenings: u64) -> Option<Options> {
        let Self::Drawn(seed) = self else {
            return None;
        };
        let mut rng = rng(seed.wrapping_mul(1009) ^ reopenings);
        let bytes = some_bytes(&mut rng);
        let options = drawn_options(&mut rng, mem, &ManualClock::default(), bytes);
        Some(drawn_way(seed, &mut rng, options))
    }

    /// Returns the number of operations between two reopenings of the database; `None` if this
    /// configuration has no reopenings.
    pub fn reopen_every(self) -> Option<usize> {
        match self {
            Self::Named(configuration) => configuration.reopen_every,
            Self::Drawn(_) => None,
        }
    }
}

/// Returns whether background threads or the caller flush and compact, in the configuration that is
/// drawn from this seed.
pub fn drawn_maintenance(seed: u64) -> Maintenance {
    if seed % MAINTENANCE_PERIOD == MAINTENANCE_PERIOD - 1 {
        Maintenance::Background
    } else {
        Maintenance::Manual
    }
}

/// Returns `options` with a drawn durability, and with maintenance by background threads or by the
/// caller, as `seed` determines.
fn drawn_way(seed: u64, rng: &mut Rng, options: Options) -> Options {
    let durability = [
        Durability::Sync,
        Durability::Interval(Duration::from_millis(1)),
        Durability::Os,
    ];
    Options {
        maintenance: drawn_maintenance(seed),
        durability: durability[rng.random_range(0..3)],
        ..options
    }
}

/// Draws the number of bytes from which the sizes of a set-up are derived. With the smallest
/// number, a memtable holds hardly anything; with the largest one, nearly everything that a list of
/// operations writes.
fn some_bytes(rng: &mut Rng) -> u64 {
    1 << rng.random_range(12..19)
}

/// A configuration with a name, under which the test `metamorphic` runs all lists of operations:
/// changes of the usual options, and additional reopenings.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    /// The name, which describes what is special about the configuration.
    pub name: &'static str,
    change: fn(&mut Options, &mut SsTableOptions),
    /// The number of operations between two additional reopenings; `None` if there are none.
    pub reopen_every: Option<usize>,
}

impl Configuration {
    /// Returns the set-up for a database on `mem`.
    pub fn setup(&self, mem: &MemDisk) -> Setup {
        let clock = ManualClock::at_ms(START_MS);
        let mut options = Options {
            memtable_bytes: 8 << 10,
            file_bytes: 4 << 10,
            wal_segment_bytes: 8 << 10,
            wal_bytes_max: 64 << 10,
            cache_bytes: 256 << 10,
            durability: Durability::Os,
            clock: Arc::new(clock.clone()),
            ..manual(mem)
        };
        let mut sstable = SsTableOptions {
            block_bytes: 512,
            ..SsTableOptions::default()
        };
        (self.change)(&mut options, &mut sstable);
        Setup {
            options,
            clock,
            tables: tables(|| sstable.clone()),
            prefix: String::new(),
            ingest_dir: INGEST_DIR.into(),
        }
    }
}

/// The named configurations. Most differ from the first one in a single respect, the others in
/// several.
pub const CONFIGURATIONS: &[Configuration] = &[
    configuration("plain", |_, _| {}),
    configuration("tiny blocks", |_, s| s.block_bytes = 1),
    configuration("large blocks", |_, s| s.block_bytes = 64 << 10),
    configuration("no compression", |_, s| s.compression = Compression::None),
    configuration("zstd", |_, s| s.compression = Compression::Zstd),
    configuration("zstd at the bottom", |_, s| {
        s.bottom_compression = Some(Compression::Zstd);
    }),
    configuration("tiny memtables", |o, _| o.memtable_bytes = 512),
    configuration("large memtables", |o, _| o.memtable_bytes = 4 << 20),
    configuration("no filters", |_, s| s.filter_bits_per_key = 0),
    configuration("poor filters", |_, s| s.filter_bits_per_key = 1),
    configuration("every key a restart", |_, s| s.restart_interval = 1),
    configuration("one restart to a block", |_, s| s.restart_interval = 10_000),
    configuration("no cache", |o, _| o.cache_bytes = 0),
    configuration("small cache", |o, _| o.cache_bytes = 4 << 10),
    configuration("large cache", |o, _| o.cache_bytes = 64 << 20),
    configuration("tiny files", |o, _| o.file_bytes = 256),
    configuration("large files", |o, _| o.file_bytes = 16 << 20),
    configuration("a part of a merge for each key", |o, _| {
        o.compaction.part_bytes = 1;
    }),
    configuration("merges in parts, eager", |o, _| {
        o.compaction = CompactionOptions {
            part_bytes: 2 << 10,
            ..merges(10.0)
        };
    }),
    configuration("eager merges", |o, _| o.compaction = merges(10.0)),
    configuration("lazy merges", |o, _| o.compaction = merges(0.1)),
    configuration("strict bounds", |o, _| {
        o.compaction = bounds(Bounding::Strict)
    }),
    configuration("no bounds", |o, _| o.compaction = bounds(Bounding::Off)),
    configuration("any neighbours merged", |o, _| {
        o.compaction = pickers::named("any neighbours", &mut rng(7));
    }),
    configuration("any valid picks", |o, _| {
        o.compaction = pickers::named("any valid", &mut rng(7));
    }),
    configuration("any picks, tiny everything", |o, s| {
        tiny(o, s);
        o.compaction = pickers::named("anything", &mut rng(7));
    }),
    configuration("any picks, threads, tiny everything", |o, s| {
        tiny(o, s);
        o.maintenance = Maintenance::Background;
        o.compaction = pickers::named("anything", &mut rng(8));
    }),
    configuration("synced writes", |o, _| o.durability = Durability::Sync),
    configuration("synced in intervals", |o, _| {
        o.durability = Durability::Interval(Duration::from_millis(1));
    }),
    configuration("tiny WAL segments", |o, _| o.wal_segment_bytes = 256),
    configuration("a short WAL", |o, _| o.wal_bytes_max = 2 << 10),
    Configuration {
        reopen_every: Some(7),
        ..configuration("reopened often", |_, _| {})
    },
    Configuration {
        reopen_every: Some(50),
        ..configuration("reopened", |_, _| {})
    },
    configuration("threads", |o, _| o.maintenance = Maintenance::Background),
    configuration("threads, tiny everything", |o, s| {
        o.maintenance = Maintenance::Background;
        tiny(o, s);
    }),
    configuration("one frozen memtable", |o, _| o.frozen_memtables_max = 1),
    configuration("tiny everything", tiny),
    Configuration {
        reopen_every: Some(20),
        ..configuration("tiny everything, reopened", tiny)
    },
];

const fn configuration(
    name: &'static str,
    change: fn(&mut Options, &mut SsTableOptions),
) -> Configuration {
    Configuration {
        name,
        change,
        reopen_every: None,
    }
}

fn tiny(options: &mut Options, sstable: &mut SsTableOptions) {
    options.memtable_bytes = 512;
    options.file_bytes = 256;
    options.wal_segment_bytes = 512;
    options.wal_bytes_max = 4 << 10;
    options.cache_bytes = 2 << 10;
    sstable.block_bytes = 64;
    sstable.restart_interval = 2;
}

fn merges(size_ratio: f64) -> CompactionOptions {
    let picker = TieredPicker {
        size_ratio,
        ..TieredPicker::default()
    };
    picker.into()
}

fn bounds(bounding: Bounding) -> CompactionOptions {
    let picker = TieredPicker {
        bounding,
        ..TieredPicker::default()
    };
    picker.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_have_unique_names_and_are_found_by_them() {
        assert!(CONFIGURATIONS.len() >= 25);
        let names: std::collections::BTreeSet<_> = CONFIGURATIONS.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), CONFIGURATIONS.len());
        for name in names.into_iter().chain(["drawn-17"]) {
            assert_eq!(Way::find(name).unwrap().name(), name);
        }
        let error = Way::find("nothing").unwrap_err().to_string();
        assert!(error.contains("any neighbours merged"), "{error}");
    }

    #[test]
    fn a_drawn_way_differs_at_each_opening_and_repeats_from_its_seed() {
        let mem = MemDisk::new();
        let sizes = |way: Way| {
            let options = (0..5).map(|n| way.reopened(&mem, n).unwrap());
            let sizes = options.map(|o| (o.memtable_bytes, o.file_bytes, o.wal_segment_bytes));
            sizes.collect::<Vec<_>>()
        };
        assert_eq!(sizes(Way::Drawn(3)), sizes(Way::Drawn(3)));
        assert_ne!(sizes(Way::Drawn(3)), sizes(Way::Drawn(2)));
        let mut different = sizes(Way::Drawn(3));
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 5);
    }
}
