//! Random tables and random steps.

mod conditional;
mod garbage;
mod groups;
mod rows;
mod selects;
mod writes;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::counters::Count;
use crate::index::IndexOn;
use crate::schema::{ClusteringColumn, Column, ColumnId, Schema};
use crate::step::{At, Form, Request, Scope, SnapshotId, Source, Step};
use crate::value::Type;
use crate::write::Write;

pub use garbage::GRACE_S;

/// The number of values of each clustering column, and of the first column of a partition key with
/// two columns. A partition key with one column has one value more. The number is small, so that
/// many writes affect the same row.
const KEYS: i32 = 3;

pub struct Generator {
    rng: ChaCha8Rng,
    /// Another stream of random numbers from the same seed, for SELECTs of groups and the types of
    /// clustering columns. Draws from it do not change the other draws of the seed.
    rng_of_groups: ChaCha8Rng,
    schema: Schema,
    /// The number of partitions that most statements are about, the first ones of
    /// [`partition_keys`]; a greater number than theirs means all.
    partitions: usize,
    now_s: i64,
    /// True if the drawn timestamps are close to the time of the clock, as those that the server
    /// assigns. Otherwise they are small numbers, and the server assigns none.
    near_clock: bool,
    /// The base of small timestamps: they are drawn from 20 below it to 2 above it. It is at least 20,
    /// so that no timestamp is negative, and grows during the run.
    top_us: i64,
    next_column: ColumnId,
    dropped: Vec<Column>,
    snapshots: Vec<(SnapshotId, Scope)>,
    next_id: usize,
    cursors: Vec<usize>,
    cursors_of_groups: Vec<usize>,
}

/// Returns all possible partition keys.
pub fn partition_keys(schema: &Schema) -> Vec<Vec<i32>> {
    match schema.partition {
        1 => (0..KEYS + 1).map(|k| vec![k]).collect(),
        _ => (0..KEYS)
            .flat_map(|k| (0..2).map(move |j| vec![k, j]))
            .collect(),
    }
}
impl Generator {
    pub fn new(mut rng: ChaCha8Rng, now_s: i64) -> Self {
        let mut rng_of_groups = rng.clone();
        rng_of_groups.set_stream(1);
        let clustering = (0..rng.random_range(0..4)).map(|_| ClusteringColumn {
            is_descending: rng.random_bool(0.5),
            is_time: rng_of_groups.random_bool(0.5),
        });
        let clustering: Vec<ClusteringColumn> = clustering.collect();
        let schema = Schema {
            partition: rng.random_range(1..3),
            clustering,
            columns: Vec::new(),
            indexes: Vec::new(),
            // The clock mostly advances by 1 to 3 s at once. So values expire within a run, and
            // deletions are purged.
            default_ttl_s: if rng.random_bool(0.2) { 8 } else { 0 },
            gc_grace_s: rng.random_range(10..40),
        };
        let near_clock = rng.random_bool(0.5);
        let mut generator = Self::over(schema, (rng, rng_of_groups), now_s, near_clock);
        for _ in 0..generator.rng.random_range(2..6) {
            let column = generator.column();
            generator.schema.columns.push(column);
        }
        // Every table has a regular int column, and keeps it (see `alter`): filters of SELECTs are on
        // int columns, and an UPDATE of a row needs a regular one.
        if !generator
            .schema
            .regular()
            .any(|column| column.ty == Type::Int)
        {
            let column = Column {
                id: generator.next_column,
                name: format!("v{}", generator.next_column),
                ty: Type::Int,
                is_static: false,
            };
            generator.next_column += 1;
            generator.schema.columns.push(column);
        }
        generator
    }

