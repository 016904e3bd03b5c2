//! Random writes.

use rand::RngExt as _;

use super::{Generator, KEYS};
use crate::schema::Column;
use crate::value::{FIELDS, Type, Value};
use crate::write::{Change, Part, What, Write};

impl Generator {
    pub(super) fn value(&mut self, ty: Type) -> Value {
        let mut keys: Vec<i32> = (0..3).filter(|_| self.rng.random_bool(0.5)).collect();
        match ty {
            Type::Int => Value::Int(self.int()),
            Type::List | Type::FrozenList => Value::List(self.ints()),
            Type::Set => Value::Set(std::mem::take(&mut keys)),
            Type::Map => Value::Map(keys.into_iter().map(|key| (key, self.int())).collect()),
            Type::Udt | Type::FrozenUdt | Type::Tuple => {
                let mut fields = Vec::new();
                for _ in FIELDS {
                    let field = self.int();
                    fields.push(self.or_null(field));
                }
                Value::Fields(fields)
            }
        }
    }

    pub(super) fn write(&mut self) -> Write {
        let ttl_s = self.rng.random_bool(0.25);
        let ttl_s = ttl_s.then(|| self.rng.random_range(0..12));
        let (what, takes_ttl) = match self.rng.random_range(0..10) {
            0..4 => (self.insert(), true),
            4..7 => (self.update(), true),
            7 => (self.delete_parts(), false),
            _ => (self.delete(), false),
        };
        Write {
            what,
            timestamp_us: None,
            ttl_s: ttl_s.filter(|_| takes_ttl),
            condition: None,
        }
    }

    /// Draws some of the table's columns: static ones if `statics`, regular ones if `regular`.
    pub(super) fn columns(&mut self, statics: bool, regular: bool) -> Vec<Column> {
        let is_asked = |column: &&Column| if column.is_static { statics } else { regular };
        let all: Vec<Column> = self
            .schema
            .columns
            .iter()
            .filter(is_asked)
            .cloned()
            .collect();
        if all.is_empty() {
            return all;
        }
        let first = self.rng.random_range(0..all.len());
        let count = self.rng.random_range(1..4).min(all.len());
        let some = all.iter().cycle().skip(first).take(count);
        some.cloned().collect()
    }

    pub(super) fn insert(&mut self) -> What {
        let partition = self.key();
        let only_statics = self.schema.statics().next().is_some() && self.rng.random_bool(0.15);
        let clustering = (!only_statics).then(|| {
            let columns = self.schema.clustering.len();
            (0..columns)
                .map(|_| self.rng.random_range(0..KEYS))
                .collect()
        });
        let mut values = Vec::new();
        if only_statics || self.rng.random_bool(0.9) {
            for column in self.columns(true, !only_statics) {
                let value = self.value(column.ty);
                values.push((column.id, self.or_null(value)));
            }
        }
        What::Insert {
            partition,
            clustering,
            values,
        }
    }

    pub(super) fn update(&mut self) -> What {
        let of_statics = self.schema.statics().next().is_some() && self.rng.random_bool(0.15);
        let and_statics = self.rng.random_bool(0.3);
        let mut columns = self.columns(of_statics || and_statics, !of_statics);
        if !of_statics && columns.iter().all(|column| column.is_static) {
            columns = self.columns(false, true);
        }
        let changes = columns
            .iter()
            .map(|column| (column.id, self.change(column.ty)));
        let changes = changes.collect();
        let mut at = self.partitions_named();
        if !of_statics {
            at.clustering = self.named_rows();
        }
        What::Update { at, changes }
    }

    pub(super) fn change(&mut self, ty: Type) -> Change {
        let whole = self.value(ty);
        if !ty.is_multi_cell() || self.rng.random_bool(0.25) {
            return Change::Set(self.or_null(whole));
        }
        let value = self.int();
        let value = self.or_null(value);
        match (ty, self.rng.random_range(0..4)) {
            (Type::List, 0) => Change::Add(whole),
            (Type::List, 1) => Change::Prepend(self.ints()),
            (Type::List, 2) => Change::SetIndex(self.rng.random_range(0..4), value),
            (Type::List, _) => Change::Remove(self.ints()),
            (Type::Map, 0) => Change::SetKey(self.rng.random_range(0..3), value),
            (Type::Set | Type::Map, 1) => {
                Change::Remove((0..3).filter(|_| self.rng.random_bool(0.3)).collect())
            }
            (Type::Set | Type::Map, _) => Change::Add(whole),
            _ => Change::SetField(self.rng.random_range(0..FIELDS.len()), value),
        }
    }

    pub(super) fn delete_parts(&mut self) -> What {
        let of_statics = self.schema.statics().next().is_some() && self.rng.random_bool(0.2);
        let columns = self.columns(of_statics, !of_statics);
        let mut parts = Vec::new();
        for column in columns {
            let whole = self.rng.random_bool(0.4);
            let part = match column.ty {
                _ if whole => Part::Whole,
                Type::List => Part::Index(self.rng.random_range(0..3)),
                Type::Set | Type::Map => Part::Key(self.rng.random_range(0..3)),
                Type::Udt => Part::Field(self.rng.random_range(0..FIELDS.len())),
                _ => Part::Whole,
            };
            parts.push((column.id, part));
        }
        let mut at = self.partitions_named();
        if !of_statics {
            at.clustering = self.named_rows();
        }
        What::Delete { at, parts }
    }

    pub(super) fn delete(&mut self) -> What {
        let mut at = self.partitions_named();
        match self.rng.random_range(0..10) {
            0 => {}
            1..5 => at.clustering = self.named_rows(),
            _ => at.clustering = self.range_of_rows(),
        }
        What::Delete {
            at,
            parts: Vec::new(),
        }
    }
}
