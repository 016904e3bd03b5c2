//! The demo's side of the client's process: sends orders, and collects the client's reports.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::{LoadPace, LoadReport, Message, Order};
use crate::ycsb::Interval;
use crate::ycsb::cql::ServerProcess;

/// The process of a client. It is killed when this value is dropped.
#[derive(Debug)]
pub(in crate::demo) struct LoadProcess {
    child: Child,
    process: ServerProcess,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    input: Mutex<ChildStdin>,
    state: Mutex<OrderState>,
    /// Wakes the threads that wait for a change of `state`.
    more: Condvar,
}

/// The progress of the order that the client process is executing, from the process's messages.
#[derive(Debug, Default)]
struct OrderState {
    loaded: u64,
    timeline: Vec<Interval>,
    ended: Option<Result<Option<LoadReport>, String>>,
    is_gone: bool,
}

pub(in crate::demo) struct ProcessRun {
    shared: Arc<Shared>,
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl LoadProcess {
    /// Starts this program again with `args` and the address of the server. With these arguments
    /// the program has to call [`run_client`](super::run_client).
    ///
    /// # Errors
    /// When the system starts no process or no thread.
    pub fn spawn(args: &[&str], address: SocketAddr) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program again")?;
        let address = address.to_string();
        let args = args.iter().copied().chain([&*address]).map(OsStr::new);
        let mut child = Command::new(own)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the load's client")?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = child.stdout.take().context("its output is piped")?;
        let shared = Arc::new(Shared {
            input: Mutex::new(input),
            state: Mutex::default(),
            more: Condvar::new(),
        });
        let receiver = Arc::clone(&shared);
        thread::Builder::new()
            .name("ebb-demo-load".to_owned())
            .spawn(move || {
                for line in BufReader::new(output).lines() {
                    let message = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                    let Some(message) = message else {
                        break;
                    };
                    receiver.receive(message);
                }
                receiver.lock().is_gone = true;
                receiver.more.notify_all();
            })?;
        Ok(Self {
            process: ServerProcess::new(child.id())?,
            child,
            shared,
        })
    }

    /// Loads records until the table has `records` records. Calls `progress` with the number loaded
    /// so far.
    ///
    /// # Errors
    /// When the server or the process fails.
    pub fn load(&self, records: u64, progress: impl Fn(u64)) -> Result<()> {
        self.shared.order(Order::Load { records })?;
        let mut state = self.shared.lock();
        while state.ended.is_none() && !state.is_gone {
            progress(state.loaded);
            state = (self.shared.more.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        state.take_end().map(drop)
    }

    /// Returns the CPU time that the process has used, in seconds, in steps of 10 ms (the kernel's
    /// tick).
    ///
    /// # Errors
    /// When the process has ended.
    pub fn cpu_s(&self) -> Result<f64> {
        Ok(self.process.usage()?.cpu_s())
    }

    /// Starts a run. The run before it must have ended: a process has one run at a time.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn start(&self, pace: LoadPace, length: Option<Duration>) -> Result<ProcessRun> {
        let seconds = length.map(|length| length.as_secs_f64());
        self.shared.order(Order::Run { pace, seconds })?;
        Ok(ProcessRun {
            shared: Arc::clone(&self.shared),
        })
    }
}

impl Shared {
    fn order(&self, order: Order) -> Result<()> {
        if order != Order::Stop {
            let mut state = self.lock();
            *state = OrderState {
                is_gone: state.is_gone,
                ..OrderState::default()
            };
        }
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = serde_json::to_string(&order)?;
        line.push('\n');
        (input.write_all(line.as_bytes()))
            .and_then(|()| input.flush())
            .context("the load's client has ended")
    }

    fn receive(&self, message: Message) {
        let mut state = self.lock();
        match message {
            Message::Loaded(records) => state.loaded = records,
            Message::Interval(interval) => state.timeline.push(interval),
            Message::Ended(report) => state.ended = Some(Ok(report)),
            Message::Failed(cause) => state.ended = Some(Err(cause)),
        }
        drop(state);
        self.more.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, OrderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrderState {
    fn take_end(&mut self) -> Result<Option<LoadReport>> {
        match self.ended.take() {
            Some(Ok(report)) => Ok(report),
            Some(Err(cause)) => Err(anyhow!("the load failed: {cause}")),
            None => bail!("the load's client has ended"),
        }
    }
}

impl ProcessRun {
    pub fn latest(&self) -> Option<Interval> {
        self.shared.lock().timeline.last().copied()
    }

    pub fn has_ended(&self) -> bool {
        let state = self.shared.lock();
        state.ended.is_some() || state.is_gone
    }

    pub fn stop(&self) {
        // If the client has ended, `join` returns that as an error.
        let _ = self.shared.order(Order::Stop);
    }

    pub fn join(self) -> Result<LoadReport> {
        let state = self.shared.lock();
        let goes_on = |state: &mut OrderState| state.ended.is_none() && !state.is_gone;
        let waited = self.shared.more.wait_while(state, goes_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let report = state.take_end()?;
        let report = report.context("the load's client ran nothing")?;
        Ok(LoadReport {
            timeline: std::mem::take(&mut state.timeline),
            ..report
        })
    }
}
