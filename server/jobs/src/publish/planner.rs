//! The plans of the Iceberg tables of a table of the store, made from the state of the target and from the
//! snapshots that the store keeps.

use ebb_publish::commit::{CommitError, Origin, PublishedTable, Rights, plan_rewrites};
use ebb_publish::target::Target;
use ebb_scheduler::runtime::TaskError;
use ebb_storage::{Changes, ErrorKind, SnapshotTable};

use super::PublishRequest;
use super::epochs::Epochs;
use super::extent::{Extent, Facts, WhyWhole};
use super::plan::{OPTIONS_PROPERTY, PreviousColumns, StoredColumns, TablePlan};
use crate::error::JobError;

/// The planner of one stored table's publication: of an Iceberg table for its rows and, if it has or had static
/// columns, of another one for these.
pub(super) struct Planner<'p> {
    pub(super) target: &'p Target,
    pub(super) options: &'p PublishRequest,
    pub(super) epochs: &'p Epochs,
    /// The snapshot of the table that is pinned (kept) for the target: its sequence number, and its
    /// read time in seconds since 1970. `None` if no snapshot is pinned.
    pub(super) pinned: Option<(u64, i64)>,
}

impl Planner<'_> {
    /// Returns whether a publication of a table without static columns also publishes the Iceberg
    /// table `name`, without rows. `name` is the Iceberg table for the static columns of the table
    /// in `origin`, and `rows` is the plan of the table's rows.
    ///
    /// The result is true if an earlier publication of the same table of the database has written
    /// that Iceberg table, with one exception: the result is false if the rows of this snapshot are
    /// published already, and so are those of a later snapshot, which may have static columns.
    pub(super) fn empties_statics(
        &self,
        rows: &TablePlan,
        name: &str,
        origin: &Origin,
    ) -> Result<bool, JobError> {
        let open = |name: &str| PublishedTable::open(self.target, name);
        match open(name) {
            Ok(found) if found.is_of_table(origin, self.options.take_over) => {}
            // A table that another engine wrote does not keep this one from being published.
            Ok(_) | Err(CommitError::Refused { .. } | CommitError::Metadata { .. }) => {
                return Ok(false);
            }
            Err(error) => return Err(TaskError::failed(error).into()),
        }
        if !rows.is_published {
            return Ok(true);
        }
        // An earlier newest publication shows that a publisher of this snapshot was stopped between the tables.
        let newest = open(&rows.name).map_err(TaskError::failed)?.origin();
        let place = |origin: &Origin| (origin.sequence_number, origin.read_time_s);
        Ok(newest.is_none_or(|newest| place(&newest) <= place(&rows.origin)))
    }

    /// Plans the publication of an Iceberg table, on the basis of its newest publication in the target.
    pub(super) fn plan(
        &self,
        name: String,
        origin: Origin,
        stored: StoredColumns,
    ) -> Result<TablePlan, JobError> {
        let found = PublishedTable::open(self.target, &name).map_err(TaskError::failed)?;
        // After the table is opened: another publication of this database may be at work.
        let rights = Rights {
            replaces_tag: self.options.replace,
            takes_over: self.options.take_over,
            own_epochs: self.epochs.of(&name)?,
        };
        let is_published = found.is_published(&origin, &rights);
        let is_published = is_published.map_err(JobError::senseless)?;
        let is_taken_over = found.is_taken_over(&origin, &rights);
        let is_taken_over = is_taken_over.map_err(JobError::senseless)?;
        let previous = PreviousColumns::of(&found);
        let mut plan = TablePlan::new(name, origin, stored, &previous, self.options)?;
        plan.version = found.version();
        plan.parent = found.snapshot_id();
        plan.is_published = is_published;
        let newest = found.origin();
        let facts = Facts {
            is_whole_demanded: self.options.full,
            is_taken_over,
            origin: &plan.origin,
            newest: newest.as_ref(),
            has_same_columns: plan.has_columns_of(&found),
            has_same_options: found.main_entry(OPTIONS_PROPERTY)
                == Some(&plan.options_property[..]),
            has_exact_keys: plan.has_exact_keys(),
            pinned: self.pinned,
        };
        plan.extent = facts.decide();
        if plan.is_of_changes() && !is_published {
            plan.live = found.live_files().map_err(TaskError::failed)?;
            plan.rewrites = plan_rewrites(&plan.live);
        }
        Ok(plan)
    }
}

/// Decides whether only changed rows are written to the Iceberg tables of one stored table. If not,
/// changes their plans so that all rows are written. The decision is the same for all Iceberg
/// tables that are still to be published, because the stored rows are read once for all of them.
/// Returns the snapshot to compare with; `None` if all rows are written, or if nothing is left to
/// publish.
pub(super) fn agree(
    table: &SnapshotTable,
    pinned: Option<SnapshotTable>,
    tables: &mut [TablePlan],
) -> Result<Option<SnapshotTable>, JobError> {
    let mut left = tables.iter().filter(|table| !table.is_published);
    if left.clone().next().is_none() {
        return Ok(None);
    }
    let why = left.find_map(|table| match &table.extent {
        Extent::Whole(why) => Some(why.clone()),
        Extent::Changes => None,
    });
    let why = match (why, pinned) {
        (Some(why), _) => why,
        (None, None) => WhyWhole::NoPin,
        (None, Some(older)) => match table.changed_keys::<&[u8], _>(&older, ..) {
            Ok(Changes::Keys(_)) => return Ok(Some(older)),
            Ok(Changes::Unknown(reason)) => WhyWhole::Unknown(reason.to_string()),
            // If the damage is in the way of all rows, too, a task fails for this table alone.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                WhyWhole::Unknown(format!("what has changed cannot be read: {error}"))
            }
            Err(error) => return Err(error.into()),
        },
    };
    for table in tables {
        table.write_whole(why.clone());
    }
    Ok(None)
}
