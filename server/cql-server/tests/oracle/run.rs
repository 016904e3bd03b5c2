//! The execution of steps by the server and by the model.

mod answers;
mod pages;
mod purge;

use std::collections::BTreeMap;

use ebb_cql::protocol::{ErrorResponse, Response};

use self::answers::answer;
use super::counters::{self, Count, Counters};
use super::fault::Mistakes;
use super::flaw::Flaw;
use super::generate::partition_keys;
use super::index::IndexOn;
use super::model::{Model, Refused};
use super::partition::When;
use super::reading::{Cursor, Tokens};
use super::restriction::Where;
use super::schema::{Schema, create_type};
use super::select::Select;
use super::server::Server;
use super::step::{At, CursorId, Form, Request, Scope, SnapshotId, Source, Step};
use super::text::Text;
use super::write::Write;

/// The time of the clock at the start of a run, in seconds since 1970.
pub const BEGIN_S: i64 = 1_000;

/// Counts of the requests in a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// The number of INSERT, UPDATE and DELETE statements, including those in batches.
    pub writes: u64,
    /// The number of requests and pages that both the server and the model rejected.
    pub refused: u64,
    pub selects: u64,
    pub pages: u64,
    pub rows: u64,
    /// The number of pages that were read through an index.
    pub by_index: u64,
    /// The number of pages of SELECTs with GROUP BY or aggregates.
    pub grouped: u64,
    /// The number of requests with IF that were not rejected, whether or not their conditions held.
    pub conditional: u64,
    /// The number of requests with IF whose conditions held.
    pub applied: u64,
    /// The number of statements on counters.
    pub counted: u64,
    /// The number of keys that were gone after all garbage was purged.
    pub purged: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.refused += other.refused;
        self.selects += other.selects;
        self.pages += other.pages;
        self.rows += other.rows;
        self.by_index += other.by_index;
        self.grouped += other.grouped;
        self.conditional += other.conditional;
        self.applied += other.applied;
        self.counted += other.counted;
        self.purged += other.purged;
    }

    pub fn statements(&self) -> u64 {
        self.writes + self.selects
    }
}

pub struct Run {
    server: Server,
    model: Model,
    counters: Counters,
    tokens: Tokens,
    now_s: i64,
    snapshots: BTreeMap<SnapshotId, ExpectedSnapshot>,
    cursors: BTreeMap<CursorId, Open>,
    /// For each second of the clock, the greatest timestamp of its writes, in microseconds.
    used: BTreeMap<i64, i64>,
    /// CREATE TABLE, and the statements of the steps except SELECTs. Steps without a statement are
    /// comments such as `-- flush`.
    pub log: Vec<String>,
    pub counts: Counts,
}

/// A snapshot, with the contents that reads of the snapshot must always return.
struct ExpectedSnapshot {
    model: Model,
    now_s: i64,
    scope: Scope,
}

/// A SELECT that is being read page by page.
struct Open {
    text: Text,
    select: Select,
    source: Source,
    size: usize,
    cursor: Cursor,
    state: Option<Vec<u8>>,
}

type Result<T> = std::result::Result<T, String>;

