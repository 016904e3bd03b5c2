//! Publishers that are killed, that lose an answer, or that meet another publisher, at every call of a target
//! and of its catalog.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use object_store::memory::InMemory;

use super::manifests::is_live;
use super::table::PublishedTable;
use super::tests::{commit, keeping, manifests, move_main, newest, publication, retaining, stamp};
use super::{data_file_name, sweep};
#[cfg(feature = "s3")]
use crate::catalog::testing::TestCatalog;
use crate::iceberg::manifest::{self, POSITIONAL_DELETES};
use crate::iceberg::metadata::{MAIN, TableMetadata};
use crate::iceberg::testing::{data_file, delete_file};
use crate::target::Target;
use crate::target::faulty::{Calls, Event, faulty_target, target};

/// A store in memory and, if a catalog commits its tables, the catalog.
#[derive(Clone, Default)]
struct Place {
    store: InMemory,
    #[cfg(feature = "s3")]
    catalog: Option<TestCatalog>,
}

/// Functions that return an empty store, one for each way to commit: without a catalog, and with one.
const PLACES: &[fn() -> Place] = &[
    Place::default,
    #[cfg(feature = "s3")]
    Place::with_a_catalog,
];

impl Place {
    #[cfg(feature = "s3")]
    fn with_a_catalog() -> Self {
        Self {
            catalog: Some(TestCatalog::start()),
            ..Self::default()
        }
    }

    /// Returns the target of a publisher whose calls to the store and to the catalog all succeed.
    fn target(&self) -> Target {
        self.with_catalog(target(&self.store), None)
    }

    /// Returns the target of a publisher, and the counter of its calls to the store and to the catalog.
    /// `event`, such as a kill, happens at call number `at`, counted from 0.
    fn faulty(&self, at: usize, event: Event) -> (Target, Arc<Calls>) {
        let (target, calls) = faulty_target(&self.store, at, event);
        let target = self.with_catalog(target, Some(Arc::clone(&calls)));
        (target, calls)
    }

    #[cfg(feature = "s3")]
    fn with_catalog(&self, target: Target, calls: Option<Arc<Calls>>) -> Target {
        match &self.catalog {
            None => target,
            Some(catalog) => catalog.commits(target, calls),
        }
    }

    #[cfg(not(feature = "s3"))]
    fn with_catalog(&self, target: Target, _calls: Option<Arc<Calls>>) -> Target {
        target
    }

    /// Checks that the version hint, which serves readers that cannot list objects, names commit number
    /// `commits`. With a catalog, checks instead that there is no hint and that the catalog has made
    /// `commits` commits.
    fn check_hint(&self, commits: usize) {
        let hint = target(&self.store).read("ks/t/metadata/version-hint.text");
        #[cfg(feature = "s3")]
        if let Some(catalog) = &self.catalog {
            assert_eq!(hint.unwrap(), None);
            assert_eq!(catalog.commit_count(), commits);
            return;
        }
        assert_eq!(hint.unwrap().unwrap(), commits.to_string());
    }
}

/// Returns the name of the data file of the publication `id`.
fn data_name(id: i64) -> String {
    format!("ks/t/data/{id}.parquet")
}

fn upload(target: &Target, name: &str) -> Result<String, Box<dyn Error>> {
    let mut upload = target.upload(name)?;
    upload.write_all(b"rows")?;
    upload.complete()?;
    Ok(target.url(name))
}

