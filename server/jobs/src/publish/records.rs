//! The records of the progress of a publication: objects in the target, beside the published tables.
//! A publication that starts again reads from them which of its work is done.
//!
//! ```text
//!   _ebb/KEYSPACE/SNAPSHOT.json           the publication is whole; written last
//!   _ebb/KEYSPACE/SNAPSHOT/ID/plan.json   the plan ID of a publication that has not ended
//!   _ebb/KEYSPACE/SNAPSHOT/ID/task-N.json a task of the plan ID is done: its data files
//!   _ebb/KEYSPACE/SNAPSHOT/ID/refused.txt the rows for which the publication failed
//! ```
//!
//! All records but the first are under the id of their plan, so the records of two publishers that
//! run at once do not mix. Publications of different tables of the snapshot may be under way at
//! once: each leaves the plans and tasks of the others alone, and all share the completion record.
//! A publisher refuses a snapshot of which another database has records here.
//! Plans and the records of tasks have a checksum: with a wrong number in one of them, a
//! publication could lack rows without an error.
//!
//! The rows for which the publication failed are named in the target, and not in the cause of the
//! job's failure: readers of the target may read its rows anyway, but clients without permissions
//! on the table may see the cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;

use bytes::Bytes;
use ebb_publish::iceberg::manifest::DataFile;
use ebb_publish::target::{Target, TargetError};
use ebb_scheduler::runtime::Split;
use ebb_text::counts::counted;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::plan::TablePlan;
use super::whole::WholeRecord;
use crate::request::RECORDS;

type Result<T> = std::result::Result<T, TargetError>;

/// The beginning of each plan and of each record of a task, up to the checksum.
const CHECKSUM: &[u8] = br#"{"checksum":""#;

/// The number of hexadecimal digits of a checksum.
const CHECKSUM_DIGITS: usize = 16;

/// The names of the objects in the target that record the progress of a publication of one snapshot:
/// its plan, its finished tasks, a refused row, and its completion.
#[derive(Debug, Clone)]
pub(super) struct Records {
    keyspace: String,
    folder: String,
}

/// The plan of a publication as it is stored in the target, with the splits that the publication's
/// tasks read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPlan {
    /// A random id, which no other plan has.
    pub(super) id: String,
    /// The database, the snapshot and the options of the publication.
    pub(super) origin: Value,
    /// The plans of the tables, as [`TablePlan::to_json`] returns them.
    pub(super) tables: Vec<Value>,
    /// The splits of the input. The number of a task is the index of its split.
    pub(super) splits: Vec<Split>,
}

impl StoredPlan {
    /// Returns whether a publication with the plans `tables` can continue the stored plan: the plans
    /// have to be the same. Of a table that an earlier start has committed, only the name is
    /// compared, because nothing is left to do for it.
    pub(super) fn is_of(&self, tables: &[TablePlan]) -> bool {
        let is_same = |(old, new): (&Value, &TablePlan)| {
            // The splits name tables by their numbers.
            old["name"] == new.name && (new.is_published || *old == new.to_json())
        };
        self.tables.len() == tables.len() && self.tables.iter().zip(tables).all(is_same)
    }

    /// Returns the id of the database whose snapshot is published; `None` if the plan has none.
    pub(super) fn database_id(&self) -> Option<&str> {
        self.origin["database_id"].as_str()
    }

    /// Returns whether both plans are of the same snapshot, and have no table in common.
    fn is_beside(&self, other: &Self) -> bool {
        let is_same = |member: &str| self.origin[member] == other.origin[member];
        let of_snapshot = ["database_id", "sequence_number", "read_time_s"];
        let has = |name: &Value| other.tables.iter().any(|table| table["name"] == *name);
        let is_shared = self.tables.iter().any(|table| has(&table["name"]));
        !is_shared && of_snapshot.into_iter().all(is_same)
    }
}

