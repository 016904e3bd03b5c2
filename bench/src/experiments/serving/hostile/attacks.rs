//! The attacks of hostile and half-broken clients. Each uses one connection or a few.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use ebb_cql::client::set_stream;
use ebb_cql::protocol::{Opcode, QueryParameters, Request, Value, ValuesBuf};
use rand::RngExt as _;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::attacker::{Attacker, answer, encoded};
use crate::ycsb::cql::enter_idle_class;

/// The longest pause of a thread after an attack that it made or skipped. Pauses are drawn uniformly
/// up to this.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// A length that is larger than any request may have.
const HUGE: u32 = 0x7fff_ffff;
/// The largest length of a request that a server accepts by default.
const LARGE: u32 = 16 << 20;
/// The flag of a frame whose body is compressed.
const COMPRESSED: u8 = 1;

/// A kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Bytes that are no frame.
    Garbage,
    /// Frames with any opcode, flags and body.
    GarbageFrames,
    /// A request with a byte changed.
    Mutated,
    /// The beginning of a frame, then the end of the connection.
    HalfFrame,
    /// Frames that are sent one byte at a time, with long pauses.
    SlowLoris,
    /// Frames whose length is too large, and frames of the largest length that are never completed.
    HugeLength,
    /// Many connections at once that send nothing.
    Storm,
    /// Connections that are closed in the middle of a response.
    AbruptClose,
    /// Requests for many rows. The client never reads the responses.
    Deaf,
    /// Statements with thousands of nested expressions.
    Deep,
    /// Many different statements to prepare.
    PreparedFlood,
    /// Logins with a wrong password, half of them also with a name that does not exist.
    WrongLogin,
    /// Requests before the login.
    NoLogin,
    /// Small compressed frames that would be large when decompressed, or claim to be.
    Bomb,
    /// Texts that are not UTF-8.
    NotUtf8,
    /// TLS handshakes that stop half-way.
    CutHandshake,
    /// Requests with a count of items, or a length, that does not match what follows.
    WrongCounts,
    /// Several scans of a whole table at once on one connection.
    Scans,
}

/// Attacks until `is_over`, and returns the number of attacks by name. The thread draws each attack
/// from all kinds, and skips it if its kind is not in `only`: so a kind has about the same
/// frequency alone as among the others.
///
/// # Errors
/// When the system does not grant the idle class.
pub(super) fn run(
    mut attacker: Attacker<'_>,
    only: &[Attack],
    is_over: &AtomicBool,
) -> Result<BTreeMap<&'static str, u64>> {
    // The server can do nothing about the CPU that the attackers themselves use.
    enter_idle_class()?;
    let mut done = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        let all = Attack::value_variants();
        let attack = all[attacker.rng.random_range(0..all.len())];
        if only.contains(&attack) {
            // The server may close the connection at any point.
            drop(attack.begin(&mut attacker));
            *done.entry(attack.name()).or_default() += 1;
        }
        let until = Instant::now() + attacker.rng.random_range(Duration::ZERO..PAUSE_MAX);
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !left.is_zero()
        {
            std::thread::park_timeout(left);
        }
    }
    Ok(done)
}

