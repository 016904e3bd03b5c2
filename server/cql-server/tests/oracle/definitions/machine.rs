//! The servers of a run: one in this process, over a disk in memory that loses its power, and [one
//! in a process of its own](super::process).

use ebb_cql::protocol::{ErrorResponse, QueryParameters, Response};
use ebb_cql_server::call::{RequestAnalysis, Service as _};
use ebb_cql_server::executor::Executor;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Durability, ManualClock};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::run::BEGIN_S;
use crate::server::{Merges, answer, open};

/// A server over a database, which can be restarted or interrupted.
pub trait Machine {
    fn run(&mut self, text: &str) -> Result<Response, ErrorResponse>;

    /// Stops the server, which has no request in progress, and starts another one. If `flushes`, a
    /// server in this process first writes its memtables to files, and merges them. A server in a
    /// process of its own is killed, and ignores `flushes`.
    ///
    /// # Errors
    /// If the database does not open.
    fn restart(&mut self, flushes: bool) -> Result<(), String>;

    /// Interrupts the server at a moment within a statement's execution, and starts another one.
    /// The server loses its power or is killed. The random number `draw` determines the moment.
    ///
    /// # Errors
    /// If the database does not open.
    fn cut(&mut self, text: &str, draw: u64) -> Result<Cut, String>;
}

/// The outcome of an interrupted statement, as its client sees it.
#[derive(Debug)]
pub enum Cut {
    Accepted,
    Refused(ErrorResponse),
    /// There was no response. The statement may have been executed.
    Unanswered,
}

/// A server in this process.
pub struct Memory {
    disk: MemDisk,
    clock: ManualClock,
    executor: Option<Executor>,
}

/// The power is lost at one of the first 2^b calls of the disk, where b is random and less than
/// this number. The longest statements make about 2^8 calls.
const CALLS_BITS_MAX: u32 = 8;

impl Memory {
    /// Starts a server with an empty database.
    pub fn new() -> Self {
        let mut memory = Self {
            disk: MemDisk::new(),
            clock: ManualClock::at_ms(BEGIN_S.unsigned_abs() * 1000),
            executor: None,
        };
        memory.open().expect("an empty database opens");
        memory
    }

    fn open(&mut self) -> Result<(), String> {
        // No thread syncs the log by itself, so that a seed repeats all calls of the disk.
        let merges = Merges {
            seed: Some(0),
            fault: None,
        };
        let opened = open(&self.disk, &self.clock, merges, Durability::Os);
        self.executor = Some(opened?);
        Ok(())
    }

    fn executor(&self) -> &Executor {
        self.executor.as_ref().expect("the last opening succeeded")
    }
}

impl Machine for Memory {
    fn run(&mut self, text: &str) -> Result<Response, ErrorResponse> {
        let executor = self.executor();
        let prepared = executor.prepare(None, text, &mut RequestAnalysis::default())?;
        answer(QueryParameters::default(), |call, out| {
            executor.execute(&prepared, call, out).map(drop)
        })
    }

    fn restart(&mut self, flushes: bool) -> Result<(), String> {
        if flushes {
            let db = self.executor().catalog().db();
            let done = db.flush().and_then(|()| db.compact());
            done.map_err(|error| format!("a flush: {error}"))?;
        }
        self.executor = None;
        self.open()
    }

    fn cut(&mut self, text: &str, draw: u64) -> Result<Cut, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(draw);
        let bits = rng.random_range(0..CALLS_BITS_MAX);
        self.disk.crash_at(rng.random_range(1..=1 << bits));
        let done = self.run(text);
        let had_power = self.disk.has_power();
        // The server's threads end before the disk has power again.
        self.executor = None;
        self.disk.restart(rng.random());
        self.open()?;
        Ok(match done {
            Ok(_) => Cut::Accepted,
            Err(error) if had_power => Cut::Refused(error),
            Err(_) => Cut::Unanswered,
        })
    }
}