/// The result of a finished task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskRecord {
    /// The data files that the task wrote, each with the number of its table.
    pub(super) files: Vec<(u32, DataFile)>,
    /// The delete files that the task wrote, each with the number of its table.
    pub(super) deletes: Vec<(u32, DataFile)>,
    /// The number of each table, and the numbers of rows that the task wrote or deleted there.
    pub(super) counts: Vec<(u32, RowCounts)>,
    /// The number of empty values that were published as null.
    pub(super) empty_values: u64,
}

/// The numbers of rows of a table, by the change that the publication makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RowCounts {
    /// The number of new rows. A publication of all rows counts each row here, because it has nothing
    /// to compare with.
    pub(super) added: u64,
    /// The number of rows whose cells have changed.
    pub(super) replaced: u64,
    /// The number of unchanged rows that were copied into new files.
    pub(super) rewritten: u64,
    /// The number of deleted rows.
    pub(super) removed: u64,
}

/// Prints the counts as in the report of a job.
impl fmt::Display for RowCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} added", counted(self.added, "row"))?;
        write!(f, ", {} replaced, {} deleted", self.replaced, self.removed)?;
        if self.rewritten > 0 {
            write!(f, ", {} written again to merge files", self.rewritten)?;
        }
        Ok(())
    }
}

impl AddAssign for RowCounts {
    fn add_assign(&mut self, more: Self) {
        self.added += more.added;
        self.replaced += more.replaced;
        self.rewritten += more.rewritten;
        self.removed += more.removed;
    }
}

impl Records {
    pub(super) fn new(keyspace: &str, snapshot: &str) -> Self {
        Self {
            keyspace: keyspace.to_owned(),
            folder: format!("{RECORDS}/{keyspace}/{snapshot}"),
        }
    }

    /// Returns the folder of the plans in the target. The completion record has this name with `.json` at its end.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Returns the names of the objects for another snapshot of the same keyspace.
    pub(super) fn of_snapshot(&self, snapshot: &str) -> Self {
        Self::new(&self.keyspace, snapshot)
    }

    /// Reads the stored plans of publications of this snapshot, or of an earlier one with the same
    /// name. Plans that cannot be decoded are left out.
    pub(super) fn plans(&self, target: &Target) -> Result<Vec<StoredPlan>> {
        let mut plans = Vec::new();
        for name in target.list(&self.folder)? {
            plans.extend(self.read_plan(target, &name)?);
        }
        Ok(plans)
    }

    /// Reads the plan in the object `name`; `None` if the object is not a plan, or cannot be decoded.
    fn read_plan(&self, target: &Target, name: &str) -> Result<Option<StoredPlan>> {
        if !name.ends_with("/plan.json") {
            return Ok(None);
        }
        let stored = target.read(name)?.unwrap_or_default();
        let plan: Option<StoredPlan> = decode(&stored);
        Ok(plan.filter(|plan| self.plan_name(&plan.id) == name))
    }

    /// Stores a plan, in place of the earlier plans that [`clear`](Self::clear) removes.
    pub(super) fn begin(&self, target: &Target, plan: &StoredPlan) -> Result<()> {
        self.clear(target, plan)?;
        self.write_plan(target, plan)
    }

    /// Writes a plan in place of one with the same id. The other records stay.
    pub(super) fn write_plan(&self, target: &Target, plan: &StoredPlan) -> Result<()> {
        target.replace(&self.plan_name(&plan.id), encode(plan))
    }

    /// Returns the records of the finished tasks of a plan, by their numbers. `is_there` returns
    /// whether a data file exists; a task is only finished if all of its files exist. A record that
    /// cannot be decoded is ignored, so its task is done again.
    pub(super) fn done(
        &self,
        target: &Target,
        plan: &StoredPlan,
        is_there: impl Fn(&(u32, DataFile)) -> bool,
    ) -> Result<BTreeMap<u32, TaskRecord>> {
        let mut done = BTreeMap::new();
        for name in target.list(&format!("{}/{}", self.folder, plan.id))? {
            let number = name.rsplit_once("/task-");
            let number = number.and_then(|(_, number)| number.strip_suffix(".json")?.parse().ok());
            let Some(number) = number.filter(|&number: &u32| (number as usize) < plan.splits.len())
            else {
                continue;
            };
            let record = target.read(&name)?.unwrap_or_default();
            let record: Option<TaskRecord> = decode(&record);
            let has_files = |record: &TaskRecord| {
                let mut files = record.files.iter().chain(&record.deletes);
                files.all(&is_there)
            };
            let record = record.filter(has_files);
            done.extend(record.map(|record| (number, record)));
        }
        Ok(done)
    }

