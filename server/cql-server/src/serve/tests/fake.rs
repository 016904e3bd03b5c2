//! A service for tests, whose statements only have effects on time, memory and connections.

use std::sync::Condvar;

use ebb_cql::protocol::prepared_id;
use ebb_threads::{SchedulingClass, current_class};

use super::*;
use crate::call::{
    Administration, Call, Outcome, RequestAnalysis, RowWrite, StatementKind, WriteKind,
};

/// A service for tests. The first word of a statement names its effect: `scan` waits at a gate, for
/// example.
#[derive(Default)]
pub(super) struct Fake {
    /// The gate at which scans, stalled writes, and statements whose analysis takes long wait while
    /// it is closed.
    pub(super) gate: Gate,
    pub(super) cancelled: Count,
    /// The number of statements with the verb `hold` whose parsing has begun. Their parsing waits
    /// until a test opens `gate`.
    pub(super) parsed_holds: Count,
    /// The number of statements whose execution has begun, in all lanes but [`Lane::Inline`].
    pub(super) executed: Count,
    /// True if writes are acknowledged after a sync.
    pub(super) waits_for_sync: bool,
    /// The gate for syncs, which wait while it is closed.
    pub(super) sync_gate: Gate,
    /// The number of syncs that have begun.
    pub(super) syncs_begun: Count,
    /// The number of syncs that have ended.
    pub(super) syncs: Count,
    pub(super) sync_fails: AtomicBool,
    /// The number of coming executions of conditional writes that the service ends with a conflict.
    pub(super) conflicts: AtomicUsize,
    /// True after a statement with the verb `alter`. From then on, prepared statements whose text
    /// contains `outdated` have to be prepared again.
    pub(super) has_altered: AtomicBool,
    /// The server's callback for schema changes that no statement causes.
    pub(super) notify: Mutex<Option<SchemaCallback>>,
    /// The authentication of clients; `None` if they do not have to log in.
    pub(super) login: Option<Login>,
}

/// Returns a service that acknowledges writes after a sync.
pub(super) fn synced() -> Fake {
    Fake {
        waits_for_sync: true,
        ..Fake::default()
    }
}

/// A count that several threads raise.
#[derive(Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

type SchemaCallback = Box<dyn Fn(SchemaChange) + Send + Sync>;

#[derive(Default)]
pub(super) struct Gate(Mutex<bool>, Condvar);

impl Gate {
    pub(super) fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    /// Waits until the gate is open or `is_over` returns true, and returns whether it is open.
    pub(super) fn wait(&self, mut is_over: impl FnMut() -> bool) -> bool {
        let mut is_open = self.0.lock().unwrap();
        while !*is_open && !is_over() {
            is_open = (self.1.wait_timeout(is_open, Duration::from_millis(5)))
                .unwrap()
                .0;
        }
        *is_open
    }
}

pub(super) struct FakeStatement {
    pub(super) text: String,
    pub(super) columns: Columns,
    /// True if the statement was analysed after a change of the schema. Such a change gives the
    /// markers of statements whose text contains `marked` other types.
    pub(super) is_of_altered: bool,
}

impl Statement for FakeStatement {
    fn kind(&self) -> StatementKind {
        let lane = match self.text.split(' ').next() {
            Some("scan" | "panic") => Lane::Scan,
            Some("range" | "starve" | "occupy") => Lane::Range,
            Some("alter") => Lane::Schema,
            Some("put" | "stall" | "explode" | "swap" | "compute-put" | "linger") => Lane::Write,
            _ => Lane::Inline,
        };
        let write_type = if self.text.starts_with("swap") {
            WriteType::Cas
        } else {
            WriteType::Simple
        };
        StatementKind { lane, write_type }
    }