    /// Creates a generator for a table. The first of the two streams of random numbers is for all draws
    /// but those of groups.
    fn over(
        schema: Schema,
        (rng, rng_of_groups): (ChaCha8Rng, ChaCha8Rng),
        now_s: i64,
        near_clock: bool,
    ) -> Self {
        Self {
            rng,
            rng_of_groups,
            next_column: schema.columns.len() as ColumnId,
            schema,
            partitions: usize::MAX,
            now_s,
            near_clock,
            top_us: 20,
            dropped: Vec::new(),
            snapshots: Vec::new(),
            next_id: 0,
            cursors: Vec::new(),
            cursors_of_groups: Vec::new(),
        }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    fn column(&mut self) -> Column {
        let id = self.next_column;
        self.next_column += 1;
        let is_static = !self.schema.clustering.is_empty() && self.rng.random_bool(0.3);
        let ty = if self.rng.random_bool(0.3) {
            Type::Int
        } else {
            self.pick(&Type::ALL)
        };
        Column {
            id,
            name: format!("{}{id}", if is_static { "s" } else { "v" }),
            ty,
            is_static,
        }
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.rng.random_range(0..all.len())].clone()
    }

    /// Draws steps with `requests` requests that write. Between them are SELECTs and events: the
    /// clock advances, or a flush, a merge, a restart, a snapshot or a change of the schema
    /// happens. In the end all garbage is purged.
    pub fn steps(&mut self, requests: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.rng.random_range(0..3) {
            self.index(&mut steps);
        }
        for at in 0..requests {
            self.event(&mut steps);
            match self.rng.random_range(0..10) {
                0 => steps.push(Step::Count(Count::draw(&mut self.rng))),
                // Otherwise all later timestamps would be too small to be visible.
                1 | 2 if self.near_clock => {
                    self.now_s += 1;
                    let request = self.conditional();
                    steps.push(Step::Conditional(request));
                }
                _ => {
                    let request = self.request();
                    steps.push(Step::Write(request));
                }
            }
            match self.rng.random_range(0..10) {
                0..3 => steps.push(Step::Select(self.all(), Source::Live, None)),
                3..6 => {
                    let (select, source) = (self.select(), self.source());
                    let pages = self.rng.random_bool(0.5);
                    let pages = pages.then(|| self.rng.random_range(1..8));
                    steps.push(Step::Select(select, source, pages));
                }
                6 => {
                    let id = self.next_id;
                    self.next_id += 1;
                    self.cursors.push(id);
                    let size = self.rng.random_range(1..6);
                    steps.push(Step::Open(id, self.select(), self.source(), size));
                }
                7..9 if !self.cursors.is_empty() => {
                    let at = self.rng.random_range(0..self.cursors.len());
                    steps.push(Step::Next(self.cursors[at]));
                    if self.cursors.len() > 3 {
                        self.cursors.remove(0);
                    }
                }
                _ => {}
            }
            self.grouped(&mut steps);
            if at + 1 == requests {
                steps.push(Step::Select(self.all(), Source::Live, None));
                for (id, _) in self.snapshots.clone() {
                    steps.push(Step::Select(self.all(), Source::Snapshot(id), None));
                }
                steps.push(Step::Purge);
                steps.push(Step::Select(self.all(), Source::Live, None));
            }
        }
        steps
    }

    /// Adds the steps of a random event between requests, such as a flush, a restart or a snapshot,
    /// to `steps`. Only about one call in five adds an event.
    fn event(&mut self, steps: &mut Vec<Step>) {
        match self.rng.random_range(0..120) {
            0..6 => {
                let far = self.schema.gc_grace_s;
                let seconds = if self.rng.random_bool(0.1) {
                    self.rng.random_range(far..2 * far)
                } else {
                    self.rng.random_range(1..4)
                };
                self.now_s += seconds;
                self.top_us += seconds * 40 / far;
                steps.push(Step::Advance(seconds));
                if seconds >= far && self.rng.random_bool(0.6) {
                    steps.extend([Step::Flush, Step::Compact]);
                }
            }
            6..12 => steps.push(Step::Flush),
            12..15 => {
                steps.push(Step::Flush);
                steps.push(Step::Compact);
            }
            15 => steps.push(Step::Restart),
            16..19 => {
                let (id, of) = (self.next_id, [Scope::Keyspace, Scope::Table]);
                let scope = self.pick(&of);
                self.next_id += 1;
                self.snapshots.push((id, scope));
                steps.push(Step::CreateSnapshot(id, scope));
                if self.snapshots.len() > 3 {
                    let at = self.rng.random_range(0..3);
                    steps.push(Step::DropSnapshot(self.snapshots.remove(at).0));
                }
            }
            19 => self.alter(steps),
            20 if self.rng.random_bool(0.2) => steps.push(Step::Truncate),
            21..25 => self.index(steps),
            _ => {}
        }
    }

