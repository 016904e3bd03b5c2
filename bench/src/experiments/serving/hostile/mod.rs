//! A well-behaved client beside hostile and half-broken ones: its tail latency compared with that
//! of the same load alone, the server's memory, and whether anything panics.
//!
//! ```text
//!   mod        windows alone and beside attackers in turns; the limits for the server
//!   attacker     one thread of attackers
//!   attacks        each kind of attack
//! ```
//!
//! Attackers log in as the client does, from addresses of their own. They run in the idle class,
//! because the server can do nothing about the CPU that they use themselves.

mod attacker;
mod attacks;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum as _;
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use self::attacker::{Attacker, Target};
use self::attacks::Attack;
use super::certificate::Certificate;
use super::report::PartResult;
use super::setting::Setting;
use super::steady::SteadyLoad;
use super::window::{ALONE, Beside, ServerUse, Window, Windows};
use crate::console::progress_bar;
use crate::experiments::colocation::disturbance::Observer;
use crate::threads::value_of;
use crate::ycsb::cql::{Plan, RawClient};

/// The number of threads of attackers. Each thread attacks at most about a hundred times a second.
const ATTACKERS: u8 = 8;
/// The most memory that attacks may add to the server's: 352 MiB of results that wait for their
/// readers, twice 64 MiB for prepared statements (tables and allocators leave some unused), and 100
/// MiB for incomplete requests of 800 connections. The rest is for the table in the block cache and
/// in memtables (some 200 MB with the default number of records), for responses under construction
/// and for memory that the allocator keeps.
const GROWTH_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Clone, Serialize)]
pub struct HostileClients {
    pub seed: u64,
    /// The peak rate: operations per second of a closed loop.
    pub peak_ops_per_s: f64,
    /// Operations per second of the load: half of the peak, unless a rate was given.
    pub rate_ops_per_s: f64,
    /// The p99 of the load alone, in microseconds.
    pub p99_us: f64,
    /// A second measurement of the load alone, compared with the first: the differences are noise.
    pub alone_again: Beside,
    /// The measurement of the load beside attackers that perform all kinds of attacks.
    pub hostile: Beside,
    /// For each kind of attack, by its name: the measurement of the load beside attackers that
    /// perform only this kind. Empty unless `--each-attack` is given.
    pub each: BTreeMap<&'static str, Beside>,
    /// The number of attacks of each kind, by the name of the kind, in all windows together.
    pub attacks: BTreeMap<&'static str, u64>,
    /// Total duration of the windows with attackers, in seconds.
    pub attacked_s: f64,
    /// The server's resident memory before any attack, in bytes.
    pub before_bytes: u64,
    /// The largest resident memory of the server at the end of a window, in bytes.
    pub most_bytes: u64,
    /// The server's resident memory after all windows, in bytes.
    pub after_bytes: u64,
}

impl PartResult for HostileClients {
    fn lines(&self) -> Vec<String> {
        let mib = |bytes: u64| bytes >> 20;
        let attacks: u64 = self.attacks.values().sum();
        let kinds = self.attacks.iter();
        let kinds: Vec<String> = kinds
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let mut lines = vec![
            format!(
                "beside hostile clients (seed {}), open loop at {:.0} ops/s (peak {:.0}): p99 \
                 alone {:.0} us",
                self.seed, self.rate_ops_per_s, self.peak_ops_per_s, self.p99_us
            ),
            format!("  alone again: {}", self.alone_again),
            format!("  beside all of them: {}", self.hostile),
        ];
        let each = self.each.iter();
        lines.extend(each.map(|(name, beside)| format!("  beside {name}: {beside}")));
        lines.push(format!(
            "  {attacks} attacks in {:.0} s: {}",
            self.attacked_s,
            kinds.join(", ")
        ));
        lines.push(format!(
            "  memory: {} MiB before, {} MiB at most, {} MiB in the end; nothing panicked",
            mib(self.before_bytes),
            mib(self.most_bytes),
            mib(self.after_bytes)
        ));
        lines
    }
}

/// A condition under which the load is measured: the attacks that take place beside it.
#[derive(Debug, Clone, Copy)]
struct Condition {
    name: &'static str,
    /// The kinds of attacks; empty for the load alone.
    attacks: &'static [Attack],
}

/// Returns the conditions to compare: the load alone, the load alone again (which shows the noise),
/// the load beside all kinds of attacks and, if `each`, the load beside each single kind.
fn conditions(each: bool) -> Vec<Condition> {
    let condition = |name, attacks| Condition { name, attacks };
    let mut all = vec![
        condition("alone", &[]),
        condition("alone again", &[]),
        condition("all", Attack::value_variants()),
    ];
    if each {
        let kinds = Attack::value_variants().chunks(1);
        all.extend(kinds.map(|kind| condition(kind[0].name(), kind)));
    }
    all
}