    fn administration(&self) -> Option<Administration<'_>> {
        (self.kind().lane == Lane::Schema).then(Administration::default)
    }

    fn may_be_in_batch(&self) -> bool {
        self.kind().lane == Lane::Write
    }

    fn writes(&self) -> Vec<RowWrite<'_>> {
        let write = RowWrite {
            kind: WriteKind::Update,
            keyspace: "fake",
            table: &self.text,
        };
        (self.kind().lane == Lane::Write)
            .then_some(write)
            .into_iter()
            .collect()
    }

    fn needs_keyspace(&self) -> bool {
        self.text.contains("unqualified")
    }

    fn markers(&self) -> (&Columns, &[u16]) {
        (&self.columns, &[])
    }

    fn columns(&self) -> Option<&Columns> {
        None
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn size_bytes(&self) -> usize {
        self.text.len()
    }
}

impl Service for Fake {
    type Statement = FakeStatement;

    fn prepare(
        &self,
        _: Option<&str>,
        text: &str,
        _: &mut RequestAnalysis,
    ) -> Result<FakeStatement, ErrorResponse> {
        if text.starts_with("nonsense") {
            return Err(ErrorResponse::syntax("line 1:0 no viable alternative"));
        }
        if text.starts_with("analyse") {
            interrupt::charge(u64::MAX)?;
        }
        // The analysis of this statement never ends on a thread that serves connections.
        if text.ends_with("study") {
            while std::thread::current().name() != Some("cql-large") {
                interrupt::charge(1)?;
            }
            self.gate.wait(|| false);
        }
        // On a thread that serves connections, the analysis of this statement takes all the time that
        // it may.
        if text.starts_with("linger") {
            let thread = std::thread::current();
            let is_shared = !matches!(thread.name(), Some("cql-large" | "cql-moved"));
            while is_shared && interrupt::charge(1).is_ok() {}
        }
        if text.starts_with("hold") {
            self.parsed_holds.add(1);
            self.gate.wait(|| false);
        }
        if text.starts_with("stumble") {
            panic!("asked to");
        }
        Ok(FakeStatement {
            text: text.to_owned(),
            columns: Columns::default(),
            is_of_altered: self.has_altered.load(Ordering::SeqCst),
        })
    }

    fn is_current(&self, statement: &FakeStatement) -> bool {
        // The analysis of this statement never ends by itself.
        if statement.text.contains("endless") {
            while interrupt::charge(1).is_ok() {}
            return false;
        }
        !(statement.text.contains("outdated") && self.has_altered.load(Ordering::SeqCst))
    }

