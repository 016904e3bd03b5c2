//! The effects of writes by Cassandra's rules, in simple maps. Deletions and expiry remove nothing:
//! each read decides which of the stored cells are live.

use std::collections::{BTreeMap, BTreeSet};

use super::flaw::Flaw;
use super::partition::{Cell, Fact, Life, Partition, Place, Rules, When};
use super::restriction::{Restriction, Test};
use super::schema::{ColumnId, Schema};
use super::value::{Type, Value};
use super::write::{Change, Part, What, Write};

/// A table: the winning write of each cell, even if it was deleted or has expired, and the
/// deletions.
#[derive(Debug, Clone)]
pub struct Model {
    pub schema: Schema,
    pub partitions: BTreeMap<Vec<i32>, Partition>,
    pub flaw: Option<Flaw>,
    /// The keys of partitions that were written before the last index was created, and not since:
    /// only the build of that index adds their entries.
    pub from_before: BTreeSet<Vec<i32>>,
    /// All values that single cells of rows have ever had, for the mistake
    /// [`Flaw::IndexesShowOldValues`].
    pub ever: BTreeSet<Once>,
    /// For each dropped column, the timestamp up to which its cells are gone.
    dropped: BTreeMap<ColumnId, i64>,
    /// The position of the next element that is added at the end of any list.
    back: i64,
    /// The lowest position of the elements that were added at the front of any list; 0 without any.
    /// The next elements at the front, of whichever list, get lower positions.
    front: i64,
}

/// The error for a statement that the server must reject.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused;

/// A value that a cell once had: partition, row, column, bytes.
type Once = (Vec<i32>, Vec<i32>, ColumnId, Vec<u8>);

/// An effect of a write: the partition, the row (`None` for static columns), the time and the
/// change.
type Effect = (Vec<i32>, Option<Vec<i32>>, When, Fact);

impl Model {
    pub fn new(schema: Schema, flaw: Option<Flaw>) -> Self {
        Self {
            schema,
            partitions: BTreeMap::new(),
            flaw,
            from_before: BTreeSet::new(),
            ever: BTreeSet::new(),
            dropped: BTreeMap::new(),
            back: 0,
            front: 0,
        }
    }

    pub fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Drops a column by ALTER TABLE ... DROP at the server's time `server_us`. `using_us` is the
    /// timestamp of USING TIMESTAMP, if the statement has one.
    pub fn drop_column(&mut self, id: ColumnId, using_us: Option<i64>, server_us: i64) {
        self.schema.columns.retain(|column| column.id != id);
        let using_us = using_us.filter(|_| !self.has(Flaw::DropsForgetTheirTimestamp));
        let up_to = using_us.unwrap_or(server_us);
        let dropped = self.dropped.entry(id).or_insert(up_to);
        *dropped = up_to.max(*dropped);
    }

    /// Returns whether a cell belongs to an existing column, and is newer than the last drop of the
    /// column.
    pub fn has_column_of(&self, id: ColumnId, cell: &Cell) -> bool {
        let dropped = self.dropped.get(&id).copied();
        let dropped = dropped.filter(|_| !self.has(Flaw::DroppedColumnsReturn));
        self.schema.column(id).is_some() && Some(cell.timestamp_us) > dropped
    }

    /// Executes statements as one write, so that each reads the state before all of them.
    pub fn execute(&mut self, writes: &[(&Write, When)]) -> Result<(), Refused> {
        let mut effects = Vec::new();
        for (write, when) in writes {
            self.add_effects(write, *when, &mut effects)?;
        }
        for (key, row, when, fact) in effects {
            let rules = Rules(self.flaw);
            self.from_before.remove(&key);
            if let (Some(row), Fact::Cell(id, Place::Whole, cell)) = (&row, &fact)
                && let Some(bytes) = &cell.bytes
            {
                self.ever
                    .insert((key.clone(), row.clone(), *id, bytes.clone()));
            }
            let partition = self.partitions.entry(key).or_default();
            partition.add(row, when, fact, rules);
        }
        Ok(())
    }