    /// Writes the record that the task with the number `task` is finished.
    pub(super) fn end_task(
        &self,
        target: &Target,
        plan_id: &str,
        task: u32,
        record: &TaskRecord,
    ) -> Result<()> {
        let name = format!("{}/{plan_id}/task-{task}.json", self.folder);
        target.replace(&name, encode(record))
    }

    /// Writes an object that names the rows for which the publication fails, and the reasons. Returns
    /// the location of the object.
    pub(super) fn refuse(&self, target: &Target, plan_id: &str, text: String) -> Result<String> {
        let name = self.refused_name(plan_id);
        target.replace(&name, text.into())?;
        Ok(target.url(&name))
    }

    /// Removes the object that names the rows for which an earlier run of the publication failed.
    pub(super) fn forget_refused(&self, target: &Target, plan_id: &str) -> Result<()> {
        target.remove(&self.refused_name(plan_id))
    }

    /// Reads the completion record of the snapshot, or of an earlier one with the same name; `None`
    /// if there is none, or if it cannot be read.
    pub(super) fn whole(&self, target: &Target) -> Result<Option<WholeRecord>> {
        let stored = target.read(&self.whole_name())?;
        Ok(stored.and_then(|stored| serde_json::from_slice(&stored).ok()))
    }

    /// Writes the completion record of the publication.
    pub(super) fn replace_whole(&self, target: &Target, whole: &WholeRecord) -> Result<()> {
        target.replace(&self.whole_name(), format!("{:#}\n", json!(whole)).into())
    }

    /// Returns the location of the completion record.
    pub(super) fn whole_location(&self, target: &Target) -> String {
        target.url(&self.whole_name())
    }

    /// Removes the completion record of the snapshot, or of an earlier one with the same name. A record that
    /// came back after a power loss would name tables of which some were published anew meanwhile.
    pub(super) fn forget_whole(&self, target: &Target) -> Result<()> {
        target.remove_durably(&self.whole_name())
    }

    /// Removes the records of a plan, and those of all plans that have a table of it, are of
    /// another snapshot with the same name, or cannot be read. The plans of other tables of the
    /// same snapshot stay, with their other records: another publication may be under way. The
    /// completion record always stays.
    pub(super) fn clear(&self, target: &Target, plan: &StoredPlan) -> Result<()> {
        let names = target.list(&self.folder)?;
        let mut kept = Vec::new();
        for name in &names {
            let other = self.read_plan(target, name)?;
            if let Some(other) = other.filter(|other| other.is_beside(plan)) {
                kept.push(format!("{}/{}/", self.folder, other.id));
            }
        }
        let is_kept = |name: &str| kept.iter().any(|start| name.starts_with(start.as_str()));
        let mut removed = names.iter().filter(|name| !is_kept(name));
        removed.try_for_each(|name| target.remove(name))
    }

    fn plan_name(&self, id: &str) -> String {
        format!("{}/{id}/plan.json", self.folder)
    }

    fn refused_name(&self, plan_id: &str) -> String {
        format!("{}/{plan_id}/refused.txt", self.folder)
    }

    fn whole_name(&self) -> String {
        format!("{}.json", self.folder)
    }
}

/// Encodes a plan or the record of a task as JSON. The first member is a checksum: the xxh3 of all
/// bytes after its comma.
fn encode(record: &impl Serialize) -> Bytes {
    let json = json!(record).to_string();
    let members = json.strip_prefix('{').expect("a record is an object");
    let checksum = xxh3_64(members.as_bytes());
    format!("{{\"checksum\":\"{checksum:016x}\",{members}").into()
}

