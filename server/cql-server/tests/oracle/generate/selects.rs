//! Random SELECTs.

use rand::RngExt as _;

use super::Generator;
use crate::index::{IndexOn, What};
use crate::restriction::{Partitions, Restriction, Test, Where};
use crate::schema::ColumnId;
use crate::select::{Ask, Filter, Item, Select, Sign};
use crate::step::{Scope, Source};
use crate::value::Type;

impl Generator {
    /// All of a table.
    pub(super) fn all(&mut self) -> Select {
        let mut items: Vec<Item> = (0..self.schema.partition).map(Item::Partition).collect();
        items.extend((0..self.schema.clustering.len()).map(Item::Clustering));
        for column in &self.schema.columns {
            items.push(Item::Column(column.id));
            if !column.ty.is_multi_cell() {
                items.extend([Item::Writetime(column.id), Item::Ttl(column.id)]);
            }
        }
        Select {
            items,
            distinct: false,
            at: Where {
                partitions: Partitions::All,
                clustering: Vec::new(),
            },
            filter: None,
            is_plain: false,
            order: None,
            per_partition_limit: None,
            limit: None,
        }
    }

    pub(super) fn source(&mut self) -> Source {
        if self.snapshots.is_empty() || self.rng.random_bool(0.6) {
            return Source::Live;
        }
        let (id, scope) = self.snapshots[self.rng.random_range(0..self.snapshots.len())];
        match (scope, self.rng.random_range(0..3)) {
            (Scope::Table, _) | (_, 0) => Source::Snapshot(id),
            (_, 1) => Source::Keyspace(id),
            _ => Source::Alias(id),
        }
    }

    pub(super) fn select(&mut self) -> Select {
        let mut select = self.all();
        let count = self.rng.random_range(1..select.items.len() + 1);
        while select.items.len() > count {
            let at = self.rng.random_range(0..select.items.len());
            select.items.remove(at);
        }
        let by_key = self.rng.random_bool(0.6);
        select.at = match by_key {
            true => self.partitions_named(),
            false => Where {
                partitions: self.tokens(),
                clustering: Vec::new(),
            },
        };
        if self.rng.random_bool(0.1) {
            select.distinct = true;
            select.items = (0..self.schema.partition).map(Item::Partition).collect();
            let statics = self.schema.statics();
            select
                .items
                .extend(statics.map(|column| Item::Column(column.id)));
        } else {
            match self.rng.random_range(0..6) {
                0 | 1 => select.at.clustering = self.range_of_rows(),
                2 => select.at.clustering = self.named_rows(),
                // Not the first columns: each row is looked at.
                3 if self.schema.clustering.len() > 1 => {
                    let at = self.rng.random_range(1..self.schema.clustering.len());
                    let test = Test::Values(self.tuple(1));
                    select.at.clustering = vec![Restriction { at, test }];
                }
                _ => {}
            }
            if self.rng.random_bool(0.15) {
                let ints = self.schema.columns.iter().filter(|c| c.ty == Type::Int);
                let ints: Vec<ColumnId> = ints.map(|column| column.id).collect();
                let sign = self.pick(&[Sign::Equal, Sign::Greater, Sign::LessOrEqual]);
                select.filter = Some(Filter {
                    column: self.pick(&ints),
                    ask: Ask::Int(sign, self.int()),
                });
            } else if self.rng.random_bool(0.5) {
                self.ask_for_indexed(&mut select);
            }
            let by_key = matches!(select.at.partitions, Partitions::Keys(_));
            let may_order = by_key && !self.schema.clustering.is_empty();
            if may_order && self.rng.random_bool(0.3) {
                select.order = Some(self.rng.random());
            }
            if self.rng.random_bool(0.2) {
                select.per_partition_limit = Some(self.rng.random_range(1..5));
            }
        }
        if self.rng.random_bool(0.3) {
            select.limit = Some(self.rng.random_range(1..12));
        }
        let is_plain = !select.distinct && select.order.is_none() && select.limit.is_none();
        if is_plain && select.per_partition_limit.is_none() && self.rng.random_bool(0.1) {
            select.items = vec![Item::Count];
        }
        select
    }

    /// Asks what an index serves, or would serve: one that there is, mostly.
    fn ask_for_indexed(&mut self, select: &mut Select) {
        let all = match self.schema.indexes.is_empty() || self.rng.random_bool(0.2) {
            true => IndexOn::all(&self.schema),
            false => self.schema.indexes.clone(),
        };
        if all.is_empty() {
            return;
        }
        let is_named = matches!(select.at.partitions, Partitions::Keys(_));
        let (mut column, mut ask) = (None, None);
        match self.pick(&all) {
            IndexOn::Partition(at) => {
                let value = self.row_key();
                select.at.partitions = Partitions::Component(at, value);
                select.at.clustering.clear();
            }
            IndexOn::Clustering(at) => {
                if is_named {
                    return;
                }
                let test = Test::Values(self.tuple(1));
                select.at.clustering = vec![Restriction { at, test }];
            }
            IndexOn::Column(id, what) => {
                let Some(ty) = self.schema.column(id).map(|one| one.ty) else {
                    return;
                };
                column = Some(id);
                ask = Some(match what {
                    What::Whole if ty == Type::Int => Ask::Int(Sign::Equal, self.int()),
                    What::Whole => Ask::Whole(self.value(ty)),
                    // The members and keys that there are are few.
                    What::Values if ty == Type::Set => Ask::Contains(self.row_key()),
                    What::Values => Ask::Contains(self.int()),
                    What::Keys => Ask::ContainsKey(self.row_key()),
                    What::Entries => Ask::Entry(self.row_key(), self.int()),
                });
            }
        }
        if let (Some(column), Some(ask)) = (column, ask) {
            select.filter = Some(Filter { column, ask });
            select.is_plain = self.rng.random_bool(0.5);
            if select.is_plain || self.rng.random_bool(0.5) {
                select.at.clustering.clear();
            }
        } else {
            select.is_plain = self.rng.random_bool(0.5);
        }
    }
}