impl Run {
    /// Starts a server and creates the table of the schema, empty. `seed` determines which runs the
    /// server merges. The run must detect the deliberate `mistakes`.
    pub fn new(schema: &Schema, seed: u64, mistakes: Mistakes) -> Self {
        let mut server = Server::new(BEGIN_S, seed, mistakes.merges);
        let table = schema.create_table();
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
             'replication_factor': 1}",
            &create_type().replace("TYPE ", "TYPE ks."),
            &table.replace("TABLE ", "TABLE ks."),
            "CREATE TABLE ks.probe (id int PRIMARY KEY, v int)",
            counters::CREATE,
        ] {
            let done = server.run_text(text);
            done.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let tokens = tokens(&mut server, schema);
        Self {
            server,
            model: Model::new(schema.clone(), mistakes.model),
            counters: Counters::default(),
            tokens,
            now_s: BEGIN_S,
            snapshots: BTreeMap::new(),
            cursors: BTreeMap::new(),
            used: BTreeMap::new(),
            log: vec![table],
            counts: Counts::default(),
        }
    }

    /// Executes a step, or skips the step if it is no longer possible.
    ///
    /// # Errors
    /// A description of the difference between server and model.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Write(request) => self.write(request),
            Step::Conditional(request) => self.write_if(request),
            Step::Count(count) => self.count(count),
            Step::Select(select, source, size) => {
                self.counts.selects += 1;
                let Some(mut open) = self.open(select, *source, size.unwrap_or(usize::MAX)) else {
                    return Ok(());
                };
                while self.next(&mut open)? {}
                Ok(())
            }
            Step::Open(id, select, source, size) => {
                self.counts.selects += 1;
                if let Some(open) = self.open(select, *source, *size) {
                    self.advance(*id, open)?;
                }
                Ok(())
            }
            Step::Next(id) => match self.cursors.remove(id) {
                Some(open) => self.advance(*id, open),
                None => Ok(()),
            },
            Step::Advance(seconds) => {
                self.now_s += seconds;
                self.server.advance(*seconds);
                self.log.push(format!("-- second {}", self.now_s));
                Ok(())
            }
            Step::Flush => {
                self.log.push("-- flush".to_owned());
                self.server.db().flush().map_err(|error| error.to_string())
            }
            Step::Compact => {
                self.log.push("-- merge".to_owned());
                self.server
                    .db()
                    .compact()
                    .map_err(|error| error.to_string())
            }
            Step::AlterGrace(seconds) => self.alter_grace(*seconds),
            Step::Purge => self.purge_all(),
            Step::Restart => {
                self.log.push("-- restart".to_owned());
                self.server.restart();
                self.server.wait_for_indexes();
                Ok(())
            }
            Step::Truncate => {
                self.close_live();
                self.model.partitions.clear();
                self.execute("TRUNCATE ks.t")
            }
            Step::Add(column) => {
                if self.model.schema.column(column.id).is_some() {
                    return Ok(());
                }
                self.close_live();
                self.model.schema.columns.push(column.clone());
                self.execute(&format!("ALTER TABLE ks.t ADD {}", column.definition()))
            }
            Step::Drop(id, using_us) => {
                let Some(column) = self.model.schema.column(*id).cloned() else {
                    return Ok(());
                };
                let of_column = |on: &&IndexOn| matches!(on, IndexOn::Column(of, _) if of == id);
                let indexes = self.model.schema.indexes.iter();
                for on in indexes.filter(of_column).copied().collect::<Vec<_>>() {
                    self.drop_index(on)?;
                }
                self.close_live();
                let server_us = self.next_of_server()?;
                self.model.drop_column(*id, *using_us, server_us);
                let using = using_us.map(|at| format!(" USING TIMESTAMP {at}"));
                let using = using.unwrap_or_default();
                self.execute(&format!("ALTER TABLE ks.t DROP {}{using}", column.name))
            }
            Step::CreateIndex(on) => {
                let schema = &mut self.model.schema;
                if schema.indexes.contains(on) || !IndexOn::all(schema).contains(on) {
                    return Ok(());
                }
                schema.indexes.push(*on);
                let target = on.target(schema);
                self.model.from_before = self.model.partitions.keys().cloned().collect();
                self.execute(&format!("CREATE INDEX {} ON ks.t ({target})", on.name()))?;
                self.server.wait_for_indexes();
                Ok(())
            }
            Step::DropIndex(on) => self.drop_index(*on),
            Step::CreateSnapshot(id, scope) => {
                let of = match scope {
                    Scope::Keyspace => "KEYSPACE ks",
                    Scope::Table => "TABLE ks.t",
                };
                let snapshot = ExpectedSnapshot {
                    model: self.model.clone(),
                    now_s: self.now_s,
                    scope: *scope,
                };
                self.snapshots.insert(*id, snapshot);
                self.execute(&format!("CREATE SNAPSHOT s{id} ON {of}"))
            }
            Step::DropSnapshot(id) => {
                let Some(snapshot) = self.snapshots.remove(id) else {
                    return Ok(());
                };
                self.cursors
                    .retain(|_, open| open.source.snapshot() != Some(*id));
                let of = match snapshot.scope {
                    Scope::Keyspace => "KEYSPACE ks",
                    Scope::Table => "TABLE ks.t",
                };
                self.execute(&format!("DROP SNAPSHOT s{id} ON {of}"))
            }
        }
    }

    fn drop_index(&mut self, on: IndexOn) -> Result<()> {
        if !self.model.schema.indexes.contains(&on) {
            return Ok(());
        }
        if !self.model.has(Flaw::DroppedIndexesServe) {
            self.model.schema.indexes.retain(|index| *index != on);
        }
        self.execute(&format!("DROP INDEX ks.{}", on.name()))
    }

    /// Executes a statement about the schema or a snapshot, or TRUNCATE. The server must accept it.
    fn execute(&mut self, text: &str) -> Result<()> {
        self.log.push(text.to_owned());
        let done = self.server.run_text(text);
        done.map(drop).map_err(|error| format!("{text}: {error}"))
    }

    /// Ends all unfinished reads of the live table. They cannot continue after TRUNCATE or a change
    /// of the columns.
    fn close_live(&mut self) {
        self.cursors.retain(|_, open| open.source != Source::Live);
    }
}