/// Publishes all rows of a snapshot of the database, in one data file. `sequence_number` is that of the
/// database's snapshot, `id` that of the Iceberg snapshot. Returns false if the snapshot was published
/// before.
fn publish(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<bool, Box<dyn Error>> {
    let mut publication = publication(snapshot, sequence_number);
    let url = upload(target, &data_name(id))?;
    publication.files.push(data_file(&url, 1));
    Ok(commit(target, &publication, id)?)
}

/// Publishes the changes since the previous snapshot: a new data file, and the deletion of one row of the
/// data file that publication 1 added. Returns false if the snapshot was published before.
fn publish_changes(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<bool, Box<dyn Error>> {
    let mut publication = keeping(snapshot, sequence_number, &[]);
    let url = upload(target, &data_name(id))?;
    publication.files.push(data_file(&url, 1));
    let url = upload(target, &format!("ks/t/data/{id}-deletes.parquet"))?;
    let of = target.url(&data_name(1));
    publication.deletes.push(delete_file(&url, &of, 1));
    Ok(commit(target, &publication, id)?)
}

/// A function that publishes a snapshot, either all rows or changes. Takes the target, the name and the
/// sequence number of the database's snapshot, and the id of the Iceberg snapshot. Returns false if the
/// snapshot was published before.
type Publish = fn(&Target, &str, u64, i64) -> Result<bool, Box<dyn Error>>;

const WAYS: [Publish; 2] = [publish, publish_changes];

/// Reads the table as an engine does, and returns its metadata. Checks that each object that a snapshot names
/// exists and is complete.
fn read(target: &Target) -> TableMetadata {
    let read = |url: &str| {
        let name = target.name(url).unwrap();
        target.read(name).unwrap().unwrap()
    };
    let metadata = newest(target);
    for snapshot in &metadata.snapshots {
        let mut live = Vec::new();
        for listed in manifests(target, snapshot) {
            let entries = manifest::decode(&read(&listed.manifest_path)).unwrap();
            live.extend(entries.into_iter().filter(is_live));
        }
        for entry in &live {
            let file = &entry.data_file;
            assert_eq!(read(&file.file_path), "rows");
            assert_eq!(
                file.content == POSITIONAL_DELETES,
                file.referenced_data_file.is_some()
            );
        }
        let total = |name: &str| snapshot.summary[name].parse::<usize>().unwrap();
        let all = total("total-data-files") + total("total-delete-files");
        assert_eq!(live.len(), all);
    }
    metadata
}

const KILLS: [Event; 3] = [Event::Kill, Event::KillAfter, Event::LoseAnswer];

#[test]
fn a_killed_publisher_leaves_the_old_or_the_new_publication_and_the_next_run_finishes() {
    for (way, event) in WAYS.iter().flat_map(|way| KILLS.map(|event| (way, event))) {
        for new_place in PLACES {
            killed_at_each_call(new_place, *way, &event);
        }
    }
}

/// Runs the same publication again and again, each time in a new store. `event` happens at the first call to
/// the store or the catalog in the first run, at the second call in the second run, and so on, until a run
/// ends before the event.
fn killed_at_each_call(new_place: &fn() -> Place, publish_next: Publish, event: &Event) {
    for at in 0.. {
        let place = new_place();
        let healthy = place.target();
        publish(&healthy, "monday", 10, 1).unwrap();

        let (faulty, calls) = place.faulty(at, event.clone());
        let published = publish_next(&faulty, "tuesday", 20, 2);
        let left = read(&healthy);
        let is_new = left.refs.contains_key("tuesday");
        assert_eq!(left.refs[MAIN].snapshot_id, if is_new { 2 } else { 1 });
        assert!(is_new || published.is_err());

        let is_first = publish_next(&healthy, "tuesday", 20, 3).unwrap();
        assert_eq!(is_first, !is_new);
        let whole = read(&healthy);
        assert_eq!(whole.snapshots.len(), 2);
        let named = |name: &str| whole.refs[name].snapshot_id;
        assert_eq!(named(MAIN), named("tuesday"));
        place.check_hint(2);
        if !calls.met_event() {
            assert!(published.unwrap());
            break;
        }
    }
}

#[test]
fn a_killed_first_publisher_leaves_a_whole_table_or_none() {
    for (new_place, event) in PLACES
        .iter()
        .flat_map(|new_place| KILLS.map(|event| (new_place, event)))
    {
        for at in 0.. {
            let place = new_place();
            let healthy = place.target();
            let (faulty, calls) = place.faulty(at, event.clone());
            let published = publish(&faulty, "monday", 10, 1);
            let is_there = PublishedTable::open(&healthy, "ks/t").unwrap().version() > 0;
            assert!(is_there || published.is_err());

            let is_first = publish(&healthy, "monday", 10, 2).unwrap();
            assert_eq!(is_first, !is_there);
            assert_eq!(read(&healthy).snapshots.len(), 1);
            place.check_hint(1);
            if !calls.met_event() {
                assert!(published.unwrap());
                break;
            }
        }
    }
}

#[test]
fn two_publishers_leave_whole_publications_wherever_they_meet() {
    for publish_next in WAYS {
        for new_place in PLACES {
            meeting_at_each_call(new_place, publish_next);
        }
    }
}

/// Runs the same publication again and again, each time in a new store. Another publisher commits just before
/// the first call to the store or the catalog in the first run, before the second call in the second run, and
/// so on, until a run ends before that call.
fn meeting_at_each_call(new_place: &fn() -> Place, publish_next: Publish) {
    for at in 0.. {
        let place = new_place();
        let healthy = place.target();
        publish(&healthy, "monday", 10, 1).unwrap();

        let shared = place.clone();
        let rival = move || assert!(publish_next(&shared.target(), "wednesday", 30, 3).unwrap());
        let (first, calls) = place.faulty(at, Event::Meanwhile(Arc::new(rival)));
        let published = publish_next(&first, "tuesday", 20, 2);
        let met = calls.met_event();
        let left = read(&healthy);
        assert_eq!(left.refs.contains_key("wednesday"), met);
        assert_eq!(left.refs.contains_key("tuesday"), published.is_ok());
        place.check_hint(left.snapshots.len());
        if let Err(error) = published {
            let error = error.to_string();
            assert!(error.contains("another publisher"), "{error}");
        }

        publish_next(&healthy, "tuesday", 20, 4).unwrap();
        let whole = read(&healthy);
        assert_eq!(whole.snapshots.len(), if met { 3 } else { 2 });
        place.check_hint(whole.snapshots.len());
        if !met {
            break;
        }
    }
}

/// Publishes all rows of a snapshot as a publication of several tables does: `main` moves by a second commit, with
/// which only the newest publication is kept. `id` is that of the Iceberg snapshot and of the first epoch, and
/// `id + 10` that of the second epoch. Returns whether each of the two commits was necessary.
fn publish_in_two_steps(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<[bool; 2], Box<dyn Error>> {
    let mut publication = retaining(snapshot, sequence_number, 1);
    publication.moves_main = false;
    let url = upload(target, &data_name(id))?;
    publication.files.push(data_file(&url, 1));
    let is_new = commit(target, &publication, id)?;
    Ok([is_new, move_main(target, &publication, id + 10)?])
}

#[test]
fn main_follows_a_tag_once_after_a_kill_between_the_commits() {
    for (new_place, event) in PLACES
        .iter()
        .flat_map(|new_place| KILLS.map(|event| (new_place, event)))
    {
        for at in 0.. {
            let place = new_place();
            let healthy = place.target();
            publish(&healthy, "monday", 10, 1).unwrap();
            let (faulty, calls) = place.faulty(at, event.clone());
            let published = publish_in_two_steps(&faulty, "tuesday", 20, 2);
            let left = read(&healthy);
            let is_new = left.refs.contains_key("tuesday");
            let is_moved = left.refs[MAIN].snapshot_id == 2;
            assert!(is_new || !is_moved);
            assert!(is_moved || published.is_err());
            // The old publication goes with the move.
            assert_eq!(left.refs.contains_key("monday"), !is_moved);

            let steps = publish_in_two_steps(&healthy, "tuesday", 20, 3).unwrap();
            assert_eq!(steps, [!is_new, !is_moved]);
            let whole = read(&healthy);
            assert!(whole.refs.keys().eq([MAIN, "tuesday"]));
            let named = |name: &str| whole.refs[name].snapshot_id;
            assert_eq!(named(MAIN), named("tuesday"));
            place.check_hint(3);
            if !calls.met_event() {
                assert_eq!(published.unwrap(), [true, true]);
                break;
            }
        }
    }
}

#[test]
fn main_moves_once_to_the_newest_publication_wherever_two_publishers_meet() {
    for new_place in PLACES {
        for at in 0.. {
            let place = new_place();
            let healthy = place.target();
            publish(&healthy, "monday", 10, 1).unwrap();
            let shared = place.clone();
            let rival = move || {
                publish_in_two_steps(&shared.target(), "wednesday", 30, 3).unwrap();
            };
            let (first, calls) = place.faulty(at, Event::Meanwhile(Arc::new(rival)));
            let published = publish_in_two_steps(&first, "tuesday", 20, 2);
            let has_met = calls.met_event();
            let left = read(&healthy);
            let expected = if has_met { 3 } else { 2 };
            assert_eq!(left.refs[MAIN].snapshot_id, expected, "at call {at}");
            if let Err(error) = published {
                let error = error.to_string();
                assert!(error.contains("another publisher"), "{error}");
            }
            if !has_met {
                break;
            }
        }
    }
}

/// Publishes all rows of a snapshot, keeps the two newest publications, and sweeps. The arguments and the
/// result are those of [`publish`].
fn publish_and_keep_two(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<bool, Box<dyn Error>> {
    let mut publication = retaining(snapshot, sequence_number, 2);
    let table = PublishedTable::open(target, "ks/t")?;
    let name = data_file_name("ks/t", table.version() + 1, &id.to_string());
    let url = upload(target, &name)?;
    publication.files.push(data_file(&url, 1));
    let is_new = table.commit(&publication, &stamp(id))?;
    sweep(target, "ks/t")?;
    Ok(is_new)
}

impl Place {
    /// Publishes the snapshots `monday` and `tuesday`.
    fn publish_two_days(&self) {
        let healthy = self.target();
        publish_and_keep_two(&healthy, "monday", 10, 1).unwrap();
        publish_and_keep_two(&healthy, "tuesday", 20, 2).unwrap();
    }

    /// Checks that the table has the publications `days` and no others, and all of their objects. Returns the
    /// names of all objects.
    fn check_days(&self, days: [&str; 2]) -> Vec<String> {
        let metadata = read(&self.target());
        assert!(metadata.refs.keys().eq([MAIN, days[0], days[1]]));
        assert_eq!(metadata.snapshots.len(), 2);
        let number = |id: i64| {
            let mut snapshots = metadata.snapshots.iter();
            let named = snapshots.find(|of| of.snapshot_id == id).unwrap();
            named.summary["ebb.sequence-number"].parse::<u64>().unwrap()
        };
        let numbers = metadata.snapshots.iter().map(|of| number(of.snapshot_id));
        assert_eq!(Some(number(metadata.refs[MAIN].snapshot_id)), numbers.max());
        self.target().list("ks/t").unwrap()
    }
}

#[test]
fn a_killed_publisher_removes_an_old_publication_with_its_commit_or_not_at_all() {
    for (new_place, event) in PLACES
        .iter()
        .flat_map(|new_place| KILLS.map(|event| (new_place, event)))
    {
        for at in 0.. {
            let place = new_place();
            place.publish_two_days();
            let (faulty, calls) = place.faulty(at, event.clone());
            let published = publish_and_keep_two(&faulty, "wednesday", 30, 3);
            let healthy = place.target();
            let is_new = read(&healthy).refs.contains_key("wednesday");
            assert!(is_new || published.is_err());
            let first = if is_new { "wednesday" } else { "monday" };
            let mut days = [first, "tuesday"];
            days.sort_unstable();
            place.check_days(days);

            let is_first = publish_and_keep_two(&healthy, "wednesday", 30, 4).unwrap();
            assert_eq!(is_first, !is_new);
            let left = place.check_days(["tuesday", "wednesday"]);
            let is_of_monday = |name: &String| name.contains("/ebb-1-");
            assert!(!left.iter().any(is_of_monday), "{left:?}");
            place.check_hint(3);
            if !calls.met_event() {
                assert!(published.unwrap());
                break;
            }
        }
    }
}

#[test]
fn two_publishers_that_remove_old_publications_leave_whole_ones_wherever_they_meet() {
    for new_place in PLACES {
        for at in 0.. {
            let place = new_place();
            place.publish_two_days();
            let shared = place.clone();
            let rival = move || {
                assert!(publish_and_keep_two(&shared.target(), "thursday", 40, 3).unwrap());
            };
            let (first, calls) = place.faulty(at, Event::Meanwhile(Arc::new(rival)));
            let published = publish_and_keep_two(&first, "wednesday", 30, 4);
            let has_met = calls.met_event();
            let is_new = read(&place.target()).refs.contains_key("wednesday");
            // The sweep of the first publisher may miss objects that the rival has removed.
            assert!(is_new || published.is_err());
            match (has_met, is_new) {
                (true, true) => place.check_days(["thursday", "wednesday"]),
                (true, false) => place.check_days(["thursday", "tuesday"]),
                (false, _) => place.check_days(["tuesday", "wednesday"]),
            };
            if !has_met {
                assert!(published.unwrap());
                break;
            }
        }
    }
}
