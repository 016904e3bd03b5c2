//! The executor of statements: the service behind the sockets.
//!
//! ```text
//! text ─parse, analyse─> Prepared ─values─> rows, changes
//! ```
//!
//! Its methods may be called from any thread. A statement uses a single version of the schema, so
//! that everything it reads is consistent.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod features;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "tests need more of it"))]
pub(crate) mod harness;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lookups;
mod permissions;
mod select;
#[cfg(test)]
mod tests;
mod write;

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::BytesMut;
use ebb_cql::protocol::{
    BatchKind, Columns, Consistency, ErrorResponse, Response, SchemaChange, SchemaChangeKind,
    SchemaTarget, Values, WriteType,
};
use ebb_cql::syntax;
use ebb_cql::syntax::ast::{Statement, Unsupported};
use ebb_model::access::Resource;
use ebb_model::schema::Schema;
use ebb_tables::{Announcement, Catalog, CatalogState};
use xxhash_rust::xxh3::Xxh3;

use self::select::schema_of;
use super::access::{
    self, Login, User, all_queries_need, execute_permission, execute_role, trace_need,
};
use super::activity::Activity;
use super::call::{Call, Lane, Outcome, RequestAnalysis, Service, StatementKind};
use super::describe;
use super::error::{Result, invalid, of_parse};
use super::guardrails::Guardrails;
use super::indexes::IndexBuilds;
use super::interrupt;
use super::prepared::{Meaning, Prepared};
use super::read::Limits;
use super::schema_statements;
use super::snapshots;
use super::system::{Facts, JobList, LocalNode, SystemTables};
use super::targets::Target;
use super::write::{JsonPlans, check_consistency};

/// The most time for computing the hashes of the partitions that conditional writes and counter
/// writes read. Writes with the same hash are executed one after another. If the hashes take longer
/// to compute, the writes are executed without this order, and the store detects their conflicts.
/// The limit is short because the hashes are computed on a thread that serves connections.
const TURNS_TIME_MAX: Duration = Duration::from_millis(5);

/// Executes statements over one catalog.
#[derive(Debug)]
pub struct Executor {
    catalog: Arc<Catalog>,
    system: Arc<SystemTables>,
    node: Arc<LocalNode>,
    limits: Limits,
    activity: Arc<Activity>,
    jobs: Option<Arc<dyn JobList>>,
    waits_for_sync: bool,
    guardrails: Guardrails,
    /// The guardrails that hold for superusers, too.
    of_superusers: Guardrails,
    builds: IndexBuilds,
    login: Option<Login>,
    /// The number that the next prepared statement gets.
    next_number: AtomicU64,
}

impl Executor {
    /// Creates an executor over a catalog. `node` has the address at which clients reach the node.
    /// The scans that build indexes run in the kernel's idle class, so that they give way to requests.
    pub fn new(catalog: Arc<Catalog>, node: LocalNode, limits: Limits) -> Self {
        let builds = IndexBuilds::new(&catalog, true);
        Self::with_builds(builds, catalog, node, limits)
    }

    /// Creates an executor like [`new`](Self::new) that builds indexes at normal priority. It is
    /// for tests that wait for indexes: on busy cores a thread of the idle class makes hardly any
    /// progress.
    pub fn at_normal_priority(catalog: Arc<Catalog>, node: LocalNode, limits: Limits) -> Self {
        let builds = IndexBuilds::new(&catalog, false);
        Self::with_builds(builds, catalog, node, limits)
    }

    fn with_builds(
        builds: IndexBuilds,
        catalog: Arc<Catalog>,
        node: LocalNode,
        limits: Limits,
    ) -> Self {
        Self {
            builds,
            catalog,
            system: Arc::default(),
            node: Arc::new(node),
            limits,
            activity: Arc::default(),
            jobs: None,
            waits_for_sync: false,
            guardrails: Guardrails::default(),
            of_superusers: Guardrails::default(),
            login: None,
            next_number: AtomicU64::new(1),
        }
    }