/// Decodes a plan or the record of a task. Returns `None` if the bytes are damaged, or if they have
/// no checksum: earlier builds of ebb wrote none.
fn decode<T: DeserializeOwned>(stored: &[u8]) -> Option<T> {
    let rest = stored.strip_prefix(CHECKSUM)?;
    let (checksum, rest) = rest.split_first_chunk::<CHECKSUM_DIGITS>()?;
    let members = rest.strip_prefix(b"\",")?;
    let expected = format!("{:016x}", xxh3_64(members));
    if checksum != expected.as_bytes() {
        return None;
    }
    serde_json::from_slice(stored).ok()
}

/// Returns the locations of all data files and delete files in the folder of a table of the
/// target.
pub(super) fn data_files(target: &Target, table: &str) -> Result<BTreeSet<String>> {
    let names = target.list(&format!("{table}/data"))?;
    Ok(names.iter().map(|name| target.url(name)).collect())
}

#[cfg(test)]
mod tests {
    use ebb_publish::commit::{Origin, Rewrites};

    use super::super::extent::Extent;
    use super::super::row_keys::KeyForm;
    use super::*;

    #[test]
    fn a_plan_is_of_the_same_tables_though_some_were_published_meanwhile() {
        let table = |name: &str, is_published: bool| TablePlan {
            name: name.to_owned(),
            origin: Origin {
                database_id: "d".into(),
                table_id: "t".into(),
                snapshot: "monday".into(),
                sequence_number: 7,
                read_time_s: 7,
            },
            columns: Vec::new(),
            key_columns: 0,
            last_column_id: 0,
            columns_property: String::new(),
            options_property: String::new(),
            keys: KeyForm::Plain,
            extent: Extent::Changes,
            live: Vec::new(),
            rewrites: Rewrites::default(),
            version: u64::from(is_published),
            parent: None,
            is_published,
        };
        let plan = StoredPlan {
            id: "a".to_owned(),
            origin: Value::Null,
            tables: ["app/t", "app/u"]
                .map(|name| table(name, false).to_json())
                .into(),
            splits: Vec::new(),
        };
        let (published, left) = (table("app/t", true), table("app/u", false));
        assert!(plan.is_of(&[published.clone(), left.clone()]));
        // The splits of the plan are of tables by number, so those of another one are not its own.
        assert!(!plan.is_of(&[table("app/other", true), left.clone()]));
        assert!(!plan.is_of(&[left, published.clone()]));
        let changed = TablePlan {
            columns_property: "[]".to_owned(),
            ..table("app/u", false)
        };
        assert!(!plan.is_of(&[published.clone(), changed]));
        assert!(!plan.is_of(&[published]));
    }

    /// Returns a plan of one table at the snapshot with the sequence number `seq`. The plan has two
    /// splits.
    fn stored_plan(id: &str, seq: u64, table: &str) -> StoredPlan {
        StoredPlan {
            id: id.to_owned(),
            origin: json!({"sequence_number": seq}),
            tables: vec![json!({"name": table})],
            splits: vec![Split::default(), Split::default()],
        }
    }

    #[test]
    fn tasks_are_done_while_their_plan_and_their_files_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        let records = Records::new("app", "monday");
        let plan = |id: &str| stored_plan(id, 7, "app/t");
        assert!(records.plans(&target).unwrap().is_empty());
        records.begin(&target, &plan("a")).unwrap();
        assert_eq!(records.plans(&target).unwrap(), [plan("a")]);

        let record = TaskRecord {
            empty_values: 3,
            ..TaskRecord::default()
        };
        records.end_task(&target, "a", 1, &record).unwrap();
        // Of no split of the plan.
        records.end_task(&target, "a", 2, &record).unwrap();
        let done = |plan: &StoredPlan| records.done(&target, plan, |_| true).unwrap();
        assert_eq!(done(&plan("a")), [(1, record.clone())].into());
        assert_eq!(done(&plan("b")), BTreeMap::new());

