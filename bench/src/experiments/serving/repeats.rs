//! Reads beside work that is repeated, such as backups: their tail with this work and without.
//!
//! In other windows the load runs beside [threads of the idle class](super::idlers) that only
//! count. Work that uses all the CPU that the load leaves cannot be better than these.

use std::sync::atomic::Ordering;

use anyhow::Result;
use serde::Serialize;

use super::idlers::{IdleWork, Idlers};
use super::setting::Setting;
use super::steady::{MeasuredLoad, SteadyLoad};
use super::window::{ALONE, Window};
use crate::experiments::colocation::bootstrap::Estimate;
use crate::threads::beside;
use crate::ycsb::cql::{RawClient, enter_idle_class};

/// The index, among the compared conditions, of the load beside the repeated work. Before it comes
/// the load alone, twice.
const REPEATS: usize = ALONE.len();
/// The index of the load beside threads that only increment a counter.
const COUNTING: usize = REPEATS + 1;

#[derive(Debug, Clone, Serialize)]
pub struct BesideRepeats {
    /// The measured load. Only its reads are compared.
    #[serde(flatten)]
    pub load: MeasuredLoad,
    /// The ratio of the p99 of reads beside the repeated work to that alone.
    pub beside: Estimate,
    /// The ratio of the p99 of reads beside threads of the idle class that only count to that
    /// alone.
    pub counting: Estimate,
}

impl BesideRepeats {
    /// Measures windows of the load. In those beside repeated work, another thread calls `repeat`
    /// again and again. Returns also the number of its calls, all of which have returned.
    ///
    /// # Errors
    /// When the server fails or returns a wrong value, `repeat` fails, or the user interrupts the
    /// run.
    pub fn measure(
        part: &str,
        setting: &Setting<'_>,
        load: &SteadyLoad,
        client: &mut RawClient,
        mut repeat: impl FnMut() -> Result<()> + Send,
    ) -> Result<(Self, u64)> {
        let mut completed = 0;
        let windows = setting.in_turns(part, COUNTING + 1, |turn| {
            let mut run = || Window::of_reads(client, &load.plan);
            match turn {
                REPEATS => {
                    let (window, repeats) = beside(run, |is_over| {
                        // The load must not wait for what the client does, such as removing the
                        // files that the server wrote.
                        enter_idle_class()?;
                        let mut repeats = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            repeat()?;
                            repeats += 1;
                        }
                        Ok(repeats)
                    })?;
                    completed += repeats;
                    Ok(window)
                }
                COUNTING => {
                    let _idlers = Idlers::start(IdleWork::Count)?;
                    run()
                }
                // The load alone, twice.
                _ => run(),
            }
        })?;
        let measured = Self {
            load: load.measured(&windows),
            beside: windows.p99(REPEATS, &ALONE),
            counting: windows.p99(COUNTING, &ALONE),
        };
        Ok((measured, completed))
    }
}
