//! Random SELECTs.

use rand::RngExt as _;

use super::Generator;
use crate::index::{IndexOn, What};
use crate::restriction::{Partitions, Restriction, Test, Where};
use crate::schema::ColumnId;
use crate::select::{Comparison, Filter, Item, Select, Sign};
use crate::step::{Scope, Source};
use crate::value::Type;

impl Generator {
    /// Returns a SELECT of all columns and rows of the table, with the timestamp and the TTL of
    /// each column that is stored as one cell.
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
            group_by: Vec::new(),
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
        select.at = if by_key {
            self.partitions_named()
        } else {
            Where {
                partitions: self.tokens(),
                clustering: Vec::new(),
            }
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
                // Not the first columns, so that each row has to be filtered.
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
                    comparison: Comparison::Int(sign, self.int()),
                });
            } else if self.rng.random_bool(0.5) {
                self.restrict_indexed_column(&mut select);
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
        // Aggregates with DISTINCT, ORDER BY or limits are drawn by `select_groups`.
        let is_plain = !select.distinct && select.order.is_none() && select.limit.is_none();
        if is_plain && select.per_partition_limit.is_none() && self.rng.random_bool(0.1) {
            select.items = vec![Item::Count];
        }
        select
    }

    /// Restricts `select` by a column that an index could serve, mostly an existing index.
    fn restrict_indexed_column(&mut self, select: &mut Select) {
        let all = if self.schema.indexes.is_empty() || self.rng.random_bool(0.2) {
            IndexOn::all(&self.schema)
        } else {
            self.schema.indexes.clone()
        };
        if all.is_empty() {
            return;
        }
        let is_named = matches!(select.at.partitions, Partitions::Keys(_));
        let (mut column, mut comparison) = (None, None);
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
                comparison = Some(match what {
                    What::Whole if ty == Type::Int => Comparison::Int(Sign::Equal, self.int()),
                    What::Whole => Comparison::Whole(self.value(ty)),
                    // There are few members and keys.
                    What::Values if ty == Type::Set => Comparison::Contains(self.row_key()),
                    What::Values => Comparison::Contains(self.int()),
                    What::Keys => Comparison::ContainsKey(self.row_key()),
                    What::Entries => Comparison::Entry(self.row_key(), self.int()),
                });
            }
        }
        if let (Some(column), Some(comparison)) = (column, comparison) {
            select.filter = Some(Filter { column, comparison });
            select.is_plain = self.rng.random_bool(0.5);
            if select.is_plain || self.rng.random_bool(0.5) {
                select.at.clustering.clear();
            }
        } else {
            select.is_plain = self.rng.random_bool(0.5);
        }
    }
}