    fn add_effects(
        &mut self,
        write: &Write,
        when: When,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let when = When {
            timestamp_us: write.timestamp_us.unwrap_or(when.timestamp_us),
            ..when
        };
        let ttl_s = match write.ttl_s {
            Some(0) if self.has(Flaw::TtlZeroIsDefault) => self.schema.default_ttl_s,
            Some(ttl_s) => ttl_s,
            None => self.schema.default_ttl_s,
        };
        let life = (ttl_s > 0).then_some((when.now_s + ttl_s, ttl_s));
        match &write.what {
            What::Insert {
                partition,
                clustering,
                values,
            } => {
                if clustering.is_some() {
                    let marker = Fact::Marker(life);
                    effects.push((partition.clone(), clustering.clone(), when, marker));
                }
                for (id, value) in values {
                    let row = self.row_of(*id, clustering.as_ref());
                    let change = Change::Set(value.clone());
                    self.change(partition, row, *id, &change, when, life, effects)?;
                }
            }
            What::Update { at, changes } => {
                for partition in at.keys().expect("keys are named") {
                    let rows = named(&at.clustering, self.schema.clustering.len());
                    for row in rows.iter().flatten() {
                        if self.has(Flaw::UpdateMakesRows) {
                            let marker = Fact::Marker(life);
                            effects.push((partition.clone(), Some(row.clone()), when, marker));
                        }
                    }
                    for (id, change) in changes {
                        let is_static = self.is_static(*id);
                        for row in rows.iter().flatten().filter(|_| !is_static) {
                            let row = Some(row.clone());
                            self.change(&partition, row, *id, change, when, life, effects)?;
                        }
                        if is_static {
                            self.change(&partition, None, *id, change, when, life, effects)?;
                        }
                    }
                }
            }
            What::Delete { at, parts } => {
                for partition in at.keys().expect("keys are named") {
                    let rows = named(&at.clustering, self.schema.clustering.len());
                    if parts.is_empty() {
                        self.delete(&partition, &at.clustering, rows, when, effects);
                        continue;
                    }
                    for (id, part) in parts {
                        if self.is_static(*id) {
                            self.remove(&partition, None, *id, *part, when, effects)?;
                            continue;
                        }
                        for row in rows.iter().flatten() {
                            let row = Some(row.clone());
                            self.remove(&partition, row, *id, *part, when, effects)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn is_static(&self, id: ColumnId) -> bool {
        self.schema
            .column(id)
            .is_some_and(|column| column.is_static)
    }

    fn row_of(&self, id: ColumnId, clustering: Option<&Vec<i32>>) -> Option<Vec<i32>> {
        clustering.filter(|_| !self.is_static(id)).cloned()
    }

    /// Adds the effects of a DELETE without columns. `rows` are the rows that `restrictions` name
    /// one by one, as [`named`] returns them.
    fn delete(
        &self,
        partition: &[i32],
        restrictions: &[Restriction],
        rows: Option<Vec<Vec<i32>>>,
        when: When,
        effects: &mut Vec<Effect>,
    ) {
        let mut add_effects = |row, fact| effects.push((partition.to_vec(), row, when, fact));
        match rows {
            // Without clustering columns a partition is one row.
            _ if restrictions.is_empty() => add_effects(None, Fact::Partition),
            Some(rows) => {
                let count = if self.has(Flaw::InDeletesTheFirst) {
                    1
                } else {
                    rows.len()
                };
                for row in rows.into_iter().take(count) {
                    add_effects(Some(row), Fact::Row);
                }
                if self.has(Flaw::RowDeletionTakesStatics) {
                    add_effects(None, Fact::Row);
                }
            }
            None => {
                let mut restrictions = restrictions.to_vec();
                if self.has(Flaw::RangesAreOpen) {
                    restrictions.iter_mut().for_each(open);
                }
                if self.has(Flaw::TupleSlicesByFirst) {
                    restrictions.iter_mut().for_each(shorten);
                }
                add_effects(None, Fact::Range(restrictions));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of one write")]
    fn change(
        &mut self,
        partition: &[i32],
        row: Option<Vec<i32>>,
        id: ColumnId,
        change: &Change,
        when: When,
        life: Life,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let ty = self.schema.column(id).ok_or(Refused)?.ty;
        let mut facts: Vec<(Place, Option<Vec<u8>>)> = Vec::new();
        let int = |value: &Option<i32>| value.map(|value| value.to_be_bytes().to_vec());
        match change {
            Change::Set(value) if !ty.is_multi_cell() => {
                facts.push((Place::Whole, value.as_ref().map(Value::bytes)));
            }
            Change::Set(value) => {
                let up_to = if self.has(Flaw::OverwriteTakesItsTimestamp) {
                    when.timestamp_us
                } else {
                    // As in Cassandra, so that the deletion of the old elements does not hide the new
                    // ones.
                    when.timestamp_us - 1
                };
                if !(self.has(Flaw::UdtKeepsOldFields) && ty == Type::Udt) {
                    let clear = Fact::Clear(id, up_to);
                    effects.push((partition.to_vec(), row.clone(), when, clear));
                }
                if let Some(value) = value {
                    facts = self.parts(value);
                }
            }
            Change::Add(value) => facts = self.parts(value),
            Change::Prepend(values) => {
                self.front -= values.len() as i64;
                let positions = self.front..;
                let mut values = values.clone();
                if self.has(Flaw::PrependReverses) {
                    values.reverse();
                }
                for (position, value) in positions.zip(values) {
                    facts.push((Place::Position(position), int(&Some(value))));
                }
            }
            Change::Remove(values) if ty == Type::List => {
                for (position, value) in self.elements(partition, row.as_deref(), id, when.now_s) {
                    if values.contains(&value) {
                        facts.push((Place::Position(position), None));
                    }
                }
            }
            Change::Remove(keys) => {
                facts.extend(keys.iter().map(|key| (Place::Key(*key), None)));
            }
            Change::SetIndex(index, value) => {
                let elements = self.elements(partition, row.as_deref(), id, when.now_s);
                let (mut position, _) = *elements.get(*index).ok_or(Refused)?;
                if self.has(Flaw::IndexOffByOne)
                    && let Some((next, _)) = elements.get(index + 1)
                {
                    position = *next;
                }
                if self.has(Flaw::SetIndexMoves) {
                    facts.push((Place::Position(position), None));
                    position = self.back;
                    self.back += 1;
                }
                facts.push((Place::Position(position), int(value)));
            }
            Change::SetKey(key, value) => facts.push((Place::Key(*key), int(value))),
            Change::SetField(field, value) => facts.push((Place::Field(*field), int(value))),
        }
        for (place, bytes) in facts {
            let cell = Cell {
                timestamp_us: when.timestamp_us,
                life: life.filter(|_| bytes.is_some()),
                bytes,
            };
            let fact = Fact::Cell(id, place, cell);
            effects.push((partition.to_vec(), row.clone(), when, fact));
        }
        Ok(())
    }

    fn remove(
        &mut self,
        partition: &[i32],
        row: Option<Vec<i32>>,
        id: ColumnId,
        part: Part,
        when: When,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let ty = self.schema.column(id).ok_or(Refused)?.ty;
        let change = match part {
            Part::Whole if ty.is_multi_cell() => {
                let clear = Fact::Clear(id, when.timestamp_us);
                effects.push((partition.to_vec(), row, when, clear));
                return Ok(());
            }
            Part::Whole => Change::Set(None),
            Part::Index(index) => Change::SetIndex(index, None),
            Part::Key(key) => Change::SetKey(key, None),
            Part::Field(field) => Change::SetField(field, None),
        };
        self.change(partition, row, id, &change, when, None, effects)
    }

    /// Returns the elements, entries or fields of a written value, without null fields: each as its
    /// place in the column, and its bytes.
    fn parts(&mut self, value: &Value) -> Vec<(Place, Option<Vec<u8>>)> {
        let int = |value: i32| Some(value.to_be_bytes().to_vec());
        match value {
            Value::List(values) => {
                let positions = self.back..;
                self.back += values.len() as i64;
                let places = positions.zip(values);
                let places = places.map(|(at, value)| (Place::Position(at), int(*value)));
                places.collect()
            }
            Value::Set(keys) => {
                let places = keys.iter();
                places
                    .map(|key| (Place::Key(*key), Some(Vec::new())))
                    .collect()
            }
            Value::Map(pairs) => {
                let places = pairs.iter();
                places
                    .map(|(key, value)| (Place::Key(*key), int(*value)))
                    .collect()
            }
            Value::Fields(fields) => {
                let fields = fields.iter().enumerate();
                let set = fields.filter_map(|(at, value)| Some((at, (*value)?)));
                set.map(|(at, value)| (Place::Field(at), int(value)))
                    .collect()
            }
            Value::Int(_) | Value::Bigint(_) => Vec::new(),
        }
    }

    /// Returns the elements of a list, as pairs of position and value in the order of the list. A
    /// statement that changes the list by index or by value reads them.
    fn elements(
        &self,
        partition: &[i32],
        row: Option<&[i32]>,
        id: ColumnId,
        now_s: i64,
    ) -> Vec<(i64, i32)> {
        let Some(partition) = self.partitions.get(partition) else {
            return Vec::new();
        };
        let rules = Rules(self.flaw);
        let cells = partition.live_cells(row, now_s, rules);
        let elements = cells.into_iter().filter_map(|((of, place), cell)| {
            let Place::Position(position) = place else {
                return None;
            };
            let value = cell.bytes.as_deref()?.try_into().ok()?;
            let is_live = of == id && self.has_column_of(id, cell);
            is_live.then_some((position, i32::from_be_bytes(value)))
        });
        elements.collect()
    }
}

/// Returns, in ascending order, the rows that the restrictions name one by one, each as the values
/// of all clustering columns, whose number is `columns`. Returns `None` for a range of rows: a
/// slice, or values of fewer columns.
pub fn named(restrictions: &[Restriction], columns: usize) -> Option<Vec<Vec<i32>>> {
    let mut rows = vec![Vec::new()];
    for restriction in restrictions {
        let tuples: Vec<Vec<i32>> = match &restriction.test {
            Test::Values(values) => values.iter().map(|value| vec![*value]).collect(),
            Test::Tuples(tuples) => tuples.clone(),
            Test::Slice(..) | Test::TupleSlice(..) => return None,
        };
        let longer = |row: &Vec<i32>| {
            let row = row.clone();
            let tuples = tuples.iter();
            tuples
                .map(move |tuple| [&row[..], tuple].concat())
                .collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(longer).collect();
    }
    rows.sort();
    rows.dedup();
    (rows[0].len() == columns).then_some(rows)
}

/// Excludes the ends of a range, for the deliberate mistake [`Flaw::RangesAreOpen`].
fn open(restriction: &mut Restriction) {
    match &mut restriction.test {
        Test::Slice(lower, upper) => {
            for bound in [lower, upper].into_iter().flatten() {
                bound.1 = false;
            }
        }
        Test::TupleSlice(lower, upper) => {
            for bound in [lower, upper].into_iter().flatten() {
                bound.1 = false;
            }
        }
        _ => {}
    }
}

/// Shortens both ends of a restriction on tuples, such as `(c, d) > (1, 2)`, to their first column,
/// for the deliberate mistake [`Flaw::TupleSlicesByFirst`].
pub fn shorten(restriction: &mut Restriction) {
    if let Test::TupleSlice(lower, upper) = &mut restriction.test {
        for (bound, _) in [lower, upper].into_iter().flatten() {
            bound.truncate(1);
        }
    }
}
