//! Random trees: any that the parser can return, with markers numbered in the order of printing.

mod access;
mod definition;
mod relation;
mod select;
mod term;
mod write;

use ebb_model::types::CqlType;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::syntax::ast::*;

/// A generator of random syntax trees of bounded height.
pub(super) struct Maker<R> {
    pub rng: R,
    pub markers: Vec<Option<Name>>,
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "key",
    "ttl",
    "json",
    "distinct",
    "count",
    "writetime",
    "cast",
    "token",
    "select",
    "table",
    "Upper",
    "with space",
    "qu\"ote",
    "ks@s",
    "é",
    "int",
    "varchar",
    "enum",
    "values",
    "keys",
    "exists",
    "static",
    "frozen",
    "list",
    "set",
    "type",
    "cluster",
    "tables",
    "snapshot",
    "compact",
    "true",
    "nan",
    "as",
    "in",
    "per",
    "filtering",
    "p1y",
    "_x",
    "1a",
    "max_age",
    "only",
    "all",
    "role",
    "permission",
    "mbean",
];

impl<R: Rng> Maker<R> {
    fn chance(&mut self, of: u32) -> bool {
        self.rng.random_range(0..of) == 0
    }

    fn many<T>(&mut self, least: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = self.rng.random_range(least..least + 3);
        (0..len).map(|_| make(self)).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.chance(2) {
            Some(make(self))
        } else {
            None
        }
    }

    fn name(&mut self) -> Name {
        Name::new(*NAMES.choose(&mut self.rng).unwrap())
    }

    /// Returns the name of a column for a statement that does not define, rename or drop it. Only
    /// in such a statement may the name of a column be empty.
    fn column(&mut self) -> Name {
        if self.chance(20) {
            Name::new("")
        } else {
            self.name()
        }
    }

    fn qualified(&mut self) -> QualifiedName {
        QualifiedName {
            keyspace: self.maybe(Self::name),
            name: self.name(),
        }
    }

    fn marker(&mut self) -> Marker {
        let name = self.maybe(Self::name);
        let index = self.markers.len() as u16;
        self.markers.push(name.clone());
        Marker { index, name }
    }

    fn constant(&mut self) -> Constant {
        let (kind, texts): (_, &[&str]) = match self.rng.random_range(0..7) {
            0 => (
                ConstantKind::String,
                &["", "it's", "--no; comment", "$$", "é\n", "a?:b"],
            ),
            1 => (
                ConstantKind::Integer,
                &["0", "-1", "99999999999999999999999"],
            ),
            2 => (
                ConstantKind::Float,
                &[
                    "1.5",
                    "-1.",
                    "1e9",
                    "-2.5E-7",
                    "NaN",
                    "Infinity",
                    "-Infinity",
                ],
            ),
            3 => (ConstantKind::Boolean, &["true", "false"]),
            4 => (
                ConstantKind::Uuid,
                &[
                    "123e4567-e89b-12d3-a456-426614174000",
                    "FFFFFFFF-0000-1000-8000-00000000000f",
                ],
            ),
            5 => (ConstantKind::Hex, &["0x", "0xCAFE", "0xabc"]),
            _ => (
                ConstantKind::Duration,
                &[
                    "1h30m",
                    "-2mo",
                    "5us",
                    "5\u{b5}s",
                    "PT5S",
                    "-P1Y2M3DT4H5M6S",
                    "P3W",
                    "P0001-02-03T04:05:06",
                ],
            ),
        };
        let text = texts.choose(&mut self.rng).unwrap();
        Constant {
            kind,
            text: (*text).to_owned(),
        }
    }

    fn native(&mut self) -> CqlType {
        CqlType::NATIVE.choose(&mut self.rng).unwrap().clone()
    }

    fn type_name(&mut self, height: u32) -> TypeName {
        let below = height.saturating_sub(1);
        match self.rng.random_range(0..if height == 0 { 4 } else { 10 }) {
            0 | 1 => TypeName::Native(self.native()),
            2 => TypeName::User(self.qualified()),
            3 => TypeName::Custom("org.apache.cassandra.db.marshal.It'sType".to_owned()),
            4 => TypeName::List(Box::new(self.type_name(below))),
            5 => TypeName::Set(Box::new(self.type_name(below))),
            6 => {
                let key = Box::new(self.type_name(below));
                TypeName::Map(key, Box::new(self.type_name(below)))
            }
            7 => TypeName::Tuple(self.many(1, |make| make.type_name(below))),
            8 => TypeName::Vector(Box::new(self.type_name(below)), 3),
            _ => TypeName::Frozen(Box::new(self.type_name(below))),
        }
    }

    fn function(&mut self) -> QualifiedName {
        self.qualified()
    }

    pub fn statement(&mut self) -> Statement {
        match self.rng.random_range(0..29) {
            0..=4 => Statement::Select(self.select()),
            5..=9 => Statement::Write(self.write()),
            10 => Statement::Batch(Batch {
                kind: *[BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]
                    .choose(&mut self.rng)
                    .unwrap(),
                using: self.using(),
                writes: self.many(0, Self::write),
            }),
            11 => Statement::Truncate(self.qualified()),
            12 => Statement::Use(self.name()),
            13 => Statement::CreateKeyspace(CreateKeyspace {
                name: self.name(),
                if_not_exists: self.chance(2),
                properties: self.properties(1),
            }),
            14 => Statement::AlterKeyspace(AlterKeyspace {
                name: self.name(),
                if_exists: self.chance(2),
                properties: self.properties(1),
            }),
            15 => Statement::DropKeyspace(DropKeyspace {
                name: self.name(),
                if_exists: self.chance(2),
            }),
            16 => Statement::CreateTable(self.create_table()),
            17 => Statement::AlterTable(AlterTable {
                table: self.qualified(),
                if_exists: self.chance(2),
                change: self.table_change(),
            }),
            18 => Statement::DropTable(self.drop_object()),
            19 => Statement::CreateType(CreateType {
                name: self.qualified(),
                if_not_exists: self.chance(2),
                fields: self.many(1, |make| (make.name(), make.type_name(3))),
            }),
            20 => Statement::AlterType(AlterType {
                name: self.qualified(),
                if_exists: self.chance(2),
                change: self.type_change(),
            }),
            21 => {
                if self.chance(2) {
                    Statement::DropType(self.drop_object())
                } else {
                    Statement::DropIndex(self.drop_object())
                }
            }
            22 => Statement::CreateIndex(self.create_index()),
            23 => Statement::Describe(Describe {
                target: self.describe(),
                internals: self.chance(2),
            }),
            24 => Statement::CreateSnapshot(CreateSnapshot {
                name: self.name(),
                if_not_exists: self.chance(2),
                on: self.scope(),
                properties: self.properties(0),
            }),
            25 => Statement::Role(self.role_statement()),
            26 => Statement::Permission(self.permission_statement()),
            27 => Statement::KillQuery(self.rng.random()),
            _ => {
                if self.chance(2) {
                    Statement::DropSnapshot(DropSnapshot {
                        name: self.name(),
                        if_exists: self.chance(2),
                        on: self.maybe(Self::scope),
                    })
                } else {
                    Statement::ListSnapshots(ListSnapshots {
                        on: self.maybe(Self::scope),
                    })
                }
            }
        }
    }
}

fn is_number(constant: &Constant) -> bool {
    use ConstantKind::*;
    matches!(constant.kind, Integer | Float | Duration) && !constant.text.starts_with('-')
}
