//! Random types, and statements about user-defined types.

use rand::RngExt as _;

use super::Generator;
use crate::definitions::model::Model;
use crate::definitions::names::{COLUMNS, TYPES};
use crate::definitions::statement::Statement;
use crate::definitions::types::{NATIVE, Type, Types};

/// The greatest size of most generated types. The size of a type is the number of types that it
/// consists of, including those of the fields of user-defined types.
const NODES_MAX: usize = 60;
/// The greatest size, as a number of types, of the few generated types that may be large. The limit
/// of the server is lower.
const NODES_ANY_MAX: usize = 6000;
/// The most collections, tuples and user-defined types within each other in an element of a
/// generated collection, without those in the fields of user-defined types. The few types with a
/// depth in `DEPTHS_DEEP` have more.
const DEPTH_MAX: usize = 3;
/// The numbers of lists within each other in a few types. The server permits 49 such frozen lists.
const DEPTHS_DEEP: std::ops::Range<usize> = 45..54;

impl Generator {
    pub(super) fn create_type(&mut self, model: &Model) -> Statement {
        let name = self.new_name(model, TYPES);
        let types = model.types(&name.keyspace);
        let count = self.rng.random_range(1..4);
        let names = self.different_names(COLUMNS, count).into_iter();
        Statement::CreateType {
            fields: names.map(|field| (field, self.field_type(types))).collect(),
            if_not_exists: self.chance(0.2),
            name,
        }
    }

    pub(super) fn add_field(&mut self, model: &Model) -> Statement {
        let name = self.user_type(model);
        Statement::AddField {
            field: self.some_name(COLUMNS),
            ty: self.field_type(model.types(&name.keyspace)),
            name,
        }
    }

    pub(super) fn rename_fields(&mut self, model: &Model) -> Statement {
        let name = self.user_type(model);
        let fields = model.types(&name.keyspace).get(&name.name).into_iter();
        let fields: Vec<String> = fields.flatten().map(|(field, _)| field.clone()).collect();
        let count = self.rng.random_range(1..3);
        let pairs = (0..count).map(|_| {
            let from = self.one_of(&fields);
            let from = from.unwrap_or_else(|| self.some_name(COLUMNS));
            (from, self.some_name(COLUMNS))
        });
        let fields = pairs.collect();
        Statement::RenameFields { name, fields }
    }

    pub(super) fn drop_type(&mut self, model: &Model) -> Statement {
        Statement::DropType {
            name: self.user_type(model),
            if_exists: self.chance(0.2),
        }
    }

    /// Draws the type of a field.
    fn field_type(&mut self, types: &Types) -> Type {
        let ty = self.column_type(types);
        match ty {
            // A user-defined type within another one has to be frozen.
            Type::User(_) if self.chance(0.95) => Type::Frozen(Box::new(ty)),
            ty => ty,
        }
    }

    /// Draws the type of a column outside of the primary key.
    pub(super) fn column_type(&mut self, types: &Types) -> Type {
        if self.chance(0.08) {
            return self.any_type(DEPTH_MAX);
        }
        let ty = match self.rng.random_range(0..11) {
            0..4 => self.native(),
            4 => Type::List(Box::new(self.frozen_type(types, DEPTH_MAX))),
            5 => Type::Set(Box::new(self.frozen_type(types, DEPTH_MAX))),
            6 => {
                let key = self.frozen_type(types, 1);
                Type::Map(Box::new(key), Box::new(self.frozen_type(types, DEPTH_MAX)))
            }
            7 | 8 => match self.key_of(types) {
                Some(name) => Type::User(name),
                None => self.native(),
            },
            _ => self.frozen_type(types, DEPTH_MAX),
        };
        self.of_fair_size(ty, types)
    }

    /// Draws the type of a column of the primary key.
    pub(super) fn key_type(&mut self, types: &Types) -> Type {
        if self.chance(0.05) {
            return self.column_type(types);
        }
        let depth = if self.chance(0.6) { 0 } else { 2 };
        let ty = self.frozen_type(types, depth);
        self.of_fair_size(ty, types)
    }

    /// Draws a type that may be used within other types.
    fn frozen_type(&mut self, types: &Types, depth: usize) -> Type {
        if depth == 0 || self.chance(0.35) {
            return self.native();
        }
        let depth = depth - 1;
        let ty = match self.rng.random_range(0..7) {
            0 => Type::List(Box::new(self.frozen_type(types, depth))),
            1 => Type::Set(Box::new(self.frozen_type(types, depth))),
            2 => {
                let key = self.frozen_type(types, depth);
                Type::Map(Box::new(key), Box::new(self.frozen_type(types, depth)))
            }
            3 => {
                // Some types of types grow fast.
                let part = self.frozen_type(types, depth);
                let count = if self.chance(0.3) { 8 } else { 2 };
                Type::Tuple(vec![part; count])
            }
            _ => match self.key_of(types) {
                Some(name) => Type::User(name),
                None => return self.native(),
            },
        };
        Type::Frozen(Box::new(ty))
    }

    /// Draws any type, valid or not.
    fn any_type(&mut self, depth: usize) -> Type {
        let below = depth.saturating_sub(1);
        match self.rng.random_range(0..12) {
            0..3 if depth > 0 => {
                let inner = Box::new(self.any_type(below));
                match self.rng.random_range(0..4) {
                    0 => Type::List(inner),
                    1 => Type::Set(inner),
                    2 => Type::Frozen(inner),
                    _ => Type::Tuple(vec![*inner]),
                }
            }
            3 | 4 if depth > 0 => {
                let key = Box::new(self.any_type(below));
                Type::Map(key, Box::new(self.any_type(below)))
            }
            5 => {
                let mut ty = Type::Native("int");
                for _ in 0..self.rng.random_range(DEPTHS_DEEP) {
                    ty = Type::List(Box::new(ty));
                }
                Type::Frozen(Box::new(ty))
            }
            6..9 => Type::User(self.some_name(TYPES)),
            9 => Type::Native("counter"),
            10 => Type::Native("duration"),
            _ => self.native(),
        }
    }

    /// Draws a native type, never a counter and seldom a duration.
    fn native(&mut self) -> Type {
        Type::Native(match self.pick(&NATIVE) {
            "counter" => "int",
            "duration" if self.chance(0.6) => "int",
            other => other,
        })
    }

    /// Returns the type or, if it is too large, a native type.
    fn of_fair_size(&mut self, ty: Type, types: &Types) -> Type {
        let max = if self.chance(0.15) {
            NODES_ANY_MAX
        } else {
            NODES_MAX
        };
        if ty.nodes(types, max + 1) > max {
            self.native()
        } else {
            ty
        }
    }
}
