//! The markers of a statement: what each stands for, and the values bound to them.

use std::sync::Arc;

use ebb_catalog::schema::{ColumnKind, TableSchema};
use ebb_catalog::types::CqlType;
use ebb_cql::protocol::{ColumnSpec, Columns, Value, Values};
use ebb_cql::syntax::ast::{Marker, Name};

use crate::error::{Result, invalid};

/// What a value is for: a column, a field, an argument, a limit.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// As messages and markers call it.
    pub name: String,
    /// What its values are.
    pub ty: CqlType,
}

impl Receiver {
    /// Of this name and type.
    pub fn new(name: impl Into<String>, ty: CqlType) -> Self {
        let name = name.into();
        Self { name, ty }
    }
}

/// What the markers of a statement stand for, as far as it is analysed.
#[derive(Debug)]
pub struct Markers {
    schema: Arc<TableSchema>,
    names: Vec<Option<Name>>,
    receivers: Vec<Option<Receiver>>,
}

impl Markers {
    /// Of a statement on a table, with the markers as the syntax found them.
    pub fn new(schema: &Arc<TableSchema>, names: &[Option<Name>]) -> Self {
        Self {
            schema: schema.clone(),
            names: names.to_vec(),
            receivers: names.iter().map(|_| None).collect(),
        }
    }

    /// The table that the statement is about.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Notes what a marker stands for; one behind those of the statement needs no note.
    pub fn set(&mut self, marker: &Marker, receiver: &Receiver) {
        if let Some(place) = self.receivers.get_mut(usize::from(marker.index)) {
            *place = Some(receiver.clone());
        }
    }

    /// The types of all markers, by their places. A marker that nothing has a type for
    /// takes any bytes.
    pub fn types(&self) -> Vec<CqlType> {
        let ty = |receiver: &Option<Receiver>| match receiver {
            Some(receiver) => receiver.ty.clone(),
            None => CqlType::Blob,
        };
        self.receivers.iter().map(ty).collect()
    }

    /// The places of the markers that give the columns of the partition key, in the key's
    /// order; empty unless all have one. `of` says it for one column.
    pub fn partition_key(&self, of: impl Fn(&str) -> Option<u16>) -> Vec<u16> {
        let columns = self.schema.columns_of(ColumnKind::PartitionKey).iter();
        let places: Option<Vec<u16>> = columns.map(|column| of(&column.name)).collect();
        places.unwrap_or_default()
    }

    /// All markers as they travel.
    pub fn columns(&self) -> Columns {
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
        Columns::new(&specs)
    }
}

/// The values bound to the markers of a statement, by their places.
#[derive(Debug, Clone, Default)]
pub struct Bound<'v> {
    values: Vec<Value<'v>>,
    /// Microseconds since 1970 at which the statement is executed: what `now()` says.
    pub now_us: i64,
}

impl<'v> Bound<'v> {
    /// The values of a request, those with names brought to the places of their markers.
    ///
    /// # Errors
    /// Where there are not as many as markers, or one of them has no value.
    pub fn new(values: Values<'v>, markers: &Columns, now_us: i64) -> Result<Self> {
        if values.is_empty() && markers.is_empty() {
            let values = Vec::new();
            return Ok(Self { values, now_us });
        }
        if !values.is_named() {
            if values.len() != markers.len() {
                return invalid("Invalid amount of bind variables");
            }
            let values = values.iter().map(|(_, value)| value).collect();
            return Ok(Self { values, now_us });
        }
        let named: Vec<_> = values.iter().collect();
        let by_place = markers.iter().map(|marker| {
            let found = named.iter().find(|(name, _)| *name == Some(marker.name));
            match found {
                Some((_, value)) => Ok(*value),
                None => invalid("Invalid amount of bind variables"),
            }
        });
        let values = by_place.collect::<Result<_>>()?;
        Ok(Self { values, now_us })
    }

    /// These values at the first `markers` places, and others behind them.
    pub fn with(&self, markers: usize, others: impl Iterator<Item = Value<'v>>) -> Self {
        let mut values = self.values.clone();
        values.resize(markers, Value::Null);
        values.extend(others);
        let now_us = self.now_us;
        Self { values, now_us }
    }

    /// The value of a marker.
    pub fn value(&self, index: u16) -> Value<'v> {
        let value = self.values.get(usize::from(index)).copied();
        value.unwrap_or(Value::Null)
    }
}