    /// Makes the virtual tables of clients, queries and traces show those in `activity`, which the
    /// server keeps up to date.
    #[must_use]
    pub fn showing(mut self, activity: Arc<Activity>) -> Self {
        self.activity = activity;
        self
    }

    /// Sets the source of the jobs that a virtual table lists.
    #[must_use]
    pub fn listing_jobs(mut self, jobs: Arc<dyn JobList>) -> Self {
        self.jobs = Some(jobs);
        self
    }

    /// Sets the callback that gets the errors of failed index builds, for the log.
    #[must_use]
    pub fn telling(self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.builds.failures().on_failure(report);
        self
    }

    /// Sets the guardrails that statements are checked against.
    #[must_use]
    pub fn guarded_by(mut self, guardrails: Guardrails) -> Self {
        self.of_superusers = guardrails.of_superusers();
        self.guardrails = guardrails;
        self
    }

    /// Returns the guardrails that hold for the user of a call. On a server without authentication
    /// no user is a superuser.
    fn guardrails(&self, call: &Call<'_>) -> Result<&Guardrails> {
        let user = call.user;
        // While both are equal, as by default, the user does not have to be looked up.
        let is_superuser = self.guardrails != self.of_superusers
            && !user.is_anyone()
            && user.is_superuser(self.catalog.roles())?;
        Ok(if is_superuser {
            &self.of_superusers
        } else {
            &self.guardrails
        })
    }

    /// Sets whether writes are acknowledged only after an fsync. The executor never waits for it:
    /// the server syncs many writes at once.
    #[must_use]
    pub fn waiting_for_sync(mut self, waits_for_sync: bool) -> Self {
        self.waits_for_sync = waits_for_sync;
        self
    }

    /// Turns authentication on: clients have to log in as a role.
    #[must_use]
    pub fn asking_for_login(mut self) -> Self {
        self.login = Some(Login::new(self.catalog.clone()));
        self
    }

    /// Returns the catalog of the tables.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the facts from which virtual tables and DESCRIBE are computed for a user.
    fn facts(&self, state: &Arc<CatalogState>, user: &User) -> Result<Facts> {
        let role = user.role(self.catalog.roles())?;
        let need = all_queries_need();
        let limited = (role.as_ref()).filter(|role| !role.granted.permits(&need));
        Ok(Facts {
            node: self.node.clone(),
            catalog: self.catalog.clone(),
            state: state.clone(),
            system: self.system.clone(),
            activity: self.activity.clone(),
            queries_of: limited.map(|role| role.name.as_str().into()),
            role,
            index_failures: self.builds.failures().clone(),
            jobs: self.jobs.clone(),
        })
    }
}

impl Executor {
    /// Kills a query. Only the user that sent it and superusers may do so.
    ///
    /// # Errors
    /// If there is no such query, if this user may not kill it, or if the query may change
    /// something: such a query goes on to its end.
    fn kill_query(&self, id: u64, user: &User) -> Result<()> {
        let queries = &self.activity.queries;
        let Some(sender) = queries.user_of(id) else {
            return no_query(id);
        };
        let is_own = user.name().is_some() && user.name() == sender.name();
        if !is_own && !user.is_superuser(self.catalog.roles())? {
            return Err(ErrorResponse::unauthorized(format!(
                "Only superusers and the user of query {id} may kill it"
            )));
        }
        match queries.kill(id) {
            Some(true) => Ok(()),
            Some(false) => invalid(format!(
                "query {id} may change something, so it goes on to its end"
            )),
            None => no_query(id),
        }
    }

    /// Executes a statement. The caller has begun the time limit of the statement on this thread by
    /// [`interrupt::scope`].
    fn execute_in_time(
        &self,
        statement: &Prepared,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        // SELECTs and writes are checked below, with the state of the catalog that they use.
        if !matches!(
            statement.parsed.statement,
            Statement::Select(_) | Statement::Write(_) | Statement::Batch(_)
        ) {
            self.check(statement, call.user)?;
        }
        self.execute_checked(statement, call, out)
    }