impl Attack {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::GarbageFrames => "garbage frames",
            Self::Mutated => "mutated requests",
            Self::HalfFrame => "half frames",
            Self::SlowLoris => "slow loris",
            Self::HugeLength => "huge lengths",
            Self::Storm => "connection storms",
            Self::AbruptClose => "abrupt closes",
            Self::Deaf => "deaf readers",
            Self::Deep => "deep nesting",
            Self::PreparedFlood => "prepared floods",
            Self::WrongLogin => "wrong logins",
            Self::NoLogin => "requests without login",
            Self::Bomb => "compressed bombs",
            Self::NotUtf8 => "invalid UTF-8",
            Self::CutHandshake => "cut TLS handshakes",
            Self::WrongCounts => "wrong counts",
            Self::Scans => "scans",
        }
    }

    /// Attacks once.
    ///
    /// # Errors
    /// When the connection fails: the server may close it at any point.
    fn begin(self, by: &mut Attacker<'_>) -> io::Result<()> {
        match self {
            Self::Garbage => {
                let bytes = by.bytes(4096);
                by.connect()?.write_all(&bytes)
            }
            Self::GarbageFrames => {
                // After the login: requests before it are an attack of their own, `NoLogin`.
                let mut stream = by.logged_in(None)?;
                for _ in 0..4 {
                    let (body, opcode, flags) = (by.bytes(512), by.rng.random(), by.rng.random());
                    stream.write_all(&frame(flags, opcode, body.len() as u32, &body))?;
                }
                answer(&mut stream)
            }
            Self::Mutated => {
                let mut stream = by.logged_in(None)?;
                for _ in 0..8 {
                    let mut request = select(EVERYTHING, 10);
                    // Only the body changes, which follows a header of nine bytes: a frame with
                    // another length would be a half frame, and other headers are garbage frames.
                    let at = by.rng.random_range(9..request.len());
                    request[at] = by.rng.random();
                    stream.write_all(&request)?;
                    answer(&mut stream)?;
                }
                Ok(())
            }
            Self::HalfFrame => {
                let request = select(EVERYTHING, 10);
                let mut stream = by.logged_in(None)?;
                let end = by.rng.random_range(1..request.len());
                stream.write_all(&request[..end])
            }
            Self::SlowLoris => {
                // One more byte for the oldest connection that any attack keeps open. A frame begins
                // with this byte, the version of the protocol.
                let mut stream = match by.oldest() {
                    Some(stream) => stream,
                    None => by.connect()?,
                };
                stream.write_all(&[4])?;
                by.hold(stream);
                Ok(())
            }
            Self::HugeLength => {
                // The first length is allowed, so its body may take memory; the second one is not.
                let mut stream = by.logged_in(None)?;
                stream.write_all(&frame(0, Opcode::Query as u8, LARGE, &[0; 64 << 10]))?;
                by.hold(stream);
                let mut stream = by.logged_in(None)?;
                stream.write_all(&frame(0, Opcode::Query as u8, HUGE, &[]))?;
                answer(&mut stream)
            }
            Self::Storm => {
                let all: io::Result<Vec<TcpStream>> = (0..50).map(|_| by.connect()).collect();
                all.map(drop)
            }
            Self::AbruptClose => {
                let mut stream = by.logged_in(None)?;
                stream.write_all(&select(EVERYTHING, 1000))?;
                // Closing a socket with unread data resets the connection.
                stream.read_exact(&mut [0; 100])
            }
            Self::Deaf => {
                let mut stream = by.logged_in(None)?;
                // Requests that are under way at once need different streams.
                for number in 0..20 {
                    let mut request = select(EVERYTHING, 1000);
                    set_stream(&mut request, number);
                    stream.write_all(&request)?;
                }
                by.hold(stream);
                Ok(())
            }
            Self::Deep => {
                let mut stream = by.logged_in(None)?;
                // Some of these texts are no statements, which shows only behind the nesting. Few depths
                // are below the 100 levels that the parser accepts, and most are far above.
                let depth = by.rng.random_range(1..20_000);
                for (before, open, close, after) in [
                    ("INSERT INTO ycsb.usertable (y_id) VALUES (", "[", "]", ")"),
                    ("SELECT ", "(int)", "y_id", " FROM ycsb.usertable"),
                    (
                        "CREATE TABLE ycsb.deep (k int PRIMARY KEY, v ",
                        "frozen<list<",
                        "",
                        ")",
                    ),
                    ("SELECT * FROM ycsb.usertable WHERE y_id = ", "f(", "1", ""),
                    (
                        "SELECT * FROM ycsb.usertable WHERE y_id = 1 ",
                        "+ 1",
                        "",
                        "",
                    ),
                ] {
                    let text = format!("{before}{}{close}{after}", open.repeat(depth));
                    stream.write_all(&select(&text, 10))?;
                    answer(&mut stream)?;
                }
                Ok(())
            }
            Self::PreparedFlood => {
                let mut stream = by.logged_in(None)?;
                for _ in 0..20 {
                    let number: u64 = by.rng.random();
                    let text = format!("SELECT * FROM ycsb.usertable WHERE y_id = '{number}'");
                    stream.write_all(&encoded(&Request::Prepare {
                        text: &text,
                        keyspace: None,
                    }))?;
                }
                (0..20).try_for_each(|_| answer(&mut stream))
            }
            Self::WrongLogin => {
                let mut stream = by.started(None)?;
                // The role exists in one half of the logins, and only the password is wrong.
                let number: u32 = by.rng.random();
                let name = if by.rng.random() {
                    by.target.name.clone()
                } else {
                    format!("nobody{number}")
                };
                // SASL's PLAIN: an empty identity, the name and the password, each after a zero byte.
                let token = format!("\0{name}\0{number}");
                let token = Some(token.as_bytes());
                stream.write_all(&encoded(&Request::AuthResponse { token }))?;
                answer(&mut stream)
            }
            Self::NoLogin => {
                let mut stream = by.started(None)?;
                stream.write_all(&select(EVERYTHING, 10))?;
                answer(&mut stream)?;
                // Some tokens are longer than the 16 KiB that the server accepts before the login.
                let token = by.bytes(20_000);
                let token = Some(&token[..]);
                stream.write_all(&encoded(&Request::AuthResponse { token }))?;
                answer(&mut stream)
            }
            Self::Bomb => {
                let mut stream = by.logged_in(Some("lz4"))?;
                // A length of four bytes precedes the block, which is one long match of zeros: in LZ4
                // each further byte 0xff adds 255 to the length of a match. `HUGE` is a lie, and
                // `LARGE - 1` little more than the 15 MB of the match.
                let claimed: u32 = if by.rng.random() { HUGE } else { LARGE - 1 };
                let mut body = claimed.to_be_bytes().to_vec();
                body.extend([0x1f, 0, 1, 0]);
                body.extend([0xff; 60_000]);
                // The 0 ends the length of the match. 0x50 precedes the five literals that LZ4
                // requires at the end of a block.
                body.extend([0, 0x50, 0, 0, 0, 0, 0]);
                stream.write_all(&frame(
                    COMPRESSED,
                    Opcode::Query as u8,
                    body.len() as u32,
                    &body,
                ))?;
                answer(&mut stream)
            }
            Self::NotUtf8 => {
                let mut stream = by.logged_in(None)?;
                let mut request = select("SELECT * FROM ycsb.usertable WHERE y_id = 'aaaa'", 10);
                // The last 20 bytes are `y_id = 'aaaa'`, and 7 bytes of parameters: the name of the
                // column becomes invalid.
                let at = request.len() - 20;
                request[at..at + 4].copy_from_slice(&[0xff, 0xc0, 0x80, 0xfe]);
                stream.write_all(&request)?;
                answer(&mut stream)?;
                let mut values = ValuesBuf::new();
                values.push(Value::Bytes(&[0xc3, 0x28]));
                let parameters = QueryParameters {
                    values: values.as_values(),
                    ..QueryParameters::default()
                };
                let text = "SELECT * FROM ycsb.usertable WHERE y_id = ?";
                stream.write_all(&encoded(&Request::Query { text, parameters }))?;
                answer(&mut stream)
            }
            Self::CutHandshake => {
                let mut stream = by.connect()?;
                let name = ServerName::from(by.target.address.ip());
                let client = ClientConnection::new(Arc::clone(&by.target.tls), name);
                let mut client = client.map_err(io::Error::other)?;
                let mut hello = Vec::new();
                client.write_tls(&mut hello)?;
                let end = if by.rng.random() {
                    hello.len()
                } else {
                    by.rng.random_range(1..hello.len())
                };
                stream.write_all(&hello[..end])?;
                if end < hello.len() {
                    by.hold(stream);
                    return Ok(());
                }
                // Once the header of a record has arrived, the server has computed its key share, and waits
                // for the client's next message.
                stream.read_exact(&mut [0; 5])
            }
            Self::WrongCounts => {
                let mut stream = by.logged_in(None)?;
                let count: u16 = by.rng.random();
                let [high, low] = count.to_be_bytes();
                // The bodies are written by hand: the client encodes only counts that are right.
                // In BATCH the count of statements is wrong, in EXECUTE the length of the id.
                let batch = [0, high, low, 0, 0, 0, 0, 1, b'x', 0xff, 0xff];
                let execute = [high, low, 1, 2, 3, 4];
                // In QUERY the count of values is wrong; page size and paging state are missing.
                let query = [
                    0, 0, 0, 1, b'x', 0, 1, 0x0d, high, low, 0, 0, 0, 4, 1, 2, 3, 4,
                ];
                for (opcode, body) in [
                    (Opcode::Batch, &batch[..]),
                    (Opcode::Execute, &execute),
                    (Opcode::Query, &query),
                ] {
                    stream.write_all(&frame(0, opcode as u8, body.len() as u32, body))?;
                    answer(&mut stream)?;
                }
                Ok(())
            }
            Self::Scans => {
                let mut stream = by.logged_in(None)?;
                for text in [
                    "SELECT count(*) FROM ycsb.usertable",
                    "SELECT * FROM ycsb.usertable WHERE field0 = 0x00 ALLOW FILTERING",
                ] {
                    stream.write_all(&select(text, 5000))?;
                }
                (0..2).try_for_each(|_| answer(&mut stream))
            }
        }
    }
}

const EVERYTHING: &str = "SELECT * FROM ycsb.usertable";

/// Encodes a query with this page size.
fn select(text: &str, page_size_rows: u32) -> Vec<u8> {
    let parameters = QueryParameters {
        page_size_rows: Some(page_size_rows),
        ..QueryParameters::default()
    };
    encoded(&Request::Query { text, parameters }).to_vec()
}

/// Builds a frame of stream 0 whose header claims `length`, which may differ from the body's.
fn frame(flags: u8, opcode: u8, length: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![4, flags, 0, 0, opcode];
    frame.extend(length.to_be_bytes());
    frame.extend(body);
    frame
}
