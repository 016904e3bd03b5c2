//! The results: the JSON and the table.

use std::fmt;

use serde::Serialize;

use super::args::Scale;
use super::case::Measurement;
use crate::console::mb;
use crate::experiments::statistics::median;

/// The costs of a snapshot, computed from medians over the rounds.
#[derive(Debug, Serialize)]
pub struct Bill {
    pub settings: Scale,
    /// The size of the SSTables of a freshly loaded and merged database with the same final data, in
    /// bytes.
    pub live_bytes: u64,
    /// The bytes of SSTables and log while there is a snapshot, divided by `live_bytes`.
    pub disk_over_live: f64,
    /// The peak of the bytes of SSTables and log while there is a snapshot, divided by
    /// `live_bytes`.
    pub disk_over_live_peak: f64,
    /// The bytes of SSTables and log in runs without a snapshot, divided by `live_bytes`.
    pub disk_over_live_without: f64,
    /// The peak of the bytes of SSTables and log in runs without a snapshot, divided by
    /// `live_bytes`.
    pub disk_over_live_without_peak: f64,
    /// The bytes of SSTables and log some time after the snapshot was deleted, divided by
    /// `live_bytes`.
    pub disk_over_live_after_drop: f64,
    /// The ratio of resident memory with a snapshot to that without.
    pub memory_over_none: f64,
    /// The ratio of the peaks of resident memory with the snapshot and without.
    pub memory_over_none_peak: f64,
    pub rounds: Vec<Round>,
}

/// Two runs that overwrite the same data, with a snapshot and without one.
#[derive(Debug, Serialize)]
pub struct Round {
    pub with: Measurement,
    pub without: Measurement,
}

impl Bill {
    pub fn new(settings: Scale, fresh: &Measurement, rounds: Vec<Round>) -> Self {
        let live_bytes = fresh.space.sstable_bytes;
        let with =
            |of: fn(&Measurement) -> u64| median(rounds.iter().map(|round| of(&round.with) as f64));
        let without = |of: fn(&Measurement) -> u64| {
            median(rounds.iter().map(|round| of(&round.without) as f64))
        };
        let over_live = |bytes: f64| bytes / live_bytes as f64;
        let memory_over_none = |of: fn(&Measurement) -> u64| with(of) / without(of);
        Self {
            live_bytes,
            disk_over_live: over_live(with(|m| m.space.disk_bytes())),
            disk_over_live_peak: over_live(with(|m| m.peak.disk_bytes)),
            disk_over_live_without: over_live(without(|m| m.space.disk_bytes())),
            disk_over_live_without_peak: over_live(without(|m| m.peak.disk_bytes)),
            // Every run with a snapshot has this measurement, so the default is never used.
            disk_over_live_after_drop: over_live(with(|m| {
                m.space_after_drop.unwrap_or_default().disk_bytes()
            })),
            memory_over_none: memory_over_none(|m| m.space.memory_bytes),
            memory_over_none_peak: memory_over_none(|m| m.peak.memory_bytes),
            settings,
            rounds,
        }
    }
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scale {
            entries,
            overwrites,
            wait,
            idle,
            ..
        } = &self.settings;
        // An entry is a key and `VALUE_BYTES`: 116 bytes for every scale.
        writeln!(
            f,
            "{entries} entries of 116 bytes, one snapshot, {overwrites} random overwrites"
        )?;
        writeln!(
            f,
            "live data {}: its SSTables, freshly loaded",
            mb(self.live_bytes)
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<10}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "round", "SSTables", "log", "disk peak", "memory", "peak", "writes/s"
        )?;
        for (number, round) in (1..).zip(&self.rounds) {
            // Peaks are of the process until the same moment: the deletion of the snapshot comes later,
            // in a line of its own.
            for (name, measured) in [("with", &round.with), ("without", &round.without)] {
                let Measurement { space, peak, .. } = measured;
                write!(f, "{:<10}", format!("{number} {name}"))?;
                let columns = [
                    space.sstable_bytes,
                    space.wal_bytes,
                    peak.disk_bytes,
                    space.memory_bytes,
                    peak.memory_bytes,
                ];
                for bytes in columns {
                    write!(f, "{:>12}", mb(bytes))?;
                }
                // A run without overwrites has no rate.
                writeln!(f, "{:>12.0}", measured.overwrites_per_s.unwrap_or(0.0))?;
            }
            if let Some(space) = &round.with.space_after_drop {
                writeln!(
                    f,
                    "{:<10}{:>12}{:>12}",
                    format!("{number} dropped"),
                    mb(space.sstable_bytes),
                    mb(space.wal_bytes)
                )?;
            }
        }
        writeln!(f)?;
        let [wait, idle] = [wait, idle].map(|wait| wait.as_secs_f64());
        writeln!(
            f,
            "disk over live             {:.2} with the snapshot (peak {:.2}), {:.2} without (peak {:.2}), {wait} s after the last write",
            self.disk_over_live,
            self.disk_over_live_peak,
            self.disk_over_live_without,
            self.disk_over_live_without_peak
        )?;
        writeln!(
            f,
            "memory over none           {:.2} (peak {:.2})",
            self.memory_over_none, self.memory_over_none_peak
        )?;
        writeln!(
            f,
            "disk over live after drop  {:.2}, {idle} s after the snapshot was deleted",
            self.disk_over_live_after_drop
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::space::{Peak, Space};
    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        scale: Scale,
    }

    fn measured(sstable_bytes: u64, memory_bytes: u64, dropped_bytes: Option<u64>) -> Measurement {
        let space = |sstable_bytes| Space {
            sstable_bytes,
            wal_bytes: 10,
            memory_bytes,
        };
        Measurement {
            space: space(sstable_bytes),
            peak: Peak {
                disk_bytes: 2 * sstable_bytes,
                memory_bytes: 3 * memory_bytes,
            },
            space_after_drop: dropped_bytes.map(space),
            overwrites_per_s: None,
            write_wait_us_max: 0,
        }
    }

    #[test]
    fn ratios_use_medians_over_the_rounds() {
        let round = |with, memory, dropped| Round {
            with: measured(with, memory, Some(dropped)),
            without: measured(140, 50, None),
        };
        let rounds = vec![round(190, 60, 110), round(900, 55, 90), round(100, 10, 500)];
        let fresh = measured(100, 1, None);
        let bill = Bill::new(Cli::parse_from(["x"]).scale, &fresh, rounds);
        assert_eq!(bill.live_bytes, 100);
        assert_eq!((bill.disk_over_live, bill.disk_over_live_peak), (2.0, 3.8));
        let without = (
            bill.disk_over_live_without,
            bill.disk_over_live_without_peak,
        );
        assert_eq!(without, (1.5, 2.8));
        assert_eq!(bill.disk_over_live_after_drop, 1.2);
        assert_eq!(
            (bill.memory_over_none, bill.memory_over_none_peak),
            (1.1, 1.1)
        );
        let text = bill.to_string();
        assert!(
            text.contains("2.00 with the snapshot (peak 3.80)"),
            "{text}"
        );
        assert!(text.contains("3 dropped"), "{text}");
    }
}