/// The execution of writes.
impl Run {
    fn write(&mut self, request: &Request) -> Result<()> {
        let writes = &request.writes;
        if !writes.iter().all(|write| write.fits(&self.model.schema)) {
            return Ok(());
        }
        let shared_us = match request.at {
            At::Statements => None,
            At::Batch(at) | At::Request(at) => Some(at),
            At::Server => Some(self.next_of_server()?),
        };
        let rises = self.model.has(Flaw::BatchTimestampsRise) && request.form != Form::Single;
        let mut whens = Vec::new();
        for (place, write) in (0..).zip(writes) {
            let Some(timestamp_us) = write.timestamp_us.or(shared_us) else {
                return Ok(());
            };
            whens.push(When {
                timestamp_us: timestamp_us + if rises { place } else { 0 },
                now_s: self.now_s,
            });
        }
        if !self.may_come(&whens) {
            return Ok(());
        }
        self.counts.writes += writes.len() as u64;
        let done = match self.send(request) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let both: Vec<(&Write, When)> = writes.iter().zip(whens).collect();
        let expected = self.model.execute(&both);
        self.compare_refusal(expected, done)
    }

    /// Compares the results of a request in the model (`expected`) and the server (`done`). Fails
    /// if only one of them rejected the request, or if the server's error is not one of the
    /// expected texts.
    fn compare_refusal(
        &mut self,
        expected: std::result::Result<(), Refused>,
        done: Result<()>,
    ) -> Result<()> {
        match (expected, done) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(_), Err(error)) => {
                self.counts.refused += 1;
                let expected = ["List index", "Attempted to"];
                if expected.iter().any(|begin| error.contains(begin)) {
                    Ok(())
                } else {
                    Err(format!("refused for another reason: {error}"))
                }
            }
            (Ok(()), Err(error)) => Err(format!("the server refused it: {error}")),
            (Err(_), Ok(())) => Err("the server should have refused it".to_owned()),
        }
    }

    /// Executes a request with IF, and compares the response with the model's.
    fn write_if(&mut self, request: &Request) -> Result<()> {
        let writes = &request.writes;
        if !writes.iter().all(|write| write.fits(&self.model.schema)) {
            return Ok(());
        }
        self.now_s += 1;
        self.server.advance(1);
        let when = When {
            timestamp_us: self.next_of_server()?,
            now_s: self.now_s,
        };
        if !self.may_come(&[when]) {
            return Ok(());
        }
        self.counts.writes += writes.len() as u64;
        let is_batch = request.form != Form::Single;
        let (expected, executed) = self.model.decide(writes, is_batch, self.now_s);
        let executed: Vec<(&Write, When)> = executed.into_iter().map(|one| (one, when)).collect();
        let done = self.model.execute(&executed);
        let found = match self.send(request) {
            Ok(Response::Rows(rows)) => rows,
            Ok(other) => return Err(format!("a request with IF gives {other:?}")),
            Err(error) => return self.compare_refusal(done, Err(error.to_string())),
        };
        if done.is_err() {
            return Err("the server should have refused it".to_owned());
        }
        self.counts.conditional += 1;
        self.counts.applied += u64::from(expected.applied);
        let found = answer(&self.model.schema, &expected, &found)?;
        if found == expected {
            Ok(())
        } else {
            Err(format!(
                "in second {} the answer is\n{found:?}\nand must be\n{expected:?}",
                self.now_s
            ))
        }
    }

    /// Executes a request on counters, and then compares all counters with the model.
    fn count(&mut self, count: &Count) -> Result<()> {
        let texts = count.texts();
        let plain = |text: &String| {
            let mut one = Text::new(false);
            one.push(text);
            one
        };
        self.counts.counted += texts.len() as u64;
        self.log.push(texts.join("; "));
        let done = match count.form {
            Form::Frame => {
                let texts: Vec<Text> = texts.iter().map(plain).collect();
                self.server.batch(&texts, None)
            }
            Form::Single => self.server.run(&plain(&texts[0]), None),
            Form::Text => {
                let all = format!("BEGIN COUNTER BATCH {} APPLY BATCH", texts.join("; "));
                self.server.run(&plain(&all), None)
            }
        };
        done.map_err(|error| format!("{}: {error}", texts.join("; ")))?;
        let forgets = self.model.has(Flaw::IncrementsForgetEachOther);
        self.counters.execute(count, forgets);
        let select = plain(&"SELECT k, c, s, a, b FROM ks.n".to_owned());
        let page = self.server.page(&select, None, None);
        let page = page.map_err(|error| error.to_string())?;
        let int = |cell: &Option<Vec<u8>>| {
            let bytes = cell.as_deref()?;
            let key = || {
                bytes
                    .try_into()
                    .ok()
                    .map(|one| i64::from(i32::from_be_bytes(one)))
            };
            bytes.try_into().ok().map(i64::from_be_bytes).or_else(key)
        };
        let rows = page.rows.iter().map(|row| row.iter().map(int).collect());
        let mut found: Vec<Vec<Option<i64>>> = rows.collect();
        found.sort();
        let expected = self.counters.rows();
        if found == expected {
            Ok(())
        } else {
            Err(format!(
                "counters are\n{found:?}\nand must be\n{expected:?}"
            ))
        }
    }

    /// Executes a write to another table, and returns its timestamp plus one: the next timestamp
    /// that the server will assign.
    fn next_of_server(&mut self) -> Result<i64> {
        let text = |error: ErrorResponse| error.to_string();
        (self
            .server
            .run_text("INSERT INTO ks.probe (id, v) VALUES (0, 0)"))
        .map_err(text)?;
        let mut select = Text::new(false);
        select.push("SELECT writetime(v) FROM ks.probe WHERE id = 0");
        let page = self.server.page(&select, None, None).map_err(text)?;
        let bytes = page.rows[0][0]
            .as_deref()
            .and_then(|bytes| bytes.try_into().ok());
        let last = i64::from_be_bytes(bytes.ok_or("no writetime")?);
        if last >= self.now_s * 1_000_000 {
            Ok(last + 1)
        } else {
            Err(format!("a timestamp {last} in second {}", self.now_s))
        }
    }

    /// Returns whether the effect of writes with these timestamps is defined, and notes the
    /// timestamps if so.
    ///
    /// A deletion may be purged once gc_grace has passed since it was written. A later write with
    /// an older timestamp would then no longer be hidden. So a timestamp must be above all
    /// timestamps that were used gc_grace ago or earlier.
    fn may_come(&mut self, whens: &[When]) -> bool {
        let grace_s = self.now_s - self.model.schema.gc_grace_s;
        let too_old = self.used.range(..=grace_s).map(|(_, at)| *at).max();
        if whens.iter().any(|when| Some(when.timestamp_us) <= too_old) {
            return false;
        }
        for when in whens {
            let used = self.used.entry(self.now_s).or_insert(when.timestamp_us);
            *used = when.timestamp_us.max(*used);
        }
        true
    }

    fn send(&mut self, request: &Request) -> std::result::Result<Response, ErrorResponse> {
        let schema = &self.model.schema;
        let beside = match request.at {
            At::Request(at) => Some(at),
            _ => None,
        };
        let log = |text: &Text| match beside {
            Some(at) => format!("{} -- at {at}", inline(text)),
            None => inline(text),
        };
        match request.form {
            Form::Single | Form::Text => {
                let mut text = Text::new(request.binds);
                if request.form == Form::Text {
                    text.push("BEGIN UNLOGGED BATCH ");
                    if let At::Batch(at) = request.at {
                        text.push(&format!("USING TIMESTAMP {at} "));
                    }
                }
                for write in &request.writes {
                    write.write(schema, &mut text);
                    if request.form == Form::Text {
                        text.push("; ");
                    }
                }
                if request.form == Form::Text {
                    text.push("APPLY BATCH");
                }
                self.log.push(log(&text));
                self.server.run(&text, beside)
            }
            Form::Frame => {
                let one = |write: &Write| {
                    let mut text = Text::new(request.binds);
                    write.write(schema, &mut text);
                    text
                };
                let texts: Vec<Text> = request.writes.iter().map(one).collect();
                self.log.push("-- a batch of:".to_owned());
                self.log.extend(texts.iter().map(log));
                self.server.batch(&texts, beside)
            }
        }
    }
}

