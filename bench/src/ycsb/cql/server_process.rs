//! The server's process: how it is found, and its usage.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use procfs::net::TcpState;
use procfs::process::{ClearRefs, FDTarget, Process, all_processes};
use serde::Serialize;

use crate::threads::pause;

#[derive(Debug)]
pub(crate) struct ServerProcess(Process);

/// The CPU time of a server since its start, or between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ServerUsage {
    /// CPU time in user mode, in seconds, exact to a tick of the kernel (10 ms).
    pub cpu_user_s: f64,
    /// CPU time in kernel mode, in seconds, exact to a tick of the kernel (10 ms).
    pub cpu_system_s: f64,
}

impl ServerUsage {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            cpu_user_s: self.cpu_user_s - before.cpu_user_s,
            cpu_system_s: self.cpu_system_s - before.cpu_system_s,
        }
    }

    /// Returns user and system time, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }
}

impl ServerProcess {
    pub(crate) fn new(pid: u32) -> Result<Self> {
        let process = Process::new(pid as i32);
        Ok(Self(
            process.with_context(|| format!("there is no process {pid}"))?,
        ))
    }

    /// Returns the process on this machine that listens on `address`, or with its port on all
    /// addresses. `None` if there is none, or if it belongs to another user.
    pub(crate) fn listening_on(address: SocketAddr) -> Option<Self> {
        let listening = [procfs::net::tcp(), procfs::net::tcp6()];
        let entries = listening.into_iter().flatten().flatten();
        let inode = entries
            .filter(|entry| entry.state == TcpState::Listen)
            .find(|entry| {
                let local = entry.local_address;
                local.port() == address.port()
                    && (local.ip() == address.ip() || local.ip().is_unspecified())
            })?
            .inode;
        let owns = |process: &Process| {
            let descriptors = process.fd().ok()?;
            let mut targets = descriptors.flatten().map(|descriptor| descriptor.target);
            targets.find(|target| matches!(target, FDTarget::Socket(it) if *it == inode))
        };
        let mut processes = all_processes().ok()?.flatten();
        processes.find(|process| owns(process).is_some()).map(Self)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.pid
    }

    pub(crate) fn usage(&self) -> Result<ServerUsage> {
        let stat = self.0.stat().context("the server's process is gone")?;
        let ticks_per_s = procfs::ticks_per_second() as f64;
        Ok(ServerUsage {
            cpu_user_s: stat.utime as f64 / ticks_per_s,
            cpu_system_s: stat.stime as f64 / ticks_per_s,
        })
    }

    /// Returns the CPU time of each thread whose name begins with `prefix`, by the thread's id. These times
    /// are exact, unlike those of [`usage`](Self::usage), which are counted in ticks.
    pub(crate) fn threads_cpu(&self, prefix: &str) -> Result<BTreeMap<i32, Duration>> {
        let threads = self.0.tasks().context("the server's process is gone")?;
        // A thread may end between the listing and the reading.
        let cpu = threads.flatten().filter_map(|thread| {
            let is_named = thread.stat().ok()?.comm.starts_with(prefix);
            let cpu_ns = thread.schedstat().ok()?.sum_exec_runtime;
            is_named.then(|| (thread.tid, Duration::from_nanos(cpu_ns)))
        });
        Ok(cpu.collect())
    }

    pub(crate) fn open_files(&self) -> Result<u64> {
        let count = self.0.fd_count().context("the server's process is gone")?;
        Ok(count as u64)
    }

    /// Returns the resident memory of the process, in bytes.
    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let status = self.0.status().context("the server's process is gone")?;
        let kib = status.vmrss.context("the server's process has ended")?;
        Ok(kib * 1024)
    }

    /// Returns the peak of the process's resident memory (VmHWM), in bytes, since its start or
    /// since [`reset_memory_peak`](Self::reset_memory_peak).
    pub(crate) fn memory_peak_bytes(&self) -> Result<u64> {
        let status = self.0.status().context("the server's process is gone")?;
        let kib = status.vmhwm.context("the server's process has ended")?;
        Ok(kib * 1024)
    }

    /// Resets the peak of [`memory_peak_bytes`](Self::memory_peak_bytes).
    pub(crate) fn reset_memory_peak(&self) -> Result<()> {
        let reset = self.0.clear_refs(ClearRefs::PeakRSS);
        reset.context("cannot reset the peak of the server's memory (/proc/PID/clear_refs)")
    }

    /// Waits until the process hardly uses CPU time any more, which shows that its background work
    /// is done. Returns false if that did not happen within `patience`.
    pub(crate) fn settle(&self, patience: Duration) -> Result<bool> {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        /// The most CPU time that an idle server uses between two measurements, half a second
        /// apart. It is not 0, because the server's governor keeps sampling the load.
        const QUIET_CPU_S: f64 = 0.025;
        let mut left = patience;
        let mut before = self.usage()?;
        while left >= LOOK_EVERY {
            pause(LOOK_EVERY);
            left -= LOOK_EVERY;
            let now = self.usage()?;
            if now.since(&before).cpu_s() <= QUIET_CPU_S {
                return Ok(true);
            }
            before = now;
        }
        Ok(false)
    }
}