/// Measures the latencies of the load while hostile clients attack a new server.
///
/// # Errors
/// When the server fails, takes too much memory, panics, returns a wrong value or accepts no client
/// in the end, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<HostileClients> {
    let args = setting.args;
    let seed = args.seed.unwrap_or_else(|| rand::rng().random());
    eprintln!("serving: hostile: seed {seed}");
    let data = setting.folder.join("hostile");
    let certificate = Certificate::make(setting.folder)?;
    let server = setting.start("hostile", &certificate.arguments())?;
    let account = server.superuser()?;
    let mut client = setting.client(&server, Some(&account))?;
    // The flushes and merges of the loading belong to no window.
    server.settle()?;
    let SteadyLoad {
        peak_ops_per_s,
        rate_ops_per_s,
        plan,
    } = SteadyLoad::find(args, &mut client)?;
    let plan = Plan {
        // Attackers may overload the server, which then rejects requests of the client too. These are
        // counted, and do not end the run.
        takes_refusals: true,
        // Attackers must not make requests of the client time out.
        takes_timeouts: false,
        ..plan
    };
    let target = Target {
        address: server.address,
        name: account.name.clone(),
        password: account.password.clone(),
        tls: certificate.trust.clone(),
    };
    let before_bytes = server.process.memory_bytes()?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let conditions = conditions(args.each_attack);
    let mut windows = Windows::new(conditions.len());
    let mut attacks = BTreeMap::new();
    let (mut attacked, mut most_bytes) = (Duration::ZERO, before_bytes);
    let bar = progress_bar("serving: hostile", u64::from(args.windows));
    // Not `Setting::in_turns`: the seed of the part also decides on the order of windows, and log and
    // memory are checked after each round, so that a failure ends the run early.
    for _ in 0..args.windows {
        let mut turns: Vec<usize> = (0..conditions.len()).collect();
        turns.shuffle(&mut rng);
        for turn in turns {
            setting.check_interrupt()?;
            let only = conditions[turn].attacks;
            let observer = Observer::start()?;
            let cpu_s = server.process.usage()?.cpu_s();
            let began = Instant::now();
            // Reads the usage while the attackers still attack: their end is no part of the window.
            let mut run = || {
                let tally = client.run(&plan, |_| ())?;
                let server_use = ServerUse {
                    cpu_s: server.process.usage()?.cpu_s() - cpu_s,
                    memory_bytes: server.process.memory_bytes()?,
                };
                anyhow::Ok((tally, server_use))
            };
            let (tally, server_use) = match only {
                [] => run()?,
                only => {
                    let (ran, done) = beside_attackers(&target, only, rng.random(), run)?;
                    attacked += began.elapsed();
                    for (name, count) in done {
                        *attacks.entry(name).or_default() += count;
                    }
                    ran
                }
            };
            let disturbance = observer.end()?;
            most_bytes = most_bytes.max(server_use.memory_bytes);
            let window = Window::new(&plan, &tally, &tally.all(), disturbance, server_use)?;
            windows.push(turn, window);
        }
        check_log(&data)?;
        let grown = most_bytes.saturating_sub(before_bytes);
        ensure!(
            grown <= GROWTH_BYTES_MAX,
            "attackers made the server take {} MiB more",
            grown >> 20
        );
        bar.inc(1);
    }
    bar.finish_and_clear();
    // The server still accepts a new client.
    let last = RawClient::connect(server.address, Some(&account), 1, 1)?;
    ensure!(last.records() >= args.records, "records are missing");
    let after_bytes = server.process.memory_bytes()?;
    drop((client, last));
    server.stop()?;
    // The stop may have panicked, too.
    check_log(&data)?;
    let [p99_us] = windows.alone_us([0.99]);
    let beside = |condition| windows.beside(condition, &ALONE);
    // The first three conditions are alone, alone again, and all attacks.
    let each = (conditions.iter().enumerate().skip(3)).map(|(at, it)| (it.name, beside(at)));
    Ok(HostileClients {
        seed,
        peak_ops_per_s,
        rate_ops_per_s,
        p99_us,
        alone_again: windows.beside(1, &[0]),
        hostile: beside(2),
        each: each.collect(),
        attacks,
        attacked_s: attacked.as_secs_f64(),
        before_bytes,
        most_bytes,
        after_bytes,
    })
}

/// Calls `run` while attackers perform attacks of the kinds `only`. Returns the result of `run`, and
/// the number of attacks of each kind, by its name.
fn beside_attackers<T>(
    target: &Target,
    only: &[Attack],
    seed: u64,
    run: impl FnOnce() -> Result<T>,
) -> Result<(T, BTreeMap<&'static str, u64>)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let attack = move |number| attacks::run(Attacker::new(target, seed, number), only, is_over);
        let spawn = |number| scope.spawn(move || attack(number));
        let attackers: Vec<_> = (0..ATTACKERS).map(spawn).collect();
        let ran = run();
        is_over.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for attacker in attackers {
            for (name, count) in value_of(attacker.join())? {
                *all.entry(name).or_default() += count;
            }
        }
        Ok((ran?, all))
    })
}

/// Checks that the log of the server has no panic.
fn check_log(data: &Path) -> Result<()> {
    let log = fs::read_to_string(data.with_extension("err"))?;
    match log.find("panicked") {
        None => Ok(()),
        Some(at) => {
            let begin = log[..at].rfind('\n').map_or(0, |end| end + 1);
            let panic: String = log[begin..].chars().take(2000).collect();
            Err(anyhow!("the server panicked: {panic}"))
        }
    }
}
