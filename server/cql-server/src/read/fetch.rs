//! The columns that a statement looks at, out of a partition's key and header and out of a
//! row's key and operand. What is not wanted is not decoded.

use ebb_model::key::DecodedKey;
use ebb_model::row::{Header, LiveCell, LiveColumn, RowRef, RowView};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::elements;

use crate::analyse::selection::Slots;
use crate::error::{Result, of_key, of_row, of_type};

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
    /// Ids of all columns of the kind, where others were dropped.
    known_statics: Option<Vec<u32>>,
    known_regular: Option<Vec<u32>>,
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
    fn fill<'a>(&self, view: &RowView<'a>, cells: &mut [Seen<'a>]) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let mut next = 0;
        for live in view.columns(&self.ids) {
            let (id, column) = live.map_err(of_row)?;
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
            known_statics: schema.ids_beside_dropped(ColumnKind::Static),
            known_regular: schema.ids_beside_dropped(ColumnKind::Regular),
            needs_original: of(ColumnKind::Clustering)
                .any(|_| !schema.layout().is_always_reconstructible()),
        }
    }

    /// Whether what newer places have of a partition's header and of its row at this
    /// clustering says all that is looked at, `now_s` seconds since 1970; older places
    /// have no timestamp above `greatest_left`.
    ///
    /// # Errors
    /// Where they are damaged.
    pub fn is_decided(
        &self,
        schema: &TableSchema,
        (header, row): (Option<&[u8]>, Option<&[u8]>),
        clustering: &[u8],
        now_s: i64,
        greatest_left: i64,
    ) -> Result<bool> {
        let header = header.map_or(Ok(Header::EMPTY), Header::parse);
        let header = header.map_err(of_row)?;
        let row = row.map_or(Ok(RowRef::EMPTY), RowRef::parse);
        let view = RowView::new(row.map_err(of_row)?, header.deletion_at(clustering), now_s);
        let view = view.without(schema.dropped_cells());
        let is_row = view.is_decided(&self.regular.ids, self.needs_original, greatest_left);
        let statics = || {
            let statics = header.static_view(now_s);
            statics.are_columns_decided(&self.statics.ids, greatest_left)
        };
        Ok(is_row.map_err(of_row)? && statics().map_err(of_row)?)
    }
}

/// A partition: its header, and what all its rows have in common.
#[derive(Debug)]
pub struct Partition<'p> {
    fetch: &'p Fetch,
    schema: &'p TableSchema,
    header: Header<'p>,
    now_s: i64,
    /// Key and static columns at their slots.
    cells: Vec<Seen<'p>>,
}

impl<'p> Partition<'p> {
    /// From any of its keys, and its header's operand where it has one, at `now_s` seconds
    /// since 1970.
    ///
    /// # Errors
    /// Where they are damaged.
    pub fn new(
        fetch: &'p Fetch,
        schema: &'p TableSchema,
        key: &'p [u8],
        header: Option<&'p [u8]>,
        now_s: i64,
    ) -> Result<Self> {
        let header = match header {
            Some(header) => Header::parse(header).map_err(of_row)?,
            None => Header::EMPTY,
        };
        let mut cells = vec![None; fetch.slots];
        if !fetch.partition.is_empty() {
            let key = DecodedKey::read(key).map_err(of_key)?;
            let values = schema.layout().partition_values(key.partition_key);
            let values = values.map_err(of_key)?;
            for &(slot, place) in &fetch.partition {
                cells[slot] = Some(plain(values[place]));
            }
        }
        let statics = header.static_view(now_s).without(schema.dropped_cells());
        fetch.statics.fill(&statics, &mut cells)?;
        Ok(Self {
            fetch,
            schema,
            header,
            now_s,
            cells,
        })
    }

    /// Whether a static column has a value.
    ///
    /// # Errors
    /// Where the header is damaged.
    pub fn has_static_values(&self) -> Result<bool> {
        if self.header.static_row().is_none() {
            return Ok(false);
        }
        (self.static_view())
            .is_live(self.fetch.known_statics.as_deref())
            .map_err(of_row)
    }

    /// Its static row.
    pub fn static_view(&self) -> RowView<'_> {
        let view = self.header.static_view(self.now_s);
        view.without(self.schema.dropped_cells())
    }

    /// The header of the partition: its deletions and its static row.
    pub fn header(&self) -> &Header<'p> {
        &self.header
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
        let row = RowRef::parse(operand).map_err(of_row)?;
        let view = RowView::new(row, self.header.deletion_at(clustering), self.now_s);
        let view = view.without(self.schema.dropped_cells());
        let known = self.fetch.known_regular.as_deref();
        if !view.is_live(known).map_err(of_row)? {
            return Ok(None);
        }
        let keys = match (self.fetch.clustering.is_empty(), view.original_clustering()) {
            (true, _) => Vec::new(),
            (false, None) => {
                let values = self.schema.layout().clustering_values(clustering);
                values.map_err(of_key)?
            }
            // As a tuple of all clustering values, as they were written.
            (false, Some(original)) => {
                let values = elements::components(original).map(|value| value.map_err(of_type));
                let values = values.map(|value| Ok(value?.unwrap_or_default().to_vec()));
                let mut values = values.collect::<Result<Vec<_>>>()?;
                values.resize(self.schema.layout().clustering().len(), Vec::new());
                values
            }
        };
        Ok(Some(Row { view, keys }))
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
        self.fetch.regular.fill(&row.view, cells)
    }
}

/// A row that is there.
#[derive(Debug)]
pub struct Row<'r> {
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
