//! The markers of a statement: the receiver of each, and the values bound to them.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use ebb_cql::protocol::{ColumnSpec, Columns, Value, Values};
use ebb_cql::syntax::ast::{Marker, Name};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::CqlType;

use super::volatile::VolatileCalls;
use crate::error::{Result, invalid};
use crate::functions::Function;
use crate::memory::Memory;

/// The column, field, argument or limit that a value is for.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// The name in error messages and in the metadata of markers.
    pub name: String,
    pub ty: CqlType,
}

impl Receiver {
    pub fn new(name: impl Into<String>, ty: CqlType) -> Self {
        let name = name.into();
        Self { name, ty }
    }
}

/// For each marker (`?` or `:name`) of a statement, its receiver: the column, argument or limit
/// that the value is for. The analysis of the statement fills in the receivers, and also counts
/// here the memory and the volatile calls of the statement's plan.
#[derive(Debug)]
pub struct Markers {
    schema: Arc<TableSchema>,
    names: Vec<Option<Name>>,
    receivers: Vec<Option<Receiver>>,
    volatile: VolatileCalls,
    memory: Memory,
}

impl Markers {
    /// Creates the markers of a statement on a table. `names` has an element for each marker: its
    /// name, if the marker has one.
    pub fn new(schema: &Arc<TableSchema>, names: &[Option<Name>]) -> Self {
        Self {
            schema: schema.clone(),
            names: names.to_vec(),
            receivers: names.iter().map(|_| None).collect(),
            volatile: VolatileCalls::default(),
            memory: Memory::default(),
        }
    }

    /// Returns the counter of the memory that the statement takes beyond what is proportional to
    /// its text, for example for the types of its markers.
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Sets the receiver (the column, argument or limit for the value) of a marker. Ignores a
    /// marker whose index is beyond those of the statement.
    ///
    /// # Errors
    /// If the names of the receivers take too much memory.
    pub fn set(&mut self, marker: &Marker, receiver: &Receiver) -> Result<()> {
        if let Some(place) = self.receivers.get_mut(usize::from(marker.index)) {
            self.memory.take(receiver.name.len())?;
            *place = Some(receiver.clone());
        }
        Ok(())
    }

    /// Adds a call of a volatile function to the statement, and returns the index of the call among
    /// the statement's volatile calls.
    pub fn call_volatile(&mut self, function: Function) -> usize {
        self.volatile.push(function)
    }

    /// Removes and returns the volatile calls that were added since the last call of this method:
    /// those of the statement that was just analysed. Each statement of a batch has calls of its
    /// own.
    pub fn take_volatile(&mut self) -> VolatileCalls {
        std::mem::take(&mut self.volatile)
    }

    /// Returns the types of all markers, in the order of the markers. A marker without a receiver
    /// has the type blob.
    pub fn types(&self) -> Vec<CqlType> {
        let ty = |receiver: &Option<Receiver>| match receiver {
            Some(receiver) => receiver.ty.clone(),
            None => CqlType::Blob,
        };
        self.receivers.iter().map(ty).collect()
    }

    /// Returns the indexes of the markers that provide the columns of the partition key, in the
    /// order of the key. Empty unless every column has a marker. `of` returns the index of the
    /// marker for a column name.
    pub fn partition_key(&self, of: impl Fn(&str) -> Option<u16>) -> Vec<u16> {
        let columns = self.schema.columns_of(ColumnKind::PartitionKey).iter();
        let places: Option<Vec<u16>> = columns.map(|column| of(&column.name)).collect();
        places.unwrap_or_default()
    }

