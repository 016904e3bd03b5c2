//! What others did to a window: the host of a virtual machine, and other processes.
//!
//! A window that others spoiled says nothing about the jobs and is left out, by a rule
//! that is fixed before and sees neither the latencies nor who runs beside the load. It
//! goes by what the kernel counts for *others*: the time that the host took, and the CPU
//! time of processes that are not ours. The gaps in the wake-ups of a sentinel thread
//! would not do: beside jobs they depend on the jobs (a thread in the kernel is not
//! displaced at once), and alone on how deeply an idle core sleeps, so that rule would
//! leave out windows for what the jobs did. The time that the host took is not quite
//! blind either, for it takes more of a machine that is busy; so each condition says how
//! many of its windows counted.

use std::time::Instant;

use anyhow::{Context, Result};
use procfs::process::{Stat, all_processes};
use procfs::{CurrentSI, KernelStats};
use serde::Serialize;

use crate::ycsb::PF_KTHREAD;

/// The part of the machine's time that the host may take of a window that counts.
const STEAL_MAX: f64 = 0.001;
/// The part of the machine that other processes may use meanwhile. What a system does for
/// itself is about 0.005 to 0.01.
const OTHERS_MAX: f64 = 0.02;

/// What others took of the machine, as parts of it, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Disturbance {
    /// Taken by the host, to ticks of 10 ms.
    pub steal: f64,
    /// Used by other processes, to ticks of 10 ms. What the kernel does in threads of
    /// its own may be for us, and does not count.
    pub others: f64,
}

impl Disturbance {
    pub fn spoils(&self) -> bool {
        self.steal > STEAL_MAX || self.others > OTHERS_MAX
    }
}

#[derive(Debug)]
pub struct Observer {
    started: Instant,
    ticks: Ticks,
}

/// Since boot.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    steal: u64,
    others: u64,
    cores: usize,
}

impl Observer {
    pub fn start() -> Result<Self> {
        Ok(Self {
            ticks: Ticks::now()?,
            started: Instant::now(),
        })
    }

    pub fn end(self) -> Result<Disturbance> {
        let now = Ticks::now()?;
        let machine_s = self.started.elapsed().as_secs_f64() * now.cores as f64;
        let machine = machine_s * procfs::ticks_per_second() as f64;
        let part = |now: u64, before: u64| now.saturating_sub(before) as f64 / machine;
        Ok(Disturbance {
            steal: part(now.steal, self.ticks.steal),
            others: part(now.others, self.ticks.others),
        })
    }
}

impl Ticks {
    fn now() -> Result<Self> {
        let stats = KernelStats::current().context("cannot read /proc/stat")?;
        let own = std::process::id() as i32;
        let mut others = 0;
        for process in all_processes().context("cannot list /proc")? {
            // One may end between the listing and the reading.
            let Ok(stat) = process.and_then(|process| process.stat()) else {
                continue;
            };
            if is_other(own, (stat.pid, stat.ppid, stat.flags)) {
                others += used(&stat);
            }
        }
        Ok(Self {
            steal: stats.total.steal.unwrap_or(0),
            others,
            cores: stats.cpu_time.len().max(1),
        })
    }
}

/// Whether a process, by its id, its parent's and its flags, is neither `own`, nor one
/// that runs tasks for it, nor the kernel's.
fn is_other(own: i32, (pid, ppid, flags): (i32, i32, u32)) -> bool {
    pid != own && ppid != own && flags & PF_KTHREAD == 0
}

/// Also of children that have ended: their time goes over to who waited for them, so the
/// sum over all processes does not fall.
fn used(stat: &Stat) -> u64 {
    let children = stat.cutime.max(0) as u64 + stat.cstime.max(0) as u64;
    stat.utime + stat.stime + children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_left_out_by_what_others_took_alone() {
        let spoils = |steal, others| Disturbance { steal, others }.spoils();
        assert!(!spoils(0.0, 0.0) && !spoils(0.001, 0.02));
        assert!(spoils(0.0011, 0.0) && spoils(0.0, 0.021));
    }

    #[test]
    fn neither_our_processes_nor_the_kernel_s_threads_are_others() {
        let is_other = |pid, ppid, flags| is_other(7, (pid, ppid, flags));
        assert!(is_other(9, 1, 0) && is_other(1, 0, 0));
        assert!(!is_other(7, 1, 0), "this one");
        assert!(!is_other(9, 7, 0), "runs tasks for this one");
        assert!(!is_other(9, 2, PF_KTHREAD | 0x40));
    }

    #[test]
    fn what_the_kernel_tells_is_read() {
        assert!(Ticks::now().unwrap().cores >= 1);
        let disturbance = Observer::start().unwrap().end().unwrap();
        assert!(disturbance.steal >= 0.0 && disturbance.others >= 0.0);
    }
}
