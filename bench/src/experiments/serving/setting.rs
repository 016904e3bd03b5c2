//! The setting of all parts: the options, the server's binary, a directory and the user's interrupt.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::args::ServingArgs;
use super::server::{Account, Server, loaded};
use super::window::{Window, Windows};
use crate::console::progress_bar;
use crate::ycsb::cql::RawClient;

/// The seed from which the order of windows is drawn.
const SEED: u64 = 0xebb;

pub struct Setting<'a> {
    pub args: &'a ServingArgs,
    pub binary: PathBuf,
    /// A directory for databases and files.
    pub folder: &'a Path,
    /// Becomes true when the user interrupts the run.
    pub stop: Arc<AtomicBool>,
}

impl Setting<'_> {
    /// Returns an error if the user has interrupted the run.
    pub fn check_interrupt(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// Starts `ebb serve` with a database of this name, and with `more` arguments.
    pub fn start(&self, name: &str, more: &[String]) -> Result<Server> {
        Server::start(&self.binary, &self.folder.join(name), more)
    }

    /// Connects a client to the server, with the credentials of `account` if given, and loads the
    /// records. The numbers of connections and records are those of the command line.
    pub fn client(&self, server: &Server, account: Option<&Account>) -> Result<RawClient> {
        loaded(server, account, self.args.connections, self.args)
    }

    /// Measures one window under each condition (such as the load alone) per round, in an order
    /// that is drawn for each round. `play` measures a window under the condition with the given
    /// index.
    pub fn in_turns<M>(
        &self,
        part: &str,
        conditions: usize,
        mut play: impl FnMut(usize) -> Result<Window<M>>,
    ) -> Result<Windows<M>> {
        let mut windows = Windows::new(conditions);
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let bar = progress_bar(format!("serving: {part}"), u64::from(self.args.windows));
        for _ in 0..self.args.windows {
            let mut turns: Vec<usize> = (0..conditions).collect();
            turns.shuffle(&mut rng);
            for turn in turns {
                self.check_interrupt()?;
                windows.push(turn, play(turn)?);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(windows)
    }
}
