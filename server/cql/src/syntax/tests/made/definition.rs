//! Random statements about the schema and about snapshots.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::Maker;
use crate::syntax::ast::*;

impl<R: Rng> Maker<R> {
    pub(super) fn properties(&mut self, least: usize) -> Vec<Property> {
        let mut properties = self.many(least, |make| Property {
            name: make.name(),
            value: if make.chance(2) {
                PropertyValue::Constant(make.constant())
            } else {
                PropertyValue::Map(make.property_map())
            },
        });
        let mut names = std::collections::HashSet::new();
        properties.retain(|property| names.insert(property.name.clone()));
        properties
    }

    /// Returns a random map of constants, with different strings as keys.
    pub(super) fn property_map(&mut self) -> Vec<(Constant, Constant)> {
        let mut entries = self.many(0, |make| {
            let mut key = make.constant();
            key.kind = ConstantKind::String;
            (key, make.constant())
        });
        let mut keys = std::collections::HashSet::new();
        entries.retain(|(key, _)| keys.insert(key.text.clone()));
        entries
    }

    pub(super) fn column_definition(&mut self) -> ColumnDefinition {
        ColumnDefinition {
            name: self.name(),
            type_name: self.type_name(3),
            is_static: self.chance(4),
        }
    }

    pub(super) fn create_table(&mut self) -> CreateTable {
        CreateTable {
            table: self.qualified(),
            if_not_exists: self.chance(2),
            columns: self.many(1, Self::column_definition),
            primary_key: self.maybe(|make| PrimaryKey {
                partition: make.many(1, Self::name),
                clustering: make.many(0, Self::name),
            }),
            clustering_order: self.many(0, |make| (make.name(), make.order())),
            compact_storage: self.chance(8),
            properties: self.properties(0),
        }
    }

    pub(super) fn table_change(&mut self) -> TableChange {
        match self.rng.random_range(0..6) {
            0 => TableChange::Add {
                if_not_exists: self.chance(2),
                columns: self.many(1, Self::column_definition),
            },
            1 => TableChange::Drop {
                if_exists: self.chance(2),
                columns: self.many(1, Self::name),
                timestamp: self.maybe(|_| Constant {
                    kind: ConstantKind::Integer,
                    text: "-12".to_owned(),
                }),
            },
            2 => TableChange::DropCompactStorage,
            3 => TableChange::Rename {
                if_exists: self.chance(2),
                columns: self.many(1, |make| (make.name(), make.name())),
            },
            4 => TableChange::Retype {
                if_exists: self.chance(2),
                column: self.column(),
                type_name: self.type_name(2),
            },
            _ => TableChange::With(self.properties(1)),
        }
    }

    pub(super) fn type_change(&mut self) -> TypeChange {
        match self.rng.random_range(0..3) {
            0 => TypeChange::Add {
                if_not_exists: self.chance(2),
                field: self.name(),
                type_name: self.type_name(2),
            },
            1 => TypeChange::Rename {
                if_exists: self.chance(2),
                fields: self.many(1, |make| (make.name(), make.name())),
            },
            _ => TypeChange::Retype {
                if_exists: self.chance(2),
                field: self.name(),
                type_name: self.type_name(2),
            },
        }
    }

    pub(super) fn create_index(&mut self) -> CreateIndex {
        use IndexTargetKind::*;
        CreateIndex {
            name: self.maybe(Self::qualified),
            if_not_exists: self.chance(2),
            custom: self.chance(2),
            table: self.qualified(),
            targets: self.many(0, |make| IndexTarget {
                kind: *[Simple, Values, Keys, Entries, Full]
                    .choose(&mut make.rng)
                    .unwrap(),
                column: make.column(),
            }),
            class: self.maybe(|_| "org.Class".to_owned()),
            properties: self.properties(0),
        }
    }

    pub(super) fn scope(&mut self) -> SnapshotScope {
        if self.chance(2) {
            SnapshotScope::Keyspace(self.name())
        } else {
            SnapshotScope::Table(self.qualified())
        }
    }

    pub(super) fn describe(&mut self) -> DescribeTarget {
        match self.rng.random_range(0..16) {
            0 => DescribeTarget::Cluster,
            1 => DescribeTarget::Schema {
                full: self.chance(2),
            },
            2 => DescribeTarget::Keyspaces,
            3 => DescribeTarget::Keyspace {
                name: self.maybe(Self::name),
                only: self.chance(2),
            },
            4 => DescribeTarget::Tables,
            5 => DescribeTarget::Table(self.qualified()),
            6 => DescribeTarget::Index(self.qualified()),
            7 => DescribeTarget::View(self.qualified()),
            8 => DescribeTarget::Types,
            9 => DescribeTarget::Type(self.qualified()),
            10 => DescribeTarget::Functions,
            11 => DescribeTarget::Function(self.qualified()),
            12 => DescribeTarget::Aggregates,
            13 => DescribeTarget::Aggregate(self.qualified()),
            14 => DescribeTarget::Snapshots,
            _ => DescribeTarget::Any(self.qualified()),
        }
    }

    pub(super) fn drop_object(&mut self) -> DropObject {
        DropObject {
            name: self.qualified(),
            if_exists: self.chance(2),
        }
    }
}