/// Returns the text of a statement, followed by the bytes of its bound values if it has any.
fn inline(text: &Text) -> String {
    if text.bound.is_empty() {
        text.text.clone()
    } else {
        format!("{} -- {:02x?}", text.text, text.bound)
    }
}

/// Cassandra's tokens of keys of one int, from its own `token()`.
const KNOWN: [(i32, i64); 4] = [
    (0, -3_485_513_579_396_041_028),
    (1, -4_069_959_284_402_364_209),
    (2, -3_248_873_570_005_575_792),
    (3, 9_010_454_139_840_013_625),
];

/// Returns the tokens of all partition keys, from the server. Leaves the table empty.
///
/// # Panics
/// If the token of a key of one column differs from Cassandra's.
fn tokens(server: &mut Server, schema: &Schema) -> Tokens {
    let names = schema.partition_names().join(", ");
    let mut tokens = Tokens::new();
    for key in partition_keys(schema) {
        let values: Vec<String> = key.iter().map(ToString::to_string).collect();
        let rest: String = (schema.clustering_names().iter())
            .map(|name| format!(", {name}"))
            .collect();
        let zeros = ", 0".repeat(schema.clustering.len());
        let values = values.join(", ");
        let insert = format!("INSERT INTO ks.t ({names}{rest}) VALUES ({values}{zeros})");
        server.run_text(&insert).expect("it is written");
        let mut select = Text::new(false);
        select.push(&format!("SELECT token({names}) FROM ks.t"));
        Where::partition(&key).write(schema, &mut select);
        let page = server.page(&select, None, None).expect("it is read");
        let bytes = page.rows[0][0]
            .as_deref()
            .and_then(|bytes| bytes.try_into().ok());
        let token = i64::from_be_bytes(bytes.expect("a token"));
        if let [one] = key[..] {
            let known = KNOWN.iter().find(|(key, _)| *key == one);
            assert_eq!(known, Some(&(one, token)), "the token of {one}");
        }
        tokens.insert(key, token);
    }
    server.run_text("TRUNCATE ks.t").expect("it is emptied");
    tokens
}