        let name = "_ebb/app/monday/a/task-1.json";
        let stored = target.read(name).unwrap().unwrap();
        let stored = String::from_utf8(stored.to_vec()).unwrap();
        let wrong = stored.replace("\"empty_values\":3", "\"empty_values\":8");
        target.replace(name, wrong.into()).unwrap();
        assert_eq!(done(&plan("a")), BTreeMap::new());

        records.begin(&target, &plan("b")).unwrap();
        assert_eq!(done(&plan("a")), BTreeMap::new());
        target
            .replace("_ebb/app/monday/b/plan.json", Bytes::from_static(b"{"))
            .unwrap();
        assert!(records.plans(&target).unwrap().is_empty());
        let origin = Origin {
            database_id: "d".into(),
            table_id: "t".into(),
            snapshot: "monday".into(),
            sequence_number: 7,
            read_time_s: 7,
        };
        assert_eq!(records.whole(&target).unwrap(), None);
        let whole = WholeRecord::new(&origin);
        records.replace_whole(&target, &whole).unwrap();
        records.clear(&target, &plan("b")).unwrap();
        assert_eq!(target.list("_ebb").unwrap(), ["_ebb/app/monday.json"]);
        assert_eq!(records.whole(&target).unwrap(), Some(whole));
    }

    /// Regression: a record with a wrong digit was read as if it were not damaged.
    #[test]
    fn a_record_with_a_wrong_bit_or_without_a_checksum_is_not_read() {
        let record = TaskRecord {
            empty_values: 3,
            ..TaskRecord::default()
        };
        let stored = encode(&record);
        assert_eq!(decode::<TaskRecord>(&stored), Some(record.clone()));
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut wrong = stored.to_vec();
                wrong[at] ^= 1 << bit;
                assert_eq!(decode::<TaskRecord>(&wrong), None, "byte {at}, bit {bit}");
            }
            assert_eq!(decode::<TaskRecord>(&stored[..at]), None, "{at} bytes");
        }
        let without_checksum = json!(record).to_string();
        assert_eq!(decode::<TaskRecord>(without_checksum.as_bytes()), None);
    }

    /// Regression: a publication of one table removed the plan and the tasks of a publication of
    /// another table of the same snapshot, which then could not be continued.
    #[test]
    fn a_plan_replaces_those_of_its_tables_and_of_other_snapshots_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        let records = Records::new("app", "monday");
        let ids = || {
            let plans = records.plans(&target).unwrap();
            let mut ids: Vec<String> = plans.into_iter().map(|plan| plan.id).collect();
            ids.sort();
            ids
        };
        let t = stored_plan("t", 7, "app/t");
        let u = stored_plan("u", 7, "app/u");
        for plan in [&t, &u] {
            records.begin(&target, plan).unwrap();
            let record = TaskRecord::default();
            records.end_task(&target, &plan.id, 0, &record).unwrap();
            let row = "a row".to_owned();
            records.refuse(&target, &plan.id, row).unwrap();
        }
        assert_eq!(ids(), ["t", "u"]);
        records.clear(&target, &t).unwrap();
        let mut left = target.list("_ebb").unwrap();
        left.sort();
        let of_u = ["plan.json", "refused.txt", "task-0.json"];
        assert_eq!(left, of_u.map(|name| format!("_ebb/app/monday/u/{name}")));
        assert_eq!(records.done(&target, &u, |_| true).unwrap().len(), 1);

        let same_table = stored_plan("v", 7, "app/u");
        records.begin(&target, &same_table).unwrap();
        assert_eq!(ids(), ["v"]);
        let other_snapshot = stored_plan("w", 8, "app/t");
        records.begin(&target, &other_snapshot).unwrap();
        assert_eq!(ids(), ["w"]);
        records.clear(&target, &other_snapshot).unwrap();
        assert_eq!(target.list("_ebb").unwrap(), [""; 0]);
    }
}