    fn execute(
        &self,
        statement: &FakeStatement,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome, ErrorResponse> {
        let mut outcome = Outcome::default();
        let (verb, rest) = statement
            .text
            .split_once(' ')
            .unwrap_or((&statement.text, ""));
        if statement.kind().lane != Lane::Inline {
            self.executed.add(1);
        }
        match verb {
            // Several words for one effect, because the first word of a statement chooses its lane, too
            // (see `kind`).
            "panic" | "explode" | "crash" => {
                out.extend_from_slice(b"half a body");
                panic!("asked to");
            }
            "swap" => {
                let one_less = |left: usize| left.checked_sub(1);
                let left =
                    (self.conflicts).fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                if left.is_ok() {
                    outcome.is_in_conflict = true;
                    return Ok(outcome);
                }
            }
            "stall" | "occupy" => {
                self.gate.wait(|| call.interrupt.is_cancelled());
            }
            "fail" => {
                out.extend_from_slice(b"half a body");
                return Err(ErrorResponse::invalid(rest));
            }
            "compute" | "compute-put" if std::thread::current().name() != Some("cql-moved") => {
                // The statement never ends by itself here. Once it has computed for too long, it moves
                // to a thread `cql-moved`, where it succeeds at once.
                let time_out = statement.kind().time_out(Consistency::One);
                let compute = || -> Result<Outcome, ErrorResponse> {
                    loop {
                        interrupt::charge(1)?;
                    }
                };
                return interrupt::scope(call.interrupt, time_out, compute);
            }
            "starve" => {
                // The statement makes progress only outside of the idle class.
                let time_out = statement.kind().time_out(Consistency::One);
                let starve = || -> Result<(), ErrorResponse> {
                    while current_class() != SchedulingClass::Normal {
                        interrupt::charge(u64::MAX)?;
                    }
                    Ok(())
                };
                interrupt::scope(call.interrupt, time_out, starve)?;
            }
            "spin" => {
                // About 0.2 ms of CPU time.
                for number in 0..100_000 {
                    std::hint::black_box(number);
                }
            }
            "warn" => outcome.warnings.push(rest.into()),
            "use" => outcome.keyspace = Some(rest.into()),
            "scan" => {
                let was_open = self.gate.wait(|| call.interrupt.is_cancelled());
                self.cancelled.add(usize::from(!was_open));
                if let Ok(bytes) = rest.parse::<usize>() {
                    append_long(bytes, out);
                    return Ok(outcome);
                }
            }
            "read" => {
                if let Ok(bytes) = rest.parse::<usize>() {
                    append_long(bytes, out);
                    return Ok(outcome);
                }
            }
            "alter" => {
                if rest == "slowly" {
                    self.gate.wait(|| call.interrupt.is_cancelled());
                }
                self.has_altered.store(true, Ordering::SeqCst);
                call.changes.add([SchemaChange {
                    kind: SchemaChangeKind::Updated,
                    keyspace: rest.into(),
                    target: SchemaTarget::Keyspace,
                }]);
                match rest {
                    "failing" => return Err(ErrorResponse::server("asked to")),
                    "panicking" => panic!("asked to"),
                    _ => {}
                }
            }
            _ => {}
        }
        let has_altered = self.has_altered.load(Ordering::SeqCst);
        if statement.text.contains("marked") && statement.is_of_altered != has_altered {
            let id = prepared_id(None, &statement.text);
            return Err(ErrorResponse::unprepared(&id));
        }
        // The response contains the keyspace in use, or the name of the thread.
        let thread = std::thread::current();
        match (verb, call.keyspace, thread.name()) {
            ("which", Some(name), _) | ("thread" | "linger", _, Some(name)) => {
                let keyspace = name.into();
                Response::SetKeyspace { keyspace }.encode_body(out);
            }
            _ => Response::Void.encode_body(out),
        }
        Ok(outcome)
    }

    fn batch(
        &self,
        _: BatchKind,
        statements: &[(Arc<FakeStatement>, Values<'_>)],
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome, ErrorResponse> {
        match statements.first() {
            Some((statement, _)) => self.execute(statement, call, out),
            None => {
                Response::Void.encode_body(out);
                Ok(Outcome::default())
            }
        }
    }

    fn turns(
        &self,
        statements: &[(Arc<FakeStatement>, Values<'_>)],
    ) -> Result<Vec<u64>, ErrorResponse> {
        let texts = statements.iter().map(|(statement, _)| &statement.text);
        Ok(texts.map(|text| text.len() as u64).collect())
    }

    fn on_change(&self, notify: SchemaCallback) {
        *self.notify.lock().unwrap() = Some(notify);
    }

    fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    fn commits_wait_for_sync(&self) -> bool {
        self.waits_for_sync
    }

    fn sync(&self) -> Result<(), ErrorResponse> {
        self.syncs_begun.add(1);
        self.sync_gate.wait(|| false);
        self.syncs.add(1);
        if self.sync_fails.load(Ordering::SeqCst) {
            return Err(ErrorResponse::server("the disk is gone"));
        }
        Ok(())
    }
}

/// Appends the body of a RESULT that has a little more than `bytes` bytes.
fn append_long(bytes: usize, out: &mut BytesMut) {
    let keyspace = "x".repeat(60_000);
    Response::SetKeyspace { keyspace }.encode_body(out);
    out.resize(out.len() + bytes, 0);
}