    /// Executes a statement after a first check of its permissions. Because of this check, users
    /// without the permissions get no other error of the statement. Since the check, another user
    /// may have dropped the object that the statement names, and created one of the same name. So
    /// each statement checks permissions again where its object can no longer be replaced: by
    /// [`SchemaContext::check`], by [`checked`](Self::checked), or under the lock of the roles.
    ///
    /// [`SchemaContext::check`]: super::context::SchemaContext::check
    pub(crate) fn execute_checked(
        &self,
        statement: &Prepared,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let keyspace = statement.keyspace.as_deref();
        let tree = &statement.parsed.statement;
        let check = |schema: &Schema| self.check_under(schema, statement, call.user);
        let roles = self.catalog.roles();
        let grant = |created: &Resource| access::grant_to_creator(roles, call.user, created);
        let context = self.access_context(keyspace, call.user, call.changes, &check, &grant);
        match tree {
            Statement::Select(select) => self.select(statement, select, call, out),
            Statement::Describe(describe) => {
                let facts = self.facts(&self.catalog.state(), call.user)?;
                let listing = describe::describe(&facts, keyspace, describe)?;
                listing.write(out);
                Ok(Outcome::default())
            }
            Statement::Write(_) | Statement::Batch(_) => self.write(statement, call, out),
            Statement::CreateSnapshot(create) => {
                // Held until the snapshot is noted, so that concurrent statements cannot exceed the
                // quota. With IF NOT EXISTS there may be nothing to note.
                let room = access::room_for_snapshot(&context)?;
                let check_drop = |on| self.check_drop_of_snapshot(call.user, on);
                let done = snapshots::execute(&context.schema, tree, check_drop, out)?;
                if let Some(room) = room.filter(|_| done.created_snapshot) {
                    // If this fails, the snapshot stays and does not count for the quota.
                    access::note_snapshot(&context, room, create)?;
                }
                Ok(done)
            }
            Statement::DropSnapshot(_) | Statement::ListSnapshots(_) => {
                let check_drop = |on| self.check_drop_of_snapshot(call.user, on);
                snapshots::execute(&context.schema, tree, check_drop, out)
            }
            Statement::KillQuery(id) => {
                self.kill_query(*id, call.user)?;
                Response::Void.encode_body(out);
                Ok(Outcome::default())
            }
            Statement::Role(role) => execute_role(&context, role, out),
            Statement::Permission(permission) => execute_permission(&context, permission, out),
            Statement::Unsupported(unsupported) => not_supported(unsupported),
            // The other statements change the schema, truncate a table or select a keyspace.
            _ => {
                let guardrails = self.guardrails(call)?;
                let warnings = guardrails.check_schema(tree, &self.catalog.state(), keyspace)?;
                let mut done = schema_statements::execute(&context.schema, tree, out)?;
                done.warnings.extend(warnings);
                // The index of a small table is ready at the response; others are built afterwards.
                if matches!(tree, Statement::CreateIndex(_)) {
                    self.builds.start_and_wait_briefly();
                }
                Ok(done)
            }
        }
    }
}

impl Service for Executor {
    type Statement = Prepared;