    fn index(&mut self, steps: &mut Vec<Step>) {
        if self.schema.indexes.len() > 3 || self.rng.random_bool(0.25) {
            if self.schema.indexes.is_empty() {
                return;
            }
            let at = self.rng.random_range(0..self.schema.indexes.len());
            steps.push(Step::DropIndex(self.schema.indexes.remove(at)));
            return;
        }
        let mut free = IndexOn::all(&self.schema);
        free.retain(|on| !self.schema.indexes.contains(on));
        if !free.is_empty() {
            let on = self.pick(&free);
            self.schema.indexes.push(on);
            steps.push(Step::CreateIndex(on));
        }
    }

    fn alter(&mut self, steps: &mut Vec<Step>) {
        // Cassandra rejects dropping an unfrozen user-defined type.
        let can_drop = |column: &&Column| !matches!(column.ty, Type::Int | Type::Udt);
        let all: Vec<Column> = self
            .schema
            .columns
            .iter()
            .filter(can_drop)
            .cloned()
            .collect();
        if !all.is_empty() && self.rng.random_bool(0.5) {
            let column = self.pick(&all);
            self.schema.columns.retain(|other| other.id != column.id);
            let of_column = |on: &IndexOn| matches!(on, IndexOn::Column(id, _) if *id == column.id);
            self.schema.indexes.retain(|on| !of_column(on));
            let using_us = self.rng.random_bool(0.6).then(|| self.timestamp().max(0));
            steps.push(Step::Drop(column.id, using_us));
            self.dropped.push(column);
            return;
        }
        let again = self.dropped.pop().filter(|_| self.rng.random_bool(0.5));
        let column = again.unwrap_or_else(|| self.column());
        self.schema.columns.push(column.clone());
        steps.push(Step::Add(column));
    }

    fn timestamp(&mut self) -> i64 {
        if self.near_clock {
            let back_s = [0, 0, 0, 1, 2][self.rng.random_range(0..5)];
            (self.now_s - back_s) * 1_000_000 + self.rng.random_range(-6..7)
        } else {
            if self.rng.random_bool(0.3) {
                self.top_us += 1;
            }
            self.rng.random_range(self.top_us - 20..self.top_us + 3)
        }
    }

    fn request(&mut self) -> Request {
        let is_batch = self.rng.random_bool(0.15);
        let count = if is_batch {
            self.rng.random_range(0..5)
        } else {
            1
        };
        let mut writes: Vec<Write> = (0..count).map(|_| self.write()).collect();
        let form = if is_batch {
            self.pick(&[Form::Text, Form::Frame])
        } else {
            Form::Single
        };
        let schema = self.schema.clone();
        let adds = writes.iter().any(|write| write.adds_to_lists(&schema));
        let at = match self.rng.random_range(0..10) {
            0..3 if self.near_clock => At::Server,
            // New list elements are sorted by the timestamps of their requests, which stand for the
            // times of arrival. So these requests have no random timestamp.
            3 | 4 if !adds => At::Request(self.timestamp()),
            _ if form == Form::Text && self.rng.random_bool(0.7) => At::Batch(self.timestamp()),
            _ => {
                for write in &mut writes {
                    write.timestamp_us = Some(self.timestamp());
                }
                At::Statements
            }
        };
        Request {
            writes,
            form,
            at,
            binds: self.rng.random_bool(0.4),
        }
    }

    fn key(&mut self) -> Vec<i32> {
        let mut keys = partition_keys(&self.schema);
        keys.truncate(self.partitions);
        self.pick(&keys)
    }

    fn int(&mut self) -> i32 {
        self.rng.random_range(-3..4)
    }

    fn ints(&mut self) -> Vec<i32> {
        (0..self.rng.random_range(0..4))
            .map(|_| self.int())
            .collect()
    }

    fn or_null<T>(&mut self, value: T) -> Option<T> {
        self.rng.random_bool(0.8).then_some(value)
    }
}
