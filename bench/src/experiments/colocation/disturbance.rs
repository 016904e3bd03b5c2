//! Disturbance of a window by the host of a virtual machine, or by other processes.
//!
//! A disturbed window is no evidence about the jobs, so it is excluded. The rule is fixed
//! beforehand, and does not depend on latencies or on the condition. It uses the kernel's counters
//! for *others*: time that the host took, and CPU time of processes that are not ours. A sentinel
//! thread that measures gaps in its wake-ups would not do. With jobs, the gaps depend on the jobs,
//! because a thread in the kernel is not preempted at once. Without jobs, the gaps depend on how
//! deeply idle cores sleep. Such a rule would exclude windows because of the jobs. The host's time
//! is not quite independent either: a host takes more from a busy machine. So results have the
//! number of windows that counted, by condition.

use std::time::Instant;

use anyhow::{Context, Result};
use procfs::process::{Stat, all_processes};
use procfs::{CurrentSI, KernelStats};
use serde::Serialize;

use crate::ycsb::PF_KTHREAD;

/// The largest fraction of the machine's time that the host may take during a window. A window in
/// which the host takes more counts as disturbed.
const STEAL_MAX: f64 = 0.001;
/// The largest fraction of the machine that other processes may use during a window. A window in
/// which they use more counts as disturbed. The system's own processes use about 0.005 to 0.01.
const OTHERS_MAX: f64 = 0.02;

/// The fractions of the machine (0 to 1) that were not available to load and jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Disturbance {
    /// The fraction of the machine's time (0 to 1) that the host took, counted in ticks of 10 ms.
    pub steal: f64,
    /// The fraction of the machine's time (0 to 1) that other processes used, counted in ticks of
    /// 10 ms. Kernel threads do not count, because they may work for this process.
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

/// CPU times since boot, in clock ticks over all cores: the time that the host took, and the time
/// of other processes.
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
            // A process may end between the listing and the reading.
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

/// Returns whether a process (its id, its parent's id, its flags) is neither `own`, nor a child of
/// `own` (such as a process that runs tasks), nor a kernel thread.
fn is_other(own: i32, (pid, ppid, flags): (i32, i32, u32)) -> bool {
    pid != own && ppid != own && flags & PF_KTHREAD == 0
}

/// Returns the CPU time, in clock ticks, of a process together with its ended children. Children
/// are included because their time moves to their parent, so that the sum over all processes never
/// falls.
fn used(stat: &Stat) -> u64 {
    let children = stat.cutime.max(0) as u64 + stat.cstime.max(0) as u64;
    stat.utime + stat.stime + children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_of_others_spoils_a_window() {
        let spoils = |steal, others| Disturbance { steal, others }.spoils();
        assert!(!spoils(0.0, 0.0) && !spoils(0.001, 0.02));
        assert!(spoils(0.0011, 0.0) && spoils(0.0, 0.021));
    }

    #[test]
    fn own_processes_and_kernel_threads_are_not_others() {
        let is_other = |pid, ppid, flags| is_other(7, (pid, ppid, flags));
        assert!(is_other(9, 1, 0) && is_other(1, 0, 0));
        assert!(!is_other(7, 1, 0), "this one");
        assert!(!is_other(9, 7, 0), "runs tasks for this one");
        assert!(!is_other(9, 2, PF_KTHREAD | 0x40));
    }

    #[test]
    fn the_kernel_s_counters_are_read() {
        assert!(Ticks::now().unwrap().cores >= 1);
        let disturbance = Observer::start().unwrap().end().unwrap();
        assert!(disturbance.steal >= 0.0 && disturbance.others >= 0.0);
    }
}
