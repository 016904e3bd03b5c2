//! The expected rows of a SELECT by the model, page by page.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::flaw::Flaw;
use super::model::{Model, shorten};
use super::partition::{Cell, Partition, Place, Rules};
use super::restriction::{Partitions, is_between};
use super::schema::{ColumnId, HOUR_MS, STEP_MS};
use super::select::{Comparison, Filter, Item, Select, Sign};
use super::value::{FIELDS, Type, Value};

/// The token of each partition key, as the server computes it.
pub type Tokens = BTreeMap<Vec<i32>, i64>;

/// A row of a result, which stands for a row of the table or for a group of rows: its key, and its
/// values in the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub partition: Vec<i32>,
    /// The clustering of the row, or of the first row of the group; `None` for a row of static
    /// columns alone, and for a group without rows.
    pub clustering: Option<Vec<i32>>,
    /// The clustering of the row, or of the last row of the group; `None` in the same cases as
    /// `clustering`.
    pub last: Option<Vec<i32>>,
    /// The number of rows in the group; 1 for a row of the table.
    pub rows: u64,
    pub shown: Vec<Option<Value>>,
}

type Cells<'m> = BTreeMap<(ColumnId, Place), &'m Cell>;

impl Model {
    /// Returns the rows that a SELECT reads, partition by partition, before GROUP BY, LIMIT and PER
    /// PARTITION LIMIT.
    pub fn find(&self, select: &Select, tokens: &Tokens, now_s: i64) -> Vec<Found> {
        let mut found = Vec::new();
        let forgets = self.has(Flaw::IndexesForgetExpiry) && select.uses_index(&self.schema);
        let now_s = if forgets { 0 } else { now_s };
        for key in self.keys(select, tokens) {
            if let Some(partition) = self.partitions.get(&key) {
                self.find_in(&key, partition, select, now_s, &mut found);
            }
        }
        found
    }

    /// Returns the keys of the partitions that a SELECT reads, in the order in which it returns
    /// their rows.
    fn keys(&self, select: &Select, tokens: &Tokens) -> Vec<Vec<i32>> {
        if let Some(keys) = select.at.keys() {
            return if self.has(Flaw::InReadsTwice) {
                keys.iter()
                    .flat_map(|key| [key.clone(), key.clone()])
                    .collect()
            } else {
                keys
            };
        }
        let mut keys: Vec<Vec<i32>> = self.partitions.keys().cloned().collect();
        keys.sort_by_key(|key| tokens[key]);
        match &select.at.partitions {
            Partitions::Tokens { lower, upper } => {
                keys.retain(|key| is_between(lower, upper, |bound: &i64| tokens[key].cmp(bound)));
            }
            Partitions::Component(at, value) => keys.retain(|key| key[*at] == *value),
            Partitions::All | Partitions::Keys(_) => {}
        }
        let forgets = self.has(Flaw::IndexesForgetRowsFromBefore);
        if forgets && select.uses_index(&self.schema) {
            keys.retain(|key| !self.from_before.contains(key));
        }
        keys
    }

    fn find_in(
        &self,
        key: &[i32],
        partition: &Partition,
        select: &Select,
        now_s: i64,
        found: &mut Vec<Found>,
    ) {
        let rules = Rules(self.flaw);
        let statics = self.own(partition.live_cells(None, now_s, rules));
        let mut restrictions = select.at.clustering.clone();
        if self.has(Flaw::TupleSlicesByFirst) {
            restrictions.iter_mut().for_each(shorten);
        }
        let mut rows: Vec<&Vec<i32>> = partition.rows.keys().collect();
        rows.retain(|row| restrictions.iter().all(|one| one.holds(row)));
        rows.sort_by(|a, b| self.compare(a, b));
        if select.order == Some(true) && !self.has(Flaw::NeverReversed) {
            rows.reverse();
        }
        let mut has_rows = false;
        for row in rows {
            let mut cells = self.own(partition.live_cells(Some(row), now_s, rules));
            if cells.is_empty() && !partition.is_marked(row, now_s, rules) {
                continue;
            }
            has_rows = true;
            cells.extend(statics.clone());
            if self.passes(select, &cells) || self.passed_before(select, key, row) {
                found.push(self.show(key, Some(row), &cells, select, now_s));
                if select.distinct {
                    return;
                }
            }
        }
        let on_regular = select.filter.as_ref().is_some_and(|filter| {
            let column = self.schema.column(filter.column);
            column.is_some_and(|column| !column.is_static)
        });
        let whole = select.at.clustering.is_empty() && !on_regular;
        let hidden = self.has(Flaw::StaticsAloneAreHidden);
        if !has_rows && whole && !statics.is_empty() && !hidden && self.passes(select, &statics) {
            found.push(self.show(key, None, &statics, select, now_s));
        }
    }

