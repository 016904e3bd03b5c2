//! Redis as a child process, and `redis-benchmark` as its client.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use procfs::process::Process;

use crate::ycsb::cql::ServerProcess;

/// The timeout for the first response of Redis.
const START_MAX: Duration = Duration::from_secs(10);

/// A Redis server. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    port: u16,
    pub process: ServerProcess,
}

/// The results of a run of `redis-benchmark`.
#[derive(Debug, Clone, Copy)]
pub struct RedisRun {
    pub ops_per_s: f64,
    /// CPU time of `redis-benchmark` for a request, in microseconds.
    pub client_cpu_us: f64,
    /// CPU time of Redis for a request, in microseconds.
    pub server_cpu_us: f64,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Redis {
    /// Starts Redis with an append-only file that is synced each second. Returns `None` if Redis is
    /// not installed.
    pub fn start(folder: &Path) -> Result<Option<Self>> {
        std::fs::create_dir_all(folder)?;
        // Redis does not report a port that the system chose, so a free one is found first.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let args = "--bind 127.0.0.1 --appendonly yes --appendfsync everysec --port";
        let spawned = Command::new("redis-server")
            .args(args.split(' '))
            .arg(port.to_string())
            .args(["--save", "", "--dir"])
            .arg(folder)
            .stdout(Stdio::null())
            .spawn();
        let child = match spawned {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            spawned => spawned.context("cannot start redis-server")?,
        };
        let redis = Self {
            process: ServerProcess::new(child.id())?,
            child,
            port,
        };
        let started = Instant::now();
        while redis.ping().is_err() {
            ensure!(
                started.elapsed() < START_MAX,
                "redis-server does not answer"
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(Some(redis))
    }

    fn connect(&self) -> Result<TcpStream> {
        Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?)
    }

    fn ping(&self) -> Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        ensure!(&answer == b"+PONG\r\n", "redis-server answered {answer:?}");
        Ok(())
    }

    /// Sets all keys that `redis-benchmark` will read.
    pub fn load(&self, records: u64, value_bytes: usize) -> Result<()> {
        const TOGETHER: u64 = 100;
        let mut stream = self.connect()?;
        let value = "x".repeat(value_bytes);
        for from in (0..records).step_by(TOGETHER as usize) {
            let numbers = from..records.min(from + TOGETHER);
            let mut answers = vec![0; 5 * (numbers.end - numbers.start) as usize];
            let commands: String = numbers
                .map(|number| {
                    format!(
                        "*3\r\n$3\r\nSET\r\n$16\r\nkey:{number:012}\r\n${value_bytes}\r\n{value}\r\n"
                    )
                })
                .collect();
            stream.write_all(commands.as_bytes())?;
            stream.read_exact(&mut answers)?;
            ensure!(
                answers.starts_with(b"+OK\r\n"),
                "redis-server refused a key"
            );
        }
        Ok(())
    }

    /// Runs `redis-benchmark`: `requests` of `test` (`get` or `set`) over random keys, with one
    /// request under way on each connection.
    pub fn run(
        &self,
        test: &str,
        requests: u64,
        records: u64,
        value_bytes: usize,
        connections: usize,
    ) -> Result<RedisRun> {
        let children = || -> Result<f64> {
            let stat = Process::myself()?.stat()?;
            Ok((stat.cutime + stat.cstime) as f64 / procfs::ticks_per_second() as f64)
        };
        let (own_before, before) = (children()?, self.process.usage()?);
        let output = Command::new("redis-benchmark")
            .args(["-P", "1", "--csv", "-t", test])
            .args(["-p", &self.port.to_string(), "-c", &connections.to_string()])
            .args(["-n", &requests.to_string(), "-r", &records.to_string()])
            .args(["-d", &value_bytes.to_string()])
            .output()
            .context("cannot start redis-benchmark")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(ops_per_s) = requests_per_s(&text) else {
            bail!("redis-benchmark printed {text:?}");
        };
        let us = |seconds: f64| seconds * 1e6 / requests as f64;
        Ok(RedisRun {
            ops_per_s,
            client_cpu_us: us(children()? - own_before),
            server_cpu_us: us(self.process.usage()?.since(&before).cpu_s()),
        })
    }
}

/// Returns the second column of the last line: `"GET","90909.09",...`.
fn requests_per_s(csv: &str) -> Option<f64> {
    let line = csv.lines().last()?;
    let column = line.split(',').nth(1)?;
    column.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_second_column() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"90909.09\",\"0.4\"\n";
        assert_eq!(requests_per_s(csv), Some(90909.09));
        assert_eq!(requests_per_s("\"test\",\"rps\"\n"), None);
        assert_eq!(requests_per_s(""), None);
    }
}