    fn prepare(
        &self,
        keyspace: Option<&str>,
        text: &str,
        analysis: &mut RequestAnalysis,
    ) -> Result<Prepared> {
        let (parsed, tokens) = syntax::parse_counted(text).map_err(|error| of_parse(&error))?;
        // Clients that use different keyspaces share a prepared SELECT from a qualified table. So its
        // paging states must not depend on the keyspace in use.
        let hash = match &parsed.statement {
            Statement::Select(select) if select.from.keyspace.is_some() => hash(None, text),
            _ => hash(keyspace, text),
        };
        // The defaults are those of a statement about the schema, which is analysed at each execution
        // and has no markers. The match below sets what differs.
        let mut prepared = Prepared {
            keyspace: keyspace.map(str::to_owned),
            hash,
            text: text.into(),
            tokens,
            memory_bytes: 0,
            markers: Columns::default(),
            partition_key: Vec::new(),
            columns: None,
            kind: StatementKind {
                lane: Lane::Schema,
                write_type: WriteType::Simple,
            },
            needs_keyspace: false,
            meaning: ArcSwap::from_pointee(Meaning::Late),
            number: self.next_number.fetch_add(1, Ordering::Relaxed),
            needs: None,
            parsed,
        };
        let parsed = &prepared.parsed;
        match &parsed.statement {
            Statement::Select(select) => {
                let state = self.catalog.state();
                let target = self.target(&state, select, keyspace)?;
                let (meaning, partition_key) =
                    self.analyse(parsed, select, schema_of(&target), hash)?;
                let plan = meaning.select.plan();
                prepared.needs_keyspace = select.from.keyspace.is_none();
                // By the rows that the statement may read: one, those of an index or of some
                // partitions, or all of the table. Virtual tables are computed from memory.
                prepared.kind.lane = match &target {
                    Target::Virtual(_) => Lane::Inline,
                    _ if plan.is_point() => Lane::Inline,
                    _ if plan.restrictions.index.is_some() => Lane::Scan,
                    _ if plan.restrictions.partition.is_by_key() => Lane::Scan,
                    _ => Lane::Range,
                };
                prepared.needs = Some(Self::needs(state.schema(), parsed, keyspace)?);
                prepared.columns = Some(plan.columns.clone());
                prepared.markers = meaning.markers.clone();
                prepared.partition_key = partition_key;
                prepared.memory_bytes = meaning.memory_bytes;
                prepared.meaning = ArcSwap::from_pointee(Meaning::Select(Box::new(meaning)));
            }
            // DESCRIBE SCHEMA prints a statement for each object of the server.
            Statement::Describe(_) => {
                prepared.kind.lane = Lane::Scan;
                prepared.needs_keyspace = true;
            }
            Statement::Write(_) | Statement::Batch(_) => {
                let state = self.catalog.state();
                let json_plans = &mut analysis.json_plans;
                let write = self.understand_write(&state, parsed, keyspace, json_plans)?;
                // `None` is for other kinds of statements, so these two always have a meaning.
                if let Some(write) = write {
                    // The texts of a batch share this limit, and a batch contains only writes, so a SELECT
                    // above does not count.
                    analysis.take(write.memory_bytes())?;
                    prepared.needs = Some(Self::needs(state.schema(), parsed, keyspace)?);
                    prepared.needs_keyspace = write.needs_keyspace();
                    prepared.kind = StatementKind {
                        lane: Lane::Write,
                        write_type: write.write_type(),
                    };
                    prepared.markers = write.markers().clone();
                    prepared.partition_key = write.partition_key().to_vec();
                    prepared.memory_bytes = write.memory_bytes();
                    prepared.meaning = ArcSwap::from_pointee(Meaning::Write(Box::new(write)));
                }
            }
            Statement::Unsupported(unsupported) => return not_supported(unsupported),
            Statement::Use(_) => prepared.kind.lane = Lane::Inline,
            // It must not wait behind the query that it ends.
            Statement::KillQuery(_) => prepared.kind.lane = Lane::Control,
            // Statements about the schema, snapshots, roles or permissions. `needs` stays `None`: the
            // permissions may depend on objects that are created or dropped later.
            _ => prepared.needs_keyspace = true,
        }
        Ok(prepared)
    }

