//! Sessions, and the groups that the kernel schedules by.
//!
//! With `sched_autogroup` the kernel first divides a core among sessions. A thread of the idle
//! class then yields only to threads of its own session, and takes half of a core from those of
//! another session.

use std::fmt;
use std::fs;

use procfs::process::Process;
use serde::Serialize;

use super::server_process::ServerProcess;

/// Whether this process and the server are in the same groups of the kernel's scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Sessions {
    /// Whether the kernel schedules by session (`kernel.sched_autogroup_enabled`); `None` if the
    /// kernel has no such setting.
    pub sched_autogroup: Option<bool>,
    /// Whether this process and the server are in one session of the operating system; `None` if
    /// the server's process is not known.
    pub same_session: Option<bool>,
    /// Whether this process and the server are in one group of `sched_autogroup`; `None` if that
    /// is not known.
    pub same_autogroup: Option<bool>,
    /// Whether this process and the server are in one cgroup; `None` if that is not known.
    pub same_cgroup: Option<bool>,
}

impl Sessions {
    pub(crate) fn of(server: Option<&ServerProcess>) -> Self {
        let setting = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
        let session = |pid: i32| Some(Process::new(pid).ok()?.stat().ok()?.session);
        let own = std::process::id() as i32;
        let pid = server.map(ServerProcess::pid);
        let same = |file: &str| {
            let read = |pid: i32| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
            Some(read(own)? == read(pid?)?)
        };
        Self {
            sched_autogroup: setting.ok().map(|setting| setting.trim() == "1"),
            same_session: pid.and_then(|pid| Some(session(own)? == session(pid)?)),
            same_autogroup: same("autogroup"),
            same_cgroup: same("cgroup"),
        }
    }
}

impl fmt::Display for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let autogroup = match self.sched_autogroup {
            None => "absent",
            Some(true) => "on",
            Some(false) => "off",
        };
        let same = |same: Option<bool>| match same {
            None => "unknown",
            Some(true) => "the server's",
            Some(false) => "another than the server's",
        };
        write!(
            f,
            "sched_autogroup {autogroup}; the client's session is {}, its autogroup {}, its cgroup {}",
            same(self.same_session),
            same(self.same_autogroup),
            same(self.same_cgroup)
        )
    }
}
