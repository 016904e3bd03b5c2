//! Records a trace of the kernel, where root has tracefs.
//!
//! It is recorded in an instance of its own, which has its own buffers and switches: what
//! somebody else traces meanwhile is not touched. The instance goes with the [`Tracer`].

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs::process::all_processes;

use super::event::{Tid, Trace};

/// Where tracefs is mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Of each core, in KiB: some seconds of a busy load are 20 MB.
const BUFFER_KB: &str = "65536";
/// Events of all threads ...
const EVENTS: [&str; 4] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_migrate_task",
];
/// ... and of threads with our names.
const OWN_EVENTS: [&str; 3] = [
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
    "exceptions/page_fault_user",
];
const OWN_NAMES: &str = "COMM ~ \"ebb-*\" || COMM ~ \"ycsb-*\"";
/// In the flags of a process: it is a thread of the kernel.
const PF_KTHREAD: u32 = 0x0020_0000;

/// An instance of the kernel's tracer.
#[derive(Debug)]
pub struct Tracer(PathBuf);

impl Tracer {
    /// Makes one, which does not record yet.
    ///
    /// # Errors
    /// Where there is no tracefs, or this user may not use it.
    pub fn new() -> io::Result<Self> {
        let instances = MOUNTS.map(|mount| Path::new(mount).join("instances"));
        let found = instances.into_iter().find(|it| it.is_dir());
        let none = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "tracefs is not mounted, or not for this user",
            )
        };
        let folder = found.ok_or_else(none)?;
        let folder = folder.join(format!("ebb-waits-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let tracer = Self(folder);
        tracer.write("tracing_on", "0")?;
        tracer.write("buffer_size_kb", BUFFER_KB)?;
        // The clock of the load's times.
        tracer.write("trace_clock", "mono")?;
        for event in OWN_EVENTS {
            tracer.write(&format!("events/{event}/filter"), OWN_NAMES)?;
        }
        for event in EVENTS.iter().chain(&OWN_EVENTS) {
            tracer.write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(tracer)
    }

    /// Forgets what was recorded, and records from now on ...
    ///
    /// # Errors
    /// What the kernel says.
    pub fn start(&self) -> io::Result<()> {
        self.write("trace", "")?;
        self.write("tracing_on", "1")
    }

    /// ... until now.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn stop(&self) -> io::Result<()> {
        self.write("tracing_on", "0")
    }

    /// What was recorded.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self) -> io::Result<Trace> {
        let text = fs::read(self.0.join("trace"))?;
        let mut trace = Trace::parse(&String::from_utf8_lossy(&text));
        for core in fs::read_dir(self.0.join("per_cpu"))? {
            let stats = fs::read_to_string(core?.path().join("stats"))?;
            trace.lost += lost(&stats);
        }
        Ok(trace)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.0.join(name), text)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // An instance goes when its directory does, whatever is in it.
        let _ = self.stop();
        let _ = fs::remove_dir(&self.0);
    }
}

/// Events that one core had no room for.
fn lost(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    let lost = lines.filter(|(name, _)| ["overrun", "dropped events"].contains(name));
    lost.filter_map(|(_, number)| number.trim().parse::<u64>().ok())
        .sum()
}

/// The threads of the kernel.
pub fn kernel_threads() -> HashSet<Tid> {
    let Ok(processes) = all_processes() else {
        return HashSet::new();
    };
    processes
        .filter_map(|process| process.ok()?.stat().ok())
        .filter(|stat| stat.flags & PF_KTHREAD != 0)
        .map(|stat| stat.pid.unsigned_abs())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_room_are_counted() {
        let stats = "entries: 539\noverrun: 7\ncommit overrun: 0\nbytes: 24544\n\
                     dropped events: 2\nread events: 0\n";
        assert_eq!(lost(stats), 9);
        assert_eq!(lost(""), 0);
    }

    /// Where the kernel lets us.
    #[test]
    #[ignore = "nightly: as root it traces the whole machine"]
    fn a_trace_shows_this_thread_go_to_sleep_and_is_gone_afterwards() {
        let Ok(tracer) = Tracer::new() else {
            return;
        };
        let folder = tracer.0.clone();
        tracer.start().unwrap();
        std::thread::park_timeout(std::time::Duration::from_millis(5));
        tracer.stop().unwrap();
        let own = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        let trace = tracer.read().unwrap();
        let slept = |event: &super::super::event::Event| matches!(event.what, super::super::event::What::Switch { from, is_runnable: false, .. } if from == own);
        assert!(
            trace.events.iter().any(slept),
            "{} events",
            trace.events.len()
        );
        drop(tracer);
        assert!(!folder.exists());
    }
}
