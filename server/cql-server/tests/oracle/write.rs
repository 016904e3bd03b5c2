//! Writes, as data and as text.

use super::conditional::If;
use super::restriction::Where;
use super::schema::{ColumnId, Schema};
use super::text::Text;
use super::value::{FIELDS, Type, Value};

/// INSERT, UPDATE or DELETE.
#[derive(Debug, Clone)]
pub struct Write {
    pub what: What,
    /// The timestamp of USING TIMESTAMP, if there is one.
    pub timestamp_us: Option<i64>,
    /// The seconds of USING TTL; zero turns the table's default TTL off. `None` without USING TTL:
    /// then the default TTL applies.
    pub ttl_s: Option<i64>,
    pub condition: Option<If>,
}

#[derive(Debug, Clone)]
pub enum What {
    Insert {
        partition: Vec<i32>,
        /// The clustering of the row; `None` if only static columns are written.
        clustering: Option<Vec<i32>>,
        values: Vec<(ColumnId, Option<Value>)>,
    },
    Update {
        at: Where,
        changes: Vec<(ColumnId, Change)>,
    },
    /// Deletes these parts of columns; without parts, whole rows.
    Delete {
        at: Where,
        parts: Vec<(ColumnId, Part)>,
    },
}

/// The change of a column by UPDATE.
#[derive(Debug, Clone)]
pub enum Change {
    Set(Option<Value>),
    /// Adds elements at the end of a list, members of a set, or entries of a map.
    Add(Value),
    /// Adds elements at the front of a list.
    Prepend(Vec<i32>),
    /// Removes the elements with these values from a list, these members from a set, or these keys
    /// from a map.
    Remove(Vec<i32>),
    SetIndex(usize, Option<i32>),
    SetKey(i32, Option<i32>),
    SetField(usize, Option<i32>),
}

/// The part of a column that DELETE removes.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Whole,
    Index(usize),
    Key(i32),
    Field(usize),
}

impl Write {
    /// Returns whether the write adds elements to lists.
    pub fn adds_to_lists(&self, schema: &Schema) -> bool {
        let is_list = |id: &ColumnId| {
            schema
                .column(*id)
                .is_some_and(|column| column.ty == Type::List)
        };
        match &self.what {
            What::Insert { values, .. } => values.iter().any(|(id, _)| is_list(id)),
            What::Update { changes, .. } => changes.iter().any(|(id, change)| {
                let adds = matches!(change, Change::Set(_) | Change::Add(_) | Change::Prepend(_));
                adds && is_list(id)
            }),
            What::Delete { .. } => false,
        }
    }

    /// Returns the name and the type of a column, which must exist in the table.
    fn name(schema: &Schema, id: ColumnId) -> (&str, Type) {
        let column = schema.column(id).expect("a column of the table");
        (&column.name, column.ty)
    }

    /// Returns whether the table still has all columns that the statement names.
    pub fn fits(&self, schema: &Schema) -> bool {
        let has = |id: &ColumnId| schema.column(*id).is_some();
        let condition_fits = |condition: &If| condition.fits(schema);
        if !self.condition.as_ref().is_none_or(condition_fits) {
            return false;
        }
        match &self.what {
            What::Insert { values, .. } => values.iter().all(|(id, _)| has(id)),
            What::Update { changes, .. } => changes.iter().all(|(id, _)| has(id)),
            What::Delete { parts, .. } => parts.iter().all(|(id, _)| has(id)),
        }
    }

    pub fn write(&self, schema: &Schema, text: &mut Text) {
        match &self.what {
            What::Insert {
                partition,
                clustering,
                values,
            } => {
                let mut names: Vec<&str> = schema.partition_names().to_vec();
                if clustering.is_some() {
                    names.extend(schema.clustering_names());
                }
                names.extend(values.iter().map(|(id, _)| Self::name(schema, *id).0));
                text.push(&format!("INSERT INTO ks.t ({}) VALUES (", names.join(", ")));
                text.list(partition, |text, value| text.int(*value));
                let row = clustering.as_deref().unwrap_or_default();
                for (column, value) in schema.clustering.iter().zip(row) {
                    text.push(", ");
                    column.write(*value, text);
                }
                for (id, value) in values {
                    text.push(", ");
                    text.value(Self::name(schema, *id).1, value.as_ref());
                }
                text.push(")");
                self.write_if(schema, text);
                self.using(text);
            }
            What::Update { at, changes } => {
                text.push("UPDATE ks.t");
                self.using(text);
                text.push(" SET ");
                text.list(changes, |text, (id, change)| {
                    let (name, ty) = Self::name(schema, *id);
                    change.write(name, ty, text);
                });
                at.write(schema, text);
                self.write_if(schema, text);
            }
            What::Delete { at, parts } => {
                text.push("DELETE ");
                text.list(parts, |text, (id, part)| {
                    text.push(Self::name(schema, *id).0);
                    match part {
                        Part::Whole => {}
                        Part::Index(index) => text.push(&format!("[{index}]")),
                        Part::Key(key) => {
                            text.push("[");
                            text.int(*key);
                            text.push("]");
                        }
                        Part::Field(field) => text.push(&format!(".{}", FIELDS[*field])),
                    }
                });
                text.push(" FROM ks.t");
                self.using(text);
                at.write(schema, text);
                self.write_if(schema, text);
            }
        }
    }

    fn write_if(&self, schema: &Schema, text: &mut Text) {
        if let Some(condition) = &self.condition {
            condition.write(schema, text);
        }
    }

    fn using(&self, text: &mut Text) {
        let parts = [("TIMESTAMP", self.timestamp_us), ("TTL", self.ttl_s)];
        let mut and = " USING";
        for (name, value) in parts {
            if let Some(value) = value {
                text.push(&format!("{and} {name} {value}"));
                and = " AND";
            }
        }
    }
}

impl Change {
    fn write(&self, name: &str, ty: Type, text: &mut Text) {
        let list = |values: &[i32]| Value::List(values.to_vec());
        let int = |value: &Option<i32>| value.map(Value::Int);
        match self {
            Self::Set(value) => {
                text.push(&format!("{name} = "));
                text.value(ty, value.as_ref());
            }
            Self::Add(value) => {
                text.push(&format!("{name} = {name} + "));
                text.value(ty, Some(value));
            }
            Self::Prepend(values) => {
                text.push(&format!("{name} = "));
                text.value(ty, Some(&list(values)));
                text.push(&format!(" + {name}"));
            }
            Self::Remove(values) => {
                text.push(&format!("{name} = {name} - "));
                let (ty, values) = match ty {
                    Type::List => (ty, list(values)),
                    _ => (Type::Set, Value::Set(values.clone())),
                };
                text.value(ty, Some(&values));
            }
            Self::SetIndex(index, value) => {
                text.push(&format!("{name}[{index}] = "));
                text.value(Type::Int, int(value).as_ref());
            }
            Self::SetKey(key, value) => {
                text.push(&format!("{name}["));
                text.int(*key);
                text.push("] = ");
                text.value(Type::Int, int(value).as_ref());
            }
            Self::SetField(field, value) => {
                text.push(&format!("{name}.{} = ", FIELDS[*field]));
                text.value(Type::Int, int(value).as_ref());
            }
        }
    }
}
