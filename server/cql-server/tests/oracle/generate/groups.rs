//! Random SELECTs with GROUP BY and aggregates.
//!
//! They are drawn from a stream of random numbers of their own, and stand between the other steps of
//! a seed. So what a seed tests beside them does not depend on them.

use std::mem;

use rand::RngExt as _;

use super::Generator;
use crate::restriction::Partitions;
use crate::schema::Schema;
use crate::select::{Aggregate, Item, Select};
use crate::step::Step;
use crate::value::Type;

impl Generator {
    /// Adds at most one step about a SELECT with GROUP BY or aggregates to `steps`: a whole read,
    /// the start of a read in pages, or the next page of a started read. Most calls add nothing.
    pub(super) fn grouped(&mut self, steps: &mut Vec<Step>) {
        mem::swap(&mut self.rng, &mut self.rng_of_groups);
        match self.rng.random_range(0..20) {
            0 | 1 => {
                let (select, source) = (self.select_groups(), self.source());
                let pages = self.rng.random_bool(0.7);
                let pages = pages.then(|| self.rng.random_range(1..5));
                steps.push(Step::Select(select, source, pages));
            }
            2 => {
                let id = self.next_id;
                self.next_id += 1;
                self.cursors_of_groups.push(id);
                let size = self.rng.random_range(1..4);
                steps.push(Step::Open(id, self.select_groups(), self.source(), size));
            }
            3 | 4 if !self.cursors_of_groups.is_empty() => {
                let at = self.rng.random_range(0..self.cursors_of_groups.len());
                steps.push(Step::Next(self.cursors_of_groups[at]));
                if self.cursors_of_groups.len() > 2 {
                    self.cursors_of_groups.remove(0);
                }
            }
            _ => {}
        }
        mem::swap(&mut self.rng, &mut self.rng_of_groups);
    }

    fn select_groups(&mut self) -> Select {
        let mut select = self.select();
        // Mostly all rows of the partitions, so that groups have several.
        if self.rng.random_bool(0.6) {
            select.filter = None;
            select.at.clustering.clear();
            if select.order.is_none() && self.rng.random_bool(0.5) {
                select.at.partitions = Partitions::All;
            }
        }
        // Refusals without ALLOW FILTERING are drawn elsewhere.
        select.is_plain = false;
        let limits = self.rng.random_bool(0.4);
        select.limit = limits.then(|| self.rng.random_range(1..6));
        let limits = !select.distinct && self.rng.random_bool(0.3);
        select.per_partition_limit = limits.then(|| self.rng.random_range(1..4));
        if self.rng.random_bool(0.85) {
            select.group_by = self.group_by(&select);
        } else if self.rng.random_bool(0.9) {
            // Beside aggregates over all rows it is refused.
            select.per_partition_limit = None;
        }
        let count = self.rng.random_range(1..5);
        let new = (0..count).map(|_| self.item_of_group(select.distinct));
        let new: Vec<Item> = new.collect();
        if !select.distinct {
            select.items.clear();
        }
        select.items.extend(new);
        select
    }

    /// Draws the elements of GROUP BY, nearly always valid ones: the partition key, and some
    /// clustering columns behind it.
    fn group_by(&mut self, select: &Select) -> Vec<Item> {
        let schema = self.schema.clone();
        let mut columns = self.rng.random_range(0..schema.clustering.len() + 1);
        if select.distinct && self.rng.random_bool(0.8) {
            columns = 0;
        }
        let mut group_by: Vec<Item> = (0..schema.partition)
            .map(Item::Partition)
            .chain((0..columns).map(Item::Clustering))
            .collect();
        if let Some(Item::Clustering(at)) = group_by.last().cloned()
            && schema.clustering[at].is_time
            && self.rng.random_bool(0.6)
        {
            group_by.pop();
            group_by.push(Item::Floor(at));
        }
        if self.rng.random_bool(0.02) {
            group_by.truncate(1);
        }
        if self.rng.random_bool(0.02) {
            let column = self.pick(&schema.columns);
            group_by.push(Item::Column(column.id));
        }
        // Columns with a single value may be left out, others may not.
        let last = group_by.len() - 1;
        let mut at = 0;
        group_by.retain(|_| {
            let is_valid = select.has_one_value(at, &schema);
            let chance = if is_valid { 0.4 } else { 0.02 };
            let is_left_out = at < last && self.rng.random_bool(chance);
            at += 1;
            !is_left_out
        });
        group_by
    }

    /// Draws a column of the result: an aggregate, or one with the value of the first row of a
    /// group.
    fn item_of_group(&mut self, distinct: bool) -> Item {
        let all = [
            Aggregate::Count,
            Aggregate::Min,
            Aggregate::Max,
            Aggregate::Sum,
            Aggregate::Avg,
        ];
        let aggregate = self.pick(&all);
        let mut items = self.all().items;
        items.extend((0..self.schema.clustering.len()).map(Item::Clustering));
        if distinct {
            let is_static = |item: &Item| match item {
                Item::Partition(_) => true,
                Item::Column(id) => self.schema.statics().any(|column| column.id == *id),
                _ => false,
            };
            items.retain(is_static);
        } else if self.rng.random_bool(0.2) {
            return Item::Count;
        }
        if self.rng.random_bool(0.4) {
            return match self.pick(&items) {
                Item::Clustering(at) if self.schema.clustering[at].is_time => {
                    self.pick(&[Item::Clustering(at), Item::Floor(at)])
                }
                item => item,
            };
        }
        items.retain(|item| takes(aggregate, item, &self.schema));
        Item::Aggregate(aggregate, Box::new(self.pick(&items)))
    }
}

/// Returns whether an aggregate accepts values of an item's type.
fn takes(aggregate: Aggregate, item: &Item, schema: &Schema) -> bool {
    let is_number = match item {
        Item::Partition(_) => true,
        Item::Clustering(at) => !schema.clustering[*at].is_time,
        Item::Column(id) => {
            let mut ints = schema.columns.iter().filter(|one| one.ty == Type::Int);
            // Cassandra has no aggregates of collections, tuples and user-defined types.
            return ints.any(|column| column.id == *id);
        }
        _ => false,
    };
    is_number || !matches!(aggregate, Aggregate::Sum | Aggregate::Avg)
}
