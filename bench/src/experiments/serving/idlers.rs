//! Threads of the idle class in a process of their own, which have nothing to do with the server.
//!
//! They show how much of a longer tail is due to the machine. Any program that takes the CPU that the
//! load leaves has at least the effect of threads that count. Threads that write to much memory also
//! take caches from the load, as some programs do. The process is a child of the experiment, so it is
//! in the session of the server, and no window counts as spoiled by it.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::ycsb::cql::enter_idle_class;

/// The number of threads for each core: two, so that one runs even while the kernel moves the other
/// one to another core.
const THREADS_PER_CORE: usize = 2;
/// The memory of each thread that walks over memory: more than the caches of a core.
pub const MEMORY_BYTES: usize = 64 << 20;
/// The number of words in a cache line of 64 bytes.
const LINE_WORDS: usize = 8;
/// The line that the process prints once all of its threads are in the idle class.
const RUNNING: &str = "running";

/// The work that the threads of the idle class repeat without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IdleWork {
    /// Increments a counter: uses CPU, but of memory only one cache line
    Count,
    /// Writes to each cache line of 64 MiB, again and again
    Memory,
}

/// A process with threads of the idle class.
#[derive(Debug, Args)]
pub struct IdlersArgs {
    /// Work of each thread
    #[arg(value_enum)]
    work: IdleWork,
    /// Number of threads
    threads: usize,
}

/// Starts the threads, and keeps them at work until the standard input ends.
///
/// # Errors
/// When the system refuses a thread or the idle class.
pub fn run_idlers(args: &IdlersArgs) -> Result<()> {
    let (sender, entered) = channel();
    for _ in 0..args.threads {
        let (work, sender) = (args.work, sender.clone());
        // It ends with the process.
        thread::Builder::new().spawn(move || {
            // Before the thread is in the idle class, where this could take for ever.
            let mut memory = work.memory();
            let class = enter_idle_class();
            let is_idle = class.is_ok();
            // The receiver is gone if another thread has failed.
            drop(sender.send(class));
            if is_idle {
                loop {
                    pass(&mut memory);
                }
            }
        })?;
    }
    for class in entered.iter().take(args.threads) {
        class?;
    }
    let mut out = io::stdout();
    writeln!(out, "{RUNNING}")?;
    out.flush()?;
    // The input also ends if the experiment is killed.
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}

impl IdleWork {
    /// Returns the memory to which a thread writes; a single cache line for [`Self::Count`].
    fn memory(self) -> Vec<u64> {
        let bytes = match self {
            Self::Count => LINE_WORDS * size_of::<u64>(),
            Self::Memory => MEMORY_BYTES,
        };
        // Not zero: the system backs pages of zeros only when they are written to.
        vec![1; bytes / size_of::<u64>()]
    }
}

/// Adds one to a word of each cache line.
fn pass(memory: &mut [u64]) {
    for line in memory.chunks_mut(LINE_WORDS) {
        line[0] = black_box(line[0].wrapping_add(1));
    }
}

/// The process with the threads of the idle class. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Idlers(Child);

impl Drop for Idlers {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Idlers {
    /// Returns the number of the process's threads in the idle class: two for each core.
    pub fn threads() -> usize {
        THREADS_PER_CORE * thread::available_parallelism().map_or(1, usize::from)
    }

    /// Starts the process. When this returns, all its threads that do `work` are in the idle class.
    pub fn start(work: IdleWork) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program again")?;
        let name = work.to_possible_value().context("the work has a name")?;
        let child = Command::new(own)
            .args(["experiments", "serving-idlers", name.get_name()])
            .arg(Self::threads().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut idlers = Self(child.context("cannot start threads of the idle class")?);
        let output = idlers.0.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(
            line.trim() == RUNNING,
            "the process with threads of the idle class has ended"
        );
        Ok(idlers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_writes_to_each_cache_line() {
        for (work, lines) in [(IdleWork::Count, 1), (IdleWork::Memory, MEMORY_BYTES / 64)] {
            let mut memory = work.memory();
            pass(&mut memory);
            let written = memory.iter().filter(|word| **word == 2).count();
            assert_eq!(written, lines, "{work:?}");
        }
    }
}