    /// Returns the metadata of all markers, as a response to PREPARE contains it.
    ///
    /// # Errors
    /// If the metadata take too much memory, or the timeout of the statement.
    pub fn columns(&mut self) -> Result<Columns> {
        let types = self.types();
        let specs: Vec<ColumnSpec<'_>> = (0..types.len())
            .map(|at| ColumnSpec {
                keyspace: self.schema.keyspace(),
                table: self.schema.name(),
                name: match (&self.names[at], &self.receivers[at]) {
                    (Some(name), _) => name.as_str(),
                    (None, Some(receiver)) => &receiver.name,
                    (None, None) => "?",
                },
                ty: &types[at],
            })
            .collect();
        self.memory.columns(&specs)
    }
}

/// The number of bytes, for each byte of a function's arguments, that the function's result may
/// have before it counts towards the memory of the statement. The limit on the length of a request
/// already limits that many bytes.
const BYTES_PER_ARGUMENT_BYTE: usize = 4;

/// The values bound to the markers of a statement, in the order of the markers.
#[derive(Debug, Clone, Default)]
pub struct Bound<'v> {
    /// The values of the request. Shared, because all statements of a batch, or all rows of a
    /// statement, up to 65,535, use them.
    values: Arc<[Value<'v>]>,
    /// For an INSERT JSON, the index of its first value, and the values that its JSON text
    /// contains. These values are not bound to markers; their indexes follow those of the markers.
    json: Option<(usize, Vec<Value<'v>>)>,
    /// The time of the execution, in microseconds since 1970. `now()` and similar functions compute
    /// their results from it.
    pub now_us: i64,
    /// The statement's calls of volatile functions, such as `uuid()`, whose result differs from
    /// call to call; `None` if it has none.
    volatile: Option<&'v VolatileCalls>,
    /// The results of the calls in `volatile`, in order.
    called: Vec<Option<Vec<u8>>>,
    /// The bytes of the function results that the execution has in memory at present. Only the
    /// bytes beyond [`BYTES_PER_ARGUMENT_BYTE`] for each byte of the arguments count. `fromJson`
    /// has such long results, because it adds a null for each field that a JSON object omits.
    results: Cell<Memory>,
}

impl<'v> Bound<'v> {
    /// Binds the values of a request. Named values are bound to the markers of the same names; values
    /// with other names are ignored.
    ///
    /// # Errors
    /// If there are not as many values without names as markers, or a named marker has no value. Also
    /// an error if the markers repeat named values of too many bytes.
    pub fn new(values: Values<'v>, markers: &Columns, now_us: i64) -> Result<Self> {
        let bound = |values| Self {
            values,
            now_us,
            ..Self::default()
        };
        if values.is_empty() && markers.is_empty() {
            return Ok(bound(Arc::default()));
        }
        if !values.is_named() {
            if values.len() != markers.len() {
                return invalid("Invalid amount of bind variables");
            }
            let values = values.iter().map(|(_, value)| value).collect();
            return Ok(bound(values));
        }
        let mut named = HashMap::with_capacity(values.len());
        for (name, value) in values.iter() {
            // The first of two values with the same name counts.
            let name = name.unwrap_or_default();
            named.entry(name).or_insert((value, false));
        }
        // A literal copies the value of each of its markers, and 65,535 of them may have one name.
        let mut memory = Memory::default();
        let by_place = markers.iter().map(|marker| {
            let Some((value, is_used)) = named.get_mut(marker.name) else {
                return invalid("Invalid amount of bind variables");
            };
            if let (true, Value::Bytes(bytes)) = (*is_used, *value) {
                memory.take(bytes.len())?;
            }
            *is_used = true;
            Ok(*value)
        });
        Ok(bound(by_place.collect::<Result<_>>()?))
    }

    /// Calls the volatile functions of a statement: once in each execution, before the terms of the
    /// statement are evaluated.
    ///
    /// # Errors
    /// If the statement's time is over.
    pub fn calling(self, volatile: &'v VolatileCalls) -> Result<Self> {
        if volatile.is_empty() {
            return Ok(self);
        }
        Ok(Self {
            volatile: Some(volatile),
            called: volatile.call(self.now_us)?,
            ..self
        })
    }

    /// Returns the bound values for one of the rows that a statement changes; the first row has
    /// number 0. As in Cassandra, a volatile function returns a new value for each row.
    ///
    /// # Errors
    /// If the statement's time is over.
    pub fn for_row(&self, number: usize) -> Result<Cow<'_, Self>> {
        match self.volatile {
            Some(volatile) if number > 0 => {
                let same = Self {
                    values: Arc::clone(&self.values),
                    json: self.json.clone(),
                    now_us: self.now_us,
                    results: self.results.clone(),
                    ..Self::default()
                };
                same.calling(volatile).map(Cow::Owned)
            }
            _ => Ok(Cow::Borrowed(self)),
        }
    }

    /// Returns the bound values of the first `markers` markers, followed by the values of a row of
    /// INSERT JSON.
    pub fn with_json(&self, markers: usize, row: impl Iterator<Item = Value<'v>>) -> Self {
        Self {
            json: Some((markers, row.collect())),
            ..self.clone()
        }
    }

    /// Counts the result of a function, which has `bytes` bytes and was computed from arguments of
    /// `args_bytes` bytes in total. The result counts until the innermost call of
    /// [`dropping`](Self::dropping) ends, or without such a call until the execution ends.
    ///
    /// # Errors
    /// If the results that the execution has at once take too much memory.
    pub fn count_result(&self, bytes: usize, args_bytes: usize) -> Result<()> {
        let mut results = self.results.get();
        results.take(bytes.saturating_sub(BYTES_PER_ARGUMENT_BYTE * args_bytes))?;
        self.results.set(results);
        Ok(())
    }

    /// Runs `work`, and then removes the function results that `work` has added from the count. By
    /// then, `work` must have dropped these results, or another limit must count them. An execution
    /// may evaluate terms anew for each row or attempt, but has the results of only one row or
    /// attempt in memory.
    pub fn dropping<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.results.get();
        let done = work();
        self.results.set(before);
        done
    }

    pub fn value(&self, index: u16) -> Value<'v> {
        let index = usize::from(index);
        let value = match &self.json {
            Some((from, row)) if index >= *from => row.get(index - from),
            _ => self.values.get(index),
        };
        value.copied().unwrap_or(Value::Null)
    }

    /// Returns the result of the statement's call number `place`, counted from 0, of a volatile
    /// function such as `uuid()`; `None` if the call returned null.
    ///
    /// # Panics
    /// If the volatile functions of the statement have not been called yet.
    pub fn called(&self, place: usize) -> Option<&[u8]> {
        let value = self.called.get(place);
        let value = value.expect("volatile functions are called before terms are evaluated");
        value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use ebb_cql::protocol::ValuesBuf;
    use ebb_cql::syntax::ast::{QualifiedName, Statement};
    use ebb_cql::syntax::parse;

    use super::*;
    use crate::analyse::select::SelectPlan;
    use crate::executor::harness::Server;
    use crate::functions::find;
    use crate::memory::BYTES_MAX;

    /// Regression: each of 20,000 statements of a batch had a copy of all values.
    #[test]
    fn the_values_of_a_request_are_shared_by_its_statements_and_rows() {
        let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY)"]);
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema().clone();
        let mut values = ValuesBuf::new();
        values.push_named("b", Value::Bytes(b"2"));
        values.push_named("a", Value::Bytes(b"1"));
        values.push_named("a", Value::Null);
        let names = ["a", "b", "a"].map(|name| Some(Name::new(name)));
        let columns = Markers::new(&schema, &names).columns().unwrap();
        let bound = Bound::new(values.as_values(), &columns, 7).unwrap();
        let of = |bound: &Bound<'_>, index| match bound.value(index) {
            Value::Bytes(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        // The first of two values with the same name counts.
        assert_eq!([0, 1, 2, 3].map(|at| of(&bound, at)).concat(), b"121");
        let no_args: [String; 0] = [];
        let name = QualifiedName::from(Name::new("uuid"));
        let uuid = find(&name, &schema, &no_args, |_, _| Ok(true), |_, _| Ok(true)).unwrap();
        let mut calls = VolatileCalls::default();
        calls.push(uuid);
        let called = bound.clone().calling(&calls).unwrap();
        let next = called.for_row(1).unwrap();
        assert_ne!(next.called(0), called.called(0));
        assert_eq!(next.now_us, 7);
        // The values of INSERT JSON stand behind those of all markers.
        let with_json = bound.with_json(3, [Value::Bytes(b"9")].into_iter());
        assert_eq!(
            [0, 1, 2, 3, 4].map(|at| of(&with_json, at)).concat(),
            b"1219"
        );
        for other in [&called, &*next, &with_json] {
            assert!(Arc::ptr_eq(&other.values, &bound.values));
        }
    }

    /// Regression: thousands of markers of one name repeated a value of megabytes, and a literal of
    /// these markers took gigabytes.
    #[test]
    fn the_repetitions_of_a_named_value_have_a_limited_size() {
        let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY)"]);
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema();
        let value = vec![0_u8; 1 << 20];
        let mut values = ValuesBuf::new();
        values.push_named("a", Value::Bytes(&value));
        let is_bound = |uses: usize| {
            let names = vec![Some(Name::new("a")); uses];
            let columns = Markers::new(schema, &names).columns().unwrap();
            Bound::new(values.as_values(), &columns, 7).is_ok()
        };
        let repetitions = BYTES_MAX / value.len();
        assert!(is_bound(1 + repetitions));
        assert!(!is_bound(2 + repetitions));
    }

    #[test]
    fn the_result_of_a_function_counts_until_it_is_dropped() {
        let bound = Bound::default();
        // Only what a result has beyond `limited` bytes counts.
        let (args_bytes, limited) = (10, 10 * BYTES_PER_ARGUMENT_BYTE);
        (bound.count_result(limited + BYTES_MAX - 1, args_bytes)).unwrap();
        for _ in 0..2 {
            assert!(bound.dropping(|| bound.count_result(1, 0)).is_ok());
        }
        assert!(bound.dropping(|| bound.count_result(2, 0)).is_err());
        // A copy for a part of the statement begins with what the statement has already.
        assert!(bound.clone().count_result(2, 0).is_err());
        bound.count_result(1, 0).unwrap();
        assert!(bound.count_result(1, 0).is_err());
    }

    /// Returns the types of the fields of a tuple, or of the tuples in a list.
    fn types_of(ty: &CqlType) -> &Arc<[CqlType]> {
        match ty {
            CqlType::Tuple(types) => types,
            CqlType::List { element, .. } => types_of(element),
            other => panic!("{other} contains no tuple"),
        }
    }

    /// Regression: each tuple's marker had a copy of the tuple's type, and each `IN ?` a copy of the
    /// column's type. Both may consist of thousands of types.
    #[test]
    fn the_types_of_markers_are_shared() {
        let server = Server::with(&[
            "CREATE TABLE t (k tuple<int, text>, a int, b int, PRIMARY KEY (k, a, b))",
        ]);
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema().clone();
        let text = "SELECT a FROM t WHERE k IN ? AND (a, b) IN (?, ?)";
        let parsed = parse(text).unwrap();
        let Statement::Select(select) = &parsed.statement else {
            panic!("{text} is no SELECT");
        };
        let mut markers = Markers::new(&schema, &parsed.markers);
        SelectPlan::new(select, &mut markers).unwrap();
        let types = markers.types();
        let column = schema.column("k").unwrap();
        assert!(Arc::ptr_eq(types_of(&types[0]), types_of(&column.ty)));
        assert!(Arc::ptr_eq(types_of(&types[1]), types_of(&types[2])));
    }
}
