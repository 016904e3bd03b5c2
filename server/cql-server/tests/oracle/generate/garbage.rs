//! Random steps that leave much garbage: a small table with a short grace period, and few writes between
//! flushes, merges and reads.

use std::iter;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::{Generator, partition_keys};
use crate::restriction::{Restriction, Test, Where};
use crate::schema::{ClusteringColumn, Column, Schema};
use crate::select::{Item, Select};
use crate::step::{Scope, Source, Step};
use crate::value::Type;

/// The shortest grace period of the table, in seconds.
pub const GRACE_S: i64 = 20;

/// The number of partitions that most statements are about.
const PARTITIONS: usize = 2;

/// The columns outside of the primary key: name, type, and whether the column is static.
const COLUMNS: [(&str, Type, bool); 5] = [
    ("s", Type::Int, true),
    ("v", Type::Int, false),
    ("w", Type::Int, false),
    ("m", Type::Map, false),
    ("e", Type::Set, false),
];

impl Generator {
    /// Creates a generator for [`Self::steps_of_garbage`].
    pub fn of_garbage(rng: ChaCha8Rng, now_s: i64) -> Self {
        let columns = (0..).zip(COLUMNS);
        let columns = columns.map(|(id, (name, ty, is_static))| Column {
            id,
            name: name.to_owned(),
            ty,
            is_static,
        });
        let clustering = [true, false].map(|is_descending| ClusteringColumn {
            is_descending,
            is_time: false,
        });
        let schema = Schema {
            partition: 1,
            clustering: clustering.to_vec(),
            columns: columns.collect(),
            indexes: Vec::new(),
            default_ttl_s: 0,
            gc_grace_s: GRACE_S,
        };
        let rng_of_groups = rng.clone();
        Self {
            partitions: PARTITIONS,
            ..Self::over(schema, (rng, rng_of_groups), now_s, false)
        }
    }

    /// Draws steps with `requests` requests that write. Every fifth request is followed by reads of all
    /// rows in many ways. In the end all garbage is purged.
    pub fn steps_of_garbage(&mut self, requests: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for at in 0..requests {
            self.event_of_garbage(&mut steps);
            // A microsecond of the timestamps stands for a second of the clock. So a request may be about
            // as late as the grace period permits. The run leaves out those that are later.
            self.top_us = self.now_s;
            steps.push(Step::Write(self.request()));
            if at % 5 == 0 {
                self.reads(&mut steps);
            }
        }
        steps.push(Step::Purge);
        self.snapshots.clear();
        self.reads(&mut steps);
        steps
    }

    /// Adds the step of a random event between requests to `steps`. Less than a third of the calls add
    /// one.
    fn event_of_garbage(&mut self, steps: &mut Vec<Step>) {
        match self.rng.random_range(0..40) {
            0..3 => {
                let seconds = self.rng.random_range(1..8);
                self.now_s += seconds;
                steps.push(Step::Advance(seconds));
            }
            3..7 => steps.push(Step::Flush),
            7..10 => steps.push(Step::Compact),
            10 if self.rng.random_bool(0.2) => steps.push(Step::Restart),
            11 if self.snapshots.len() < 2 => {
                let (id, scope) = (self.next_id, self.pick(&[Scope::Keyspace, Scope::Table]));
                self.next_id += 1;
                self.snapshots.push((id, scope));
                steps.push(Step::CreateSnapshot(id, scope));
            }
            12 if !self.snapshots.is_empty() => {
                steps.push(Step::DropSnapshot(self.snapshots.remove(0).0));
            }
            13 if self.rng.random_bool(0.3) => {
                let seconds = self.rng.random_range(GRACE_S..2 * GRACE_S);
                steps.push(Step::AlterGrace(seconds));
            }
            _ => {}
        }
    }

    /// Adds reads of all rows to `steps`: of the whole table, at once and in small pages, and of each
    /// partition, in both directions and also at each snapshot. Adds reads of a random row of each partition,
    /// too: of all columns, and of few columns, because such a read may skip a part of the row.
    fn reads(&mut self, steps: &mut Vec<Step>) {
        let all = self.all();
        for size in [None, Some(self.rng.random_range(1..4))] {
            steps.push(Step::Select(all.clone(), Source::Live, size));
        }
        let snapshots = self.snapshots.iter().map(|(id, _)| Source::Snapshot(*id));
        let sources: Vec<Source> = iter::once(Source::Live).chain(snapshots).collect();
        for source in sources {
            for key in partition_keys(&self.schema).iter().take(PARTITIONS) {
                for order in [None, Some(true)] {
                    let at = Where::partition(key);
                    let select = Select {
                        at,
                        order,
                        ..all.clone()
                    };
                    steps.push(Step::Select(select, source, None));
                }
                for items in [all.items.clone(), self.few_items(&all)] {
                    let select = Select {
                        items,
                        at: self.one_row(key),
                        ..all.clone()
                    };
                    steps.push(Step::Select(select, source, None));
                }
            }
        }
    }

    /// Draws one or two of the items of `all` that are not about the primary key. The first item of the
    /// result is a clustering column, because no row can be read for its static columns alone.
    fn few_items(&mut self, all: &Select) -> Vec<Item> {
        let keys = self.schema.partition + self.schema.clustering.len();
        let count = self.rng.random_range(1..3);
        let some = (0..count).map(|_| self.pick(&all.items[keys..]));
        iter::once(Item::Clustering(0)).chain(some).collect()
    }

    /// Draws a WHERE for one row of the partition with this key.
    fn one_row(&mut self, key: &[i32]) -> Where {
        let columns = 0..self.schema.clustering.len();
        let clustering = columns.map(|at| Restriction {
            at,
            test: Test::Values(self.tuple(1)),
        });
        Where {
            clustering: clustering.collect(),
            ..Where::partition(key)
        }
    }
}
