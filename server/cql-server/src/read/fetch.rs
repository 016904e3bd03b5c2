//! The columns that a statement looks at, out of a partition's key and header and out of a
//! row's key and operand. What is not wanted is not decoded.

use ebb_model::key::DecodedKey;
use ebb_model::row::{LiveCell, LiveColumn, RowError, RowView};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_tables::read::{Partition, WantedColumns};

use crate::analyse::selection::Slots;
use crate::error::{Result, of_table};

/// What is seen of one column; none is null.
pub type Seen<'a> = Option<LiveColumn<'a>>;

/// Where the columns of a statement come from.
#[derive(Debug)]
pub struct Fetch {
    slots: usize,
    /// Slot and place in the key.
    partition: Vec<(usize, usize)>,
    clustering: Vec<(usize, usize)>,
    statics: Wanted,
    regular: Wanted,
    /// The clustering is looked at, and keys do not say how it was written.
    needs_original: bool,
}

/// Columns by ascending id, and their slots.
#[derive(Debug, Default)]
struct Wanted {
    ids: Vec<u32>,
    slots: Vec<usize>,
}

impl Wanted {
    fn fill<'a>(
        &self,
        view: &RowView<'a>,
        cells: &mut [Seen<'a>],
    ) -> std::result::Result<(), RowError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let mut next = 0;
        for live in view.columns(&self.ids) {
            let (id, column) = live?;
            while self.ids[next] != id {
                next += 1;
            }
            cells[self.slots[next]] = Some(column);
        }
        Ok(())
    }
}

impl Fetch {
    /// For columns at their slots.
    pub fn new(schema: &TableSchema, slots: &Slots) -> Self {
        let of = |kind| {
            let columns = slots.columns().iter().enumerate();
            let columns = columns.map(|(slot, &place)| (slot, &schema.columns()[place]));
            columns.filter(move |(_, column)| column.kind == kind)
        };
        let by_place = |kind| {
            of(kind)
                .map(|(slot, column)| (slot, column.position))
                .collect()
        };
        let by_id = |kind| {
            let mut columns: Vec<(u32, usize)> =
                of(kind).map(|(slot, column)| (column.id.0, slot)).collect();
            columns.sort_unstable();
            let (ids, slots) = columns.into_iter().unzip();
            Wanted { ids, slots }
        };
        Self {
            slots: slots.columns().len(),
            partition: by_place(ColumnKind::PartitionKey),
            clustering: by_place(ColumnKind::Clustering),
            statics: by_id(ColumnKind::Static),
            regular: by_id(ColumnKind::Regular),
            needs_original: of(ColumnKind::Clustering)
                .any(|_| !schema.layout().is_always_reconstructible()),
        }
    }

    /// The columns that are looked at beside those of the key.
    pub fn wanted(&self) -> WantedColumns<'_> {
        WantedColumns {
            statics: &self.statics.ids,
            regular: &self.regular.ids,
            original_clustering: self.needs_original,
        }
    }
}

/// A partition, and the columns that all its rows have in common.
#[derive(Debug)]
pub struct FetchedPartition<'p> {
    fetch: &'p Fetch,
    partition: Partition<'p>,
    /// Key and static columns at their slots.
    cells: Vec<Seen<'p>>,
}

impl<'p> FetchedPartition<'p> {
    /// Opens a partition under its header. `key` is any of its keys; `header` is the operand of its
    /// header, if it has one; `now_s` is the time of the reader in seconds since 1970.
    ///
    /// # Errors
    /// If the header or the partition key is damaged.
    pub fn new(
        fetch: &'p Fetch,
        schema: &'p TableSchema,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
        now_s: i64,
    ) -> Result<Self> {
        let partition = Partition::new(schema, key, header, now_s).map_err(of_table)?;
        let mut cells = vec![None; fetch.slots];
        if !fetch.partition.is_empty() {
            let values = partition.key_values().map_err(of_table)?;
            for &(slot, place) in &fetch.partition {
                cells[slot] = Some(plain(values[place]));
            }
        }
        let filled = fetch.statics.fill(&partition.static_view(), &mut cells);
        filled.map_err(|error| of_table(partition.damaged_header(error)))?;
        Ok(Self {
            fetch,
            partition,
            cells,
        })
    }

    /// Returns the partition, by whose rules rows are visible.
    pub fn partition(&self) -> &Partition<'p> {
        &self.partition
    }

    /// What is seen of it without a row.
    pub fn cells(&self) -> &[Seen<'p>] {
        &self.cells
    }

    /// The row of an encoded clustering, if it is there.
    ///
    /// # Errors
    /// Where the operand is damaged.
    pub fn row<'r>(&self, clustering: &'r [u8], operand: &'r [u8]) -> Result<Option<Row<'r>>>
    where
        'p: 'r,
    {
        let Some(view) = (self.partition.row(clustering, operand)).map_err(of_table)? else {
            return Ok(None);
        };
        let keys = if self.fetch.clustering.is_empty() {
            Vec::new()
        } else {
            let values = self.partition.clustering_values(clustering, &view);
            values.map_err(of_table)?
        };
        Ok(Some(Row {
            clustering,
            view,
            keys,
        }))
    }

    /// The columns of a row at their slots.
    ///
    /// # Errors
    /// Where the operand is damaged.
    pub fn fill<'r>(&self, row: &'r Row<'r>, cells: &mut Vec<Seen<'r>>) -> Result<()>
    where
        'p: 'r,
    {
        cells.clear();
        cells.extend_from_slice(&self.cells);
        for &(slot, place) in &self.fetch.clustering {
            cells[slot] = Some(plain(&row.keys[place]));
        }
        let filled = self.fetch.regular.fill(&row.view, cells);
        filled.map_err(|error| of_table(self.partition.damaged_row(row.clustering, error)))
    }
}

/// A row that is there.
#[derive(Debug)]
pub struct Row<'r> {
    clustering: &'r [u8],
    view: RowView<'r>,
    keys: Vec<Vec<u8>>,
}

impl<'r> Row<'r> {
    /// What its columns are.
    pub fn view(&self) -> RowView<'r> {
        self.view
    }
}

fn plain(value: &[u8]) -> LiveColumn<'_> {
    LiveColumn::Cell(LiveCell {
        value,
        writetime: 0,
        ttl_s: None,
    })
}
