//! The execution of steps by a server and by the model.

use std::collections::BTreeSet;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::check;
use super::machine::{Cut, Machine};
use super::model::Model;
use super::observed::observe;
use super::statement::Statement;
use super::step::Step;

type Result<T = (), E = String> = std::result::Result<T, E>;

/// The extent of the checks after each opening of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Compares the tables of `system_schema` with the model.
    Schema,
    /// Compares the tables of `system_schema` with the model, and runs all checks of [`check`].
    Everything,
}

/// Counts of statements, of openings of the database, and of the objects that were found after
/// them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub accepted: u64,
    pub refused: u64,
    /// The number of statements whose response was lost by an interruption.
    pub unanswered: u64,
    /// The number of statements that were executed although their response was lost.
    pub executed: u64,
    pub openings: u64,
    /// The number of tables after each opening, added up over all openings.
    pub tables: u64,
    /// The number of snapshots after each opening, added up over all openings.
    pub snapshots: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.executed += other.executed;
        self.openings += other.openings;
        self.tables += other.tables;
        self.snapshots += other.snapshots;
    }
}

/// An accepted statement, or the schema that was read after an opening.
#[derive(Debug)]
pub enum Event {
    Accepted(Statement),
    Opened(Model),
}

pub struct Run<M> {
    machine: M,
    depth: Depth,
    model: Model,
    /// The executed steps as text: statements, and comments for other steps.
    pub log: Vec<String>,
    pub trace: Vec<Event>,
    pub counts: Counts,
}

impl<M: Machine> Run<M> {
    /// Begins a run of statements on the server `machine`, with an empty database. `depth` is the
    /// extent of the checks after each opening.
    pub fn new(machine: M, depth: Depth) -> Self {
        Self {
            machine,
            depth,
            model: Model::default(),
            log: Vec::new(),
            trace: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Executes a step.
    ///
    /// # Errors
    /// If the server did anything wrong.
    pub fn step(&mut self, step: &Step) -> Result {
        match step {
            Step::Run(statement) => self.run(statement),
            Step::Row(draw) => self.row(*draw),
            Step::Restart { flushes } => {
                let how = if *flushes { "a flush and " } else { "" };
                self.log.push(format!("-- {how}a restart"));
                self.machine.restart(*flushes)?;
                self.opened_as_before()
            }
            Step::Cut { statement, draw } => self.cut(statement, *draw),
        }
    }

    fn run(&mut self, statement: &Statement) -> Result {
        let text = statement.to_string();
        self.log.push(text.clone());
        match self.machine.run(&text) {
            Ok(_) => self.accept(statement),
            Err(error) => self.refuse(&error),
        }
    }

    fn accept(&mut self, statement: &Statement) -> Result {
        let applied = self.model.apply(statement);
        applied.map_err(|why| format!("{statement}\nwas accepted, but {why}"))?;
        self.counts.accepted += 1;
        self.trace.push(Event::Accepted(statement.clone()));
        Ok(())
    }

    /// Counts a rejection, and checks that its error is about the statement and not a fault of the
    /// server.
    fn refuse(&mut self, error: &ErrorResponse) -> Result {
        self.counts.refused += 1;
        // The last line of defence reported a statement that another check should have rejected.
        if error.message.contains("fault of ebb") {
            return Err(error.message.clone());
        }
        match error.kind {
            ErrorKind::Syntax
            | ErrorKind::Invalid
            | ErrorKind::Config
            | ErrorKind::AlreadyExists { .. } => Ok(()),
            _ => Err(format!("an error of {:#06x}: {error}", error.kind.code())),
        }
    }

    fn row(&mut self, draw: u64) -> Result {
        let tables = self.model.tables();
        let mut rng = ChaCha8Rng::seed_from_u64(draw);
        let Some(at) = draw.checked_rem(tables.len() as u64) else {
            return Ok(());
        };
        let table = &tables[at as usize];
        self.log.push(format!("-- a row of {table}"));
        check::row(&mut self.machine, &self.model, table, &mut rng)
    }

    fn cut(&mut self, statement: &Statement, draw: u64) -> Result {
        let text = statement.to_string();
        self.log.push(format!("{text} -- cut"));
        match self.machine.cut(&text, draw)? {
            Cut::Accepted => {
                self.accept(statement)?;
                self.opened_as_before()
            }
            Cut::Refused(error) => {
                self.refuse(&error)?;
                self.opened_as_before()
            }
            Cut::Unanswered => {
                self.counts.unanswered += 1;
                let mut allowed = vec![self.model.clone()];
                let mut after = self.model.clone();
                if after.apply(statement).is_ok() {
                    allowed.push(after);
                }
                self.opened(&allowed, Some(statement))
            }
        }
    }

    /// Compares the schema after an opening with the model.
    fn opened_as_before(&mut self) -> Result {
        let allowed = [self.model.clone()];
        self.opened(&allowed, None)
    }

    /// Compares the schema after an opening with the permitted ones in `allowed`. The first of them
    /// is the schema without the effect of the unanswered statement.
    fn opened(&mut self, allowed: &[Model], unanswered: Option<&Statement>) -> Result {
        let found = observe(&mut self.machine)?;
        if !allowed.contains(&found) {
            return Err(difference(allowed, &found));
        }
        if let Some(statement) = unanswered
            && found != allowed[0]
        {
            self.counts.executed += 1;
            self.trace.push(Event::Accepted(statement.clone()));
        }
        self.counts.openings += 1;
        self.counts.tables += found.tables().len() as u64;
        self.counts.snapshots += found.snapshots().len() as u64;
        self.trace.push(Event::Opened(found.clone()));
        self.model = found;
        if self.depth == Depth::Schema {
            return Ok(());
        }
        let mut rng = ChaCha8Rng::seed_from_u64(self.counts.openings);
        let checked = check::all(&mut self.machine, &self.model, &mut rng);
        checked.map_err(|how| format!("after an opening: {how}"))
    }
}

/// Describes the keyspaces in which a schema differs from the permitted ones.
fn difference(allowed: &[Model], found: &Model) -> String {
    let mut text = "the schema after an opening is wrong".to_owned();
    for expected in allowed {
        let names = expected.keyspaces.keys().chain(found.keyspaces.keys());
        let names: BTreeSet<&String> = names.collect();
        for name in names {
            let (is, must) = (found.keyspaces.get(name), expected.keyspaces.get(name));
            if is != must {
                text += &format!("\nkeyspace {name} is\n{is:#?}\nand must be\n{must:#?}");
            }
        }
    }
    text
}