    /// Removes the cells of dropped columns from `cells`.
    pub fn own<'m>(&self, mut cells: Cells<'m>) -> Cells<'m> {
        cells.retain(|(id, _), cell| self.has_column_of(*id, cell));
        cells
    }

    fn passes(&self, select: &Select, cells: &Cells<'_>) -> bool {
        select.filter.as_ref().is_none_or(|filter| {
            let value = self.value(filter.column, cells);
            filter.holds(value.as_ref())
        })
    }

    /// Returns whether an index would return a row only because the indexed column once had the
    /// value in the filter. This is the deliberate mistake [`Flaw::IndexesShowOldValues`].
    fn passed_before(&self, select: &Select, key: &[i32], row: &[i32]) -> bool {
        if !self.has(Flaw::IndexesShowOldValues) || !select.uses_index(&self.schema) {
            return false;
        }
        let Some(Filter {
            column,
            comparison: Comparison::Int(Sign::Equal, value),
        }) = &select.filter
        else {
            return false;
        };
        let bytes = value.to_be_bytes().to_vec();
        self.ever
            .contains(&(key.to_vec(), row.to_vec(), *column, bytes))
    }

    /// Compares two clusterings by the clustering order of the table.
    pub fn compare(&self, a: &[i32], b: &[i32]) -> Ordering {
        let mut columns = a.iter().zip(b).zip(&self.schema.clustering);
        let differs = columns.find_map(|((a, b), column)| {
            let order = if column.is_descending {
                b.cmp(a)
            } else {
                a.cmp(b)
            };
            order.is_ne().then_some(order)
        });
        differs.unwrap_or(Ordering::Equal)
    }

    fn show(
        &self,
        partition: &[i32],
        clustering: Option<&Vec<i32>>,
        cells: &Cells<'_>,
        select: &Select,
        now_s: i64,
    ) -> Found {
        let one = |item: &Item| {
            let key = (partition, clustering.map(Vec::as_slice));
            self.item(item, key, cells, now_s)
        };
        Found {
            partition: partition.to_vec(),
            clustering: clustering.cloned(),
            last: clustering.cloned(),
            rows: 1,
            shown: select.items.iter().map(one).collect(),
        }
    }

    /// Returns the value of an item in a row with this partition key, clustering and cells. For an
    /// aggregate, this is the value of its argument.
    fn item(
        &self,
        item: &Item,
        (partition, clustering): (&[i32], Option<&[i32]>),
        cells: &Cells<'_>,
        now_s: i64,
    ) -> Option<Value> {
        match item {
            Item::Partition(_) | Item::Clustering(_) | Item::Floor(_) => {
                self.key_value(item, partition, clustering)
            }
            Item::Column(id) => self.value(*id, cells),
            Item::Writetime(id) => {
                let cell = cells.get(&(*id, Place::Whole))?;
                Some(Value::Bigint(cell.timestamp_us))
            }
            Item::Ttl(id) => {
                let (end, _) = cells.get(&(*id, Place::Whole))?.life?;
                let short = i64::from(self.has(Flaw::TtlOffByOne));
                Some(Value::Int((end - now_s - short) as i32))
            }
            Item::Aggregate(_, of) => self.item(of, (partition, clustering), cells, now_s),
            Item::Count => None,
        }
    }

    /// Returns the value of an item that depends only on the primary key of a row; `None` for
    /// another item, and for a clustering column if the row stands for static columns alone.
    pub fn key_value(
        &self,
        item: &Item,
        partition: &[i32],
        clustering: Option<&[i32]>,
    ) -> Option<Value> {
        match item {
            Item::Partition(at) => Some(Value::Int(partition[*at])),
            Item::Clustering(at) => Some(Value::Int(clustering?[*at])),
            Item::Floor(at) => {
                let time_ms = i64::from(clustering?[*at]) * STEP_MS;
                let rest_ms = if self.has(Flaw::FloorsKeepTheTime) {
                    0
                } else {
                    time_ms % HOUR_MS
                };
                Some(Value::Bigint(time_ms - rest_ms))
            }
            _ => None,
        }
    }

    /// Returns the value of a column in a row with these cells; `None` for null.
    pub fn value(&self, id: ColumnId, cells: &Cells<'_>) -> Option<Value> {
        let ty = self.schema.column(id)?.ty;
        let range = (id, Place::Whole)..=(id, Place::Field(usize::MAX));
        let parts: Vec<(Place, &[u8])> = cells
            .range(range)
            .filter_map(|((_, place), cell)| Some((*place, cell.bytes.as_deref()?)))
            .collect();
        let int = |bytes: &[u8]| bytes.try_into().map(i32::from_be_bytes).unwrap_or_default();
        let key = |place: &Place| match place {
            Place::Key(key) => *key,
            _ => 0,
        };
        if parts.is_empty() {
            return None;
        }
        Some(match ty {
            Type::List => Value::List(parts.iter().map(|(_, bytes)| int(bytes)).collect()),
            Type::Set => Value::Set(parts.iter().map(|(place, _)| key(place)).collect()),
            Type::Map => {
                let pairs = parts.iter();
                Value::Map(
                    pairs
                        .map(|(place, bytes)| (key(place), int(bytes)))
                        .collect(),
                )
            }
            Type::Udt => {
                let mut fields = vec![None; FIELDS.len()];
                for (place, bytes) in &parts {
                    if let Place::Field(at) = place {
                        fields[*at] = Some(int(bytes));
                    }
                }
                Value::Fields(fields)
            }
            _ => Value::read(ty, parts[0].1)?,
        })
    }
}