    fn is_current(&self, statement: &Prepared) -> bool {
        let state = self.catalog.state();
        let keyspace = statement.keyspace.as_deref();
        let meaning = match &statement.parsed.statement {
            // A snapshot never changes. Each opening copies the names of its tables and may read a file,
            // too much for every such statement at every change of the schema. If another snapshot has
            // got the name, the execution finds out.
            Statement::Select(select) if self.is_at_snapshot(&state, select, keyspace) => {
                return true;
            }
            Statement::Select(select) => self
                .target(&state, select, keyspace)
                .and_then(|target| self.select_meaning(statement, select, schema_of(&target))),
            Statement::Write(_) | Statement::Batch(_) => {
                self.write_meaning(&state, statement, &mut JsonPlans::default())
            }
            // Other statements have no markers, and are analysed at each execution.
            _ => return true,
        };
        meaning.is_ok()
    }

    fn execute(
        &self,
        statement: &Prepared,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let time_out = statement.kind.time_out(call.parameters.consistency);
        interrupt::scope(call.interrupt, time_out, || {
            self.execute_in_time(statement, call, out)
        })
    }

    fn batch(
        &self,
        kind: BatchKind,
        statements: &[(Arc<Prepared>, Values<'_>)],
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let kinds = statements.iter().map(|(statement, _)| statement.kind);
        let of_batch = StatementKind::of_batch(kind, kinds);
        let (level, serial) = levels(call);
        check_consistency(of_batch.write_type, level, serial)?;
        interrupt::scope(call.interrupt, of_batch.time_out(level), || {
            self.batch_in_time(kind, statements, call, out)
        })
    }

    fn turns(&self, statements: &[(Arc<Prepared>, Values<'_>)]) -> Result<Vec<u64>> {
        // If the keys take too long to compute, the writes get no turns. The store still detects
        // their conflicts.
        let turns = interrupt::at_most(TURNS_TIME_MAX, || self.turns_of(statements));
        turns.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn on_change(&self, notify: Box<dyn Fn(SchemaChange) + Send + Sync>) {
        self.catalog
            .on_announcement(move |announced| match announced {
                Announcement::TableCreated { keyspace, table } => notify(SchemaChange {
                    kind: SchemaChangeKind::Created,
                    keyspace: keyspace.to_owned(),
                    target: SchemaTarget::Table(table.to_owned()),
                }),
                Announcement::SnapshotExpired {
                    keyspace,
                    snapshot,
                    then,
                } => {
                    let objects = then.map_or_else(Vec::new, |then| {
                        snapshots::objects(then, then.tables().map(|table| table.name()))
                    });
                    let dropped = SchemaChangeKind::Dropped;
                    let gone = snapshots::changed(dropped, (keyspace, snapshot), objects);
                    gone.into_iter().for_each(&notify);
                }
            });
    }

    fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    fn check_trace(&self, user: &User) -> Result<()> {
        user.check(self.catalog.roles(), &[trace_need()])
    }

    fn commits_wait_for_sync(&self) -> bool {
        self.waits_for_sync
    }

    fn sync(&self) -> Result<()> {
        let synced = self.catalog.db().sync();
        synced.map_err(|error| ErrorResponse::server(error.to_string()))
    }
}

fn not_supported<T>(unsupported: &Unsupported) -> Result<T> {
    invalid(format!("{} is not supported", unsupported.what))
}

fn no_query<T>(id: u64) -> Result<T> {
    invalid(format!("no query {id} waits or runs"))
}

/// Returns the consistency level of a call and, if the request has one, the serial consistency
/// level.
fn levels(call: &Call<'_>) -> (Consistency, Option<Consistency>) {
    let parameters = &call.parameters;
    (parameters.consistency, parameters.serial_consistency)
}

/// Returns a hash of the text of a statement and of the keyspace in which its unqualified names are
/// resolved.
fn hash(keyspace: Option<&str>, text: &str) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.write(keyspace.unwrap_or_default().as_bytes());
    // Separates the two: `ab` and `c` hash otherwise than `a` and `bc`.
    hasher.write_u8(0);
    hasher.write(text.as_bytes());
    hasher.finish()
}