/// The progress of a SELECT that is read page by page.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The partition and the clustering of the last row that was returned, alone or in a group;
    /// `None` before the first row. A row that stands for a partition with only static values has
    /// no clustering.
    after: Option<(Vec<i32>, Option<Vec<i32>>)>,
    left: u64,
    left_in_partition: u64,
}

impl Cursor {
    pub fn new(select: &Select) -> Self {
        Self {
            after: None,
            left: select.limit.unwrap_or(u64::MAX),
            left_in_partition: select.rows_of_partition(),
        }
    }

    /// Returns whether the last returned row was one of static columns alone. If rows are inserted
    /// into the partition of such a row, it is undefined whether later pages contain them.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self.after, Some((_, None)))
    }

    /// Returns the next page: at most `size` of the rows, or groups of rows, that follow the last
    /// returned row in the present table. Some results are a single page of any size: those of
    /// aggregates without GROUP BY, and of ORDER BY over several partitions.
    pub fn page(
        &mut self,
        model: &Model,
        select: &Select,
        tokens: &Tokens,
        now_s: i64,
        size: usize,
    ) -> Vec<Found> {
        if model.has(Flaw::LimitOfEachPage) {
            self.left = select.limit.unwrap_or(u64::MAX);
        }
        if model.has(Flaw::PerPartitionLimitOfEachPage) {
            self.left_in_partition = select.rows_of_partition();
        }
        let mut found = model.find(select, tokens, now_s);
        if select.is_one_row() {
            return model.group(select, found);
        }
        if select.is_sorted_over_partitions() {
            found = model.group(select, found);
            let mut kept: BTreeMap<Vec<i32>, u64> = BTreeMap::new();
            let limit = select.rows_of_partition();
            found.retain(|row| {
                let count = kept.entry(row.partition.clone()).or_default();
                *count += 1;
                *count <= limit
            });
            // A stable sort: of equal rows that of the earlier partition comes first. A row of
            // static columns alone has no clustering to compare: it comes first, and last in
            // reverse.
            let natural = |a: &Found, b: &Found| match (&a.clustering, &b.clustering) {
                (Some(a), Some(b)) => model.compare(a, b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            if select.order == Some(true) && !model.has(Flaw::NeverReversed) {
                found.sort_by(|a, b| natural(b, a))
            } else {
                found.sort_by(natural)
            }
            found.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            return found;
        }
        let keys = model.keys(select, tokens);
        found.retain(|row| self.is_left(row, model, select, &keys));
        let mut page = Vec::new();
        for row in model.group(select, found) {
            let is_new = (self.after.as_ref()).is_none_or(|(last, _)| *last != row.partition);
            if page.len() == size || self.left == 0 {
                if model.has(Flaw::PagesLoseAGroup) && select.is_grouped() {
                    self.after = Some((row.partition, row.last));
                }
                break;
            }
            if is_new {
                self.left_in_partition = select.rows_of_partition();
            }
            if self.left_in_partition == 0 {
                continue;
            }
            let counted = |flaw| if model.has(flaw) { row.rows } else { 1 };
            let (of_all, of_partition) = (
                counted(Flaw::LimitCountsRowsOfGroups),
                counted(Flaw::PartitionLimitCountsRowsOfGroups),
            );
            self.left = self.left.saturating_sub(of_all);
            self.left_in_partition = self.left_in_partition.saturating_sub(of_partition);
            let last = if model.has(Flaw::PagesRepeatGroups) {
                row.clustering.clone()
            } else {
                row.last.clone()
            };
            self.after = Some((row.partition.clone(), last));
            page.push(row);
        }
        page
    }

    /// Returns whether a row follows the last returned one, so that a later page has to return it.
    /// `keys` are the keys of the partitions, in their order.
    fn is_left(&self, row: &Found, model: &Model, select: &Select, keys: &[Vec<i32>]) -> bool {
        let Some((partition, clustering)) = &self.after else {
            return true;
        };
        let place = |key: &[i32]| keys.iter().position(|one| one == key);
        let is_after = match place(&row.partition).cmp(&place(partition)) {
            Ordering::Equal => match (&row.clustering, clustering) {
                (Some(new), Some(old)) => {
                    let order = model.compare(new, old);
                    if select.order == Some(true) {
                        order.is_lt()
                    } else {
                        order.is_gt()
                    }
                }
                _ => false,
            },
            order => order.is_gt(),
        };
        let is_last = row.clustering == *clustering && row.partition == *partition;
        is_after || is_last && model.has(Flaw::PagesOverlap)
    }
}
