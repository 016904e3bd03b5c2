//! Publications of several tables during which, at some call of the target, the publisher is killed, an
//! answer is lost, or another publisher runs.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use ebb_publish::commit::sweep;
use ebb_publish::target::faulty::{self, Calls, Event};
use ebb_tables::names::TableName;
use ebb_tables::write::delete_row;
use ebb_test_support::seed::explores;
use ebb_test_support::wait::Observed;

use super::*;
use crate::application::PublicationSite;
use crate::publish::records::Records;
use crate::publish::{job, section};

/// The Iceberg tables that are published.
const TABLES: [&str; 3] = ["t", "t_static", "u"];

/// The names of three days. The writes of each day insert new rows and overwrite existing ones, in both
/// tables. From the second day on they also delete a row of `t`.
const DAYS: [&str; 3] = ["monday", "tuesday", "wednesday"];

/// The snapshots that an Iceberg table has: the sequence number of each, by its tag. The entry `main` is the
/// newest one of which all tables have the tag; it is absent before there is one.
type Tags = BTreeMap<String, u64>;

/// A database with two tables, the first of which has static columns, and a target in memory.
struct Shop {
    store: Store,
    t: Written,
    u: Written,
    publisher: Publisher,
    lake: Target,
    /// The day at whose end each snapshot was created, by the sequence number of the snapshot.
    days: BTreeMap<u64, usize>,
}

/// A publisher of the tables of a shop.
#[derive(Clone)]
struct Publisher {
    db: Db,
    keyspace: Keyspace,
}

impl Publisher {
    fn publish(
        &self,
        target: &Target,
        snapshot: &str,
        options: &PublishRequest,
    ) -> Result<(), String> {
        self.publish_tables(&["t", "u"], target, snapshot, options)
    }

    fn publish_tables(
        &self,
        names: &[&str],
        target: &Target,
        snapshot: &str,
        options: &PublishRequest,
    ) -> Result<(), String> {
        run(&self.open(names, target, snapshot, options)?)
    }

    /// Opens the job of a publication, which reads the target.
    fn open(
        &self,
        names: &[&str],
        target: &Target,
        snapshot: &str,
        options: &PublishRequest,
    ) -> Result<JobSpec, String> {
        let opened = self.keyspace.snapshot(snapshot).unwrap();
        let table = |name: &&str| {
            let full: TableName = format!("app.{name}").parse().unwrap();
            (full, opened.table(name).unwrap())
        };
        let tables: Vec<_> = names.iter().map(table).collect();
        let site = PublicationSite {
            db: self.db.clone(),
            tables: tables.iter().map(|table| (&table.0, &table.1)).collect(),
            snapshot,
            target: PublishTarget::Folder(PathBuf::new()),
            place: None,
            task_memory_bytes: 1 << 20,
            commits: CommitRecord::default(),
        };
        let spec = job::spec_in(target.clone(), "publish", options, &site, 2);
        spec.map_err(|error| error.to_string())
    }
}

/// Runs the tasks of a publication, and commits it.
fn run(spec: &JobSpec) -> Result<(), String> {
    let ended = run_tasks(spec).and_then(|()| spec.output.commit());
    ended.map_err(|error| error.to_string())
}

impl Shop {
    fn new() -> Self {
        let store = Store::new();
        let t = store.create("t", &WITH_STATICS);
        let u = store.create("u", &NUMBERS);
        // The location of the folder to which the objects are copied for readers.
        let lake = faulty::in_memory(store.target().url("").trim_end_matches('/'));
        Self {
            publisher: Publisher {
                db: store.db.clone(),
                keyspace: store.keyspace.clone(),
            },
            store,
            t,
            u,
            lake: lake.unwrap(),
            days: BTreeMap::new(),
        }
    }

    /// Makes the writes of a day, and creates a snapshot.
    fn end_day(&mut self, day: usize, snapshot: &str) {
        let times = || at(day as i64 + 1);
        let number = day as i32;
        let row = |k, c, b: &str| [("k", int(k)), ("c", int(c)), ("b", b.as_bytes().to_vec())];
        if day == 0 {
            for c in 0..3 {
                self.t.insert(&row(7, c, "old"), times());
            }
        } else {
            let mut operand = Vec::new();
            delete_row(&times(), &mut operand).unwrap();
            let key = self.t.row_key(&row(7, number, ""));
            self.t.merge(&key, &operand);
        }
        self.t.insert(&row(number, 1, "new"), times());
        self.t.insert(&row(9, 9, DAYS[day]), times());
        let statics = [("k", int(9)), ("s", DAYS[day].as_bytes().to_vec())];
        self.t.insert(&statics, times());
        for (k, n) in [(1, number), (10 + number, number)] {
            self.u.insert(&[("k", int(k)), ("n", int(n))], times());
        }
        self.store.keyspace.create_snapshot(snapshot).unwrap();
        let sequence_number = self.sequence_number(snapshot);
        self.days.insert(sequence_number, day);
    }

    /// Returns the rows that a table has after the changes of the day number `day` of [`DAYS`].
    fn rows_of(&self, table: &str, day: usize) -> Vec<String> {
        let mut rows: Vec<String> = match table {
            "t" => {
                let kept = (0..3).filter(|&c| c == 0 || c > day);
                let kept = kept.map(|c| format!("7, {c}, 'old'"));
                let new = (0..=day).map(|k| format!("{k}, 1, 'new'"));
                let own = format!("9, 9, '{}'", DAYS[day]);
                kept.chain(new).chain([own]).collect()
            }
            "t_static" => vec![format!("9, '{}'", DAYS[day])],
            _ => {
                let new = (0..=day).map(|n| format!("{}, {n}", 10 + n));
                new.chain([format!("1, {day}")]).collect()
            }
        };
        rows.sort();
        rows
    }

    fn sequence_number(&self, snapshot: &str) -> u64 {
        self.store.keyspace.snapshot_seq(snapshot).unwrap().0
    }

    /// Publishes a snapshot while the target has no fault.
    fn publish(&self, snapshot: &str, options: &PublishRequest) {
        let published = self.publisher.publish(&self.lake, snapshot, options);
        published.unwrap();
    }

    /// Returns the snapshots of each of the Iceberg tables [`TABLES`].
    fn tags(&self) -> [Tags; 3] {
        TABLES.map(|table| {
            let Some(metadata) = newest_metadata(&self.lake, table) else {
                return Tags::new();
            };
            let shown = metadata.refs.iter().map(|(tag, reference)| {
                let mut snapshots = metadata.snapshots.iter();
                let named = snapshots.find(|s| s.snapshot_id == reference.snapshot_id);
                let sequence_number = &named.unwrap().summary["ebb.sequence-number"];
                (tag.clone(), sequence_number.parse().unwrap())
            });
            shown.collect()
        })
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.lake.read(name).unwrap().unwrap().to_vec()
    }

    /// Checks that each tag, and main, has exactly the rows of its snapshot. Also checks that the
    /// record of a completed publication exists only if all tables have its snapshot. Returns the
    /// snapshots that the tables have.
    fn check(&self) -> [Tags; 3] {
        self.copy_to_folder();
        let shown = self.tags();
        for (table, tags) in TABLES.iter().zip(&shown) {
            let written = if *table == "u" { &self.u } else { &self.t };
            for (tag, sequence_number) in tags {
                let expected = self.rows_of(table, self.days[sequence_number]);
                let found = self.store.rows(table, tag, written);
                assert_eq!(found, expected, "{table} at {tag}");
            }
        }
        for snapshot in DAYS {
            if let Some(recorded) = self.recorded(snapshot) {
                for tags in &shown {
                    assert_eq!(tags.get(snapshot), Some(&recorded), "{snapshot}");
                }
            }
        }
        shown
    }

    /// Copies the objects of the target to the folder with the same location, because readers open files.
    fn copy_to_folder(&self) {
        let folder = self.store.dir.path().join("lake");
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        for name in self.lake.list("").unwrap() {
            let path = folder.join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, self.read(&name)).unwrap();
        }
    }

    /// Returns the sequence number in the completion record for the publication of a snapshot; `None` if
    /// there is no record.
    fn recorded(&self, snapshot: &str) -> Option<u64> {
        let record = self.lake.read(&format!("_ebb/app/{snapshot}.json"));
        let record: serde_json::Value = serde_json::from_slice(&record.unwrap()?).unwrap();
        Some(record["sequence_number"].as_u64().unwrap())
    }

    /// Checks that the version hint of each table names its newest version.
    fn check_hints(&self) {
        for table in TABLES {
            let name = format!("app/{table}");
            let hint = self.read(&format!("{name}/metadata/version-hint.text"));
            let newest = PublishedTable::open(&self.lake, &name).unwrap().version();
            assert_eq!(String::from_utf8(hint).unwrap(), newest.to_string());
        }
    }

    /// Checks that the publications of the snapshots `published` are complete, also after a sweep
    /// (the removal of unused files), and that no records remain of publishers that were killed.
    fn check_whole(&self, published: &[&str]) {
        for table in TABLES {
            sweep(&self.lake, &format!("app/{table}")).unwrap();
        }
        let shown = self.check();
        for snapshot in published {
            assert_eq!(
                self.recorded(snapshot),
                Some(self.sequence_number(snapshot))
            );
        }
        assert!(shown.iter().all(|tags| tags.len() == published.len() + 1));
        for tags in &shown {
            let of_tags = tags.iter().filter(|(tag, _)| *tag != "main");
            let newest = of_tags.map(|(_, sequence_number)| sequence_number).max();
            assert_eq!(tags.get("main"), newest);
        }
        let mut records = self.lake.list("_ebb").unwrap();
        // Indexes belong to data files, not to publications.
        records.retain(|name| !name.starts_with("_ebb/.index/"));
        records.sort();
        let mut expected: Vec<String> = published
            .iter()
            .map(|snapshot| format!("_ebb/app/{snapshot}.json"))
            .collect();
        expected.sort();
        assert_eq!(records, expected);
    }
}

/// Returns the numbers, ascending, of the calls of a publication to its target at which an event,
/// such as a kill, is tested. The nightly run tests all calls. Other runs test every fifth, because
/// all calls take half a minute. The tests of `ebb-publish` always test every call of the commit of
/// one table.
fn places() -> impl Iterator<Item = usize> {
    (0..).step_by(if explores() { 1 } else { 5 })
}

/// The number of [`places`] that each publication has at the least: it makes more than ten calls.
const PLACES_MIN: usize = 3;

/// Calls `run_at` with one of the [`places`] after the other. It returns false, which ends the calls, if the
/// publication has made fewer calls.
fn at_each_place(run_at: impl FnMut(usize) -> bool) {
    let reached = places().map(run_at).take_while(|is_reached| *is_reached);
    let reached = reached.count();
    assert!(reached >= PLACES_MIN, "only {reached} places are reached");
}

/// Runs a publication many times. Each time the event happens at another call to its target; then
/// the publication is run again, and the target is checked. `prepare` makes the earlier
/// publications of a new shop, and returns the options of the publication under test. `snapshots`
/// are all snapshots that are published in the end. The last one is that of the publication under
/// test, whose commits remove the others.
fn stop_at_calls(event: &Event, snapshots: &[&str], prepare: impl Fn(&mut Shop) -> PublishRequest) {
    let snapshot = *snapshots.last().unwrap();
    at_each_place(|call| {
        let mut shop = Shop::new();
        let options = prepare(&mut shop);
        let before = shop.tags();
        let (target, calls) = faulty::with_event(&shop.lake, call, event.clone()).unwrap();
        let published = shop.publisher.publish(&target, snapshot, &options);

        let new = shop.sequence_number(snapshot);
        let left = shop.check();
        let is_new = |tags: &Tags| tags.get(snapshot) == Some(&new);
        let is_moved = |tags: &Tags| tags.get("main") == Some(&new);
        for (old, left) in before.iter().zip(&left) {
            let mut expected = old.clone();
            if is_moved(left) {
                // Old publications go with the move.
                expected.retain(|tag, _| snapshots.contains(&&tag[..]));
                expected.insert("main".to_owned(), new);
            }
            if is_new(left) {
                expected.insert(snapshot.to_owned(), new);
            }
            assert_eq!(*left, expected, "{event:?} at call {call}");
        }
        let has_moved = left.iter().any(is_moved);
        assert!(!has_moved || left.iter().all(is_new), "at call {call}");
        match &published {
            Ok(()) => {
                assert_eq!(shop.recorded(snapshot), Some(new));
                shop.check_hints();
            }
            // Only damage and refused values leave a table out; the runtime repeats a task after a fault of the target.
            Err(error) => {
                let leaves_out = error.contains("cannot be published");
                assert!(!leaves_out, "{event:?} at call {call}: {error}");
            }
        }
        if shop.recorded(snapshot) == Some(new) {
            assert!(left.iter().all(is_moved), "at call {call}");
        }

        shop.publish(snapshot, &options);
        assert!(shop.tags().iter().all(is_new));
        assert!(shop.tags().iter().all(is_moved));
        shop.check_whole(snapshots);
        let has_met = calls.met_event();
        if !has_met {
            published.unwrap();
        }
        has_met
    });
}

#[test]
fn a_first_publication_that_is_killed_is_finished_by_the_next_run() {
    stop_at_calls(&Event::Kill, &["monday"], |shop| {
        shop.end_day(0, "monday");
        PublishRequest::default()
    });
}

#[test]
fn a_second_publication_that_is_killed_or_loses_an_answer_is_finished_by_the_next_run() {
    for event in [Event::Kill, Event::LoseAnswer] {
        stop_at_calls(&event, &["monday", "tuesday"], |shop| {
            shop.end_day(0, "monday");
            shop.publish("monday", &PublishRequest::default());
            shop.end_day(1, "tuesday");
            PublishRequest::default()
        });
    }
}

/// The first publication leaves a completion record. The second one publishes another snapshot of
/// the same name and moves the tags. It must remove the record before it moves the tag of the first
/// table. Otherwise the record would exist while only some tables have the new snapshot.
#[test]
fn no_record_is_there_while_some_tables_have_a_tag_that_moves() {
    stop_at_calls(&Event::Kill, &["monday"], |shop| {
        shop.end_day(0, "monday");
        shop.publish("monday", &PublishRequest::default());
        shop.store.keyspace.delete_snapshot("monday").unwrap();
        shop.end_day(1, "monday");
        PublishRequest {
            replace: true,
            ..PublishRequest::default()
        }
    });
}

#[test]
fn a_publication_that_removes_an_old_one_and_is_killed_is_finished_by_the_next_run() {
    stop_at_calls(&Event::Kill, &["tuesday", "wednesday"], |shop| {
        for (day, snapshot) in DAYS.iter().enumerate() {
            shop.end_day(day, snapshot);
            if day < 2 {
                shop.publish(snapshot, &PublishRequest::default());
            }
        }
        keeping("2")
    });
}

/// A target at one of whose calls a rival publishes.
struct Meeting {
    target: Target,
    calls: Arc<Calls>,
    /// The thread of the rival, once it has started.
    rivals: mpsc::Receiver<JoinHandle<Result<(), String>>>,
}

impl Meeting {
    /// Returns the result of the rival's publication; `None` if the target has had fewer calls.
    fn rival_result(&self) -> Option<Result<(), String>> {
        let has_met = self.calls.met_event();
        has_met.then(|| self.rivals.recv().unwrap().join().unwrap())
    }
}

impl Shop {
    /// Returns a target before whose call number `call` a rival publishes by `publish`, in a thread of its
    /// own. The call goes on once the rival has ended. But if the first publisher reads or writes the
    /// completion record of one of `snapshots` by this call, the rival, which may need the same record, may
    /// not end before the call. The call then goes on once the rival is blocked.
    fn meeting(
        &self,
        call: usize,
        snapshots: &[&str],
        publish: impl Fn(&Publisher, &Target) -> Result<(), String> + Clone + Send + Sync + 'static,
    ) -> Meeting {
        let record = |snapshot: &&str| Records::new("app", snapshot).whole_location(&self.lake);
        let records: Vec<String> = snapshots.iter().map(record).collect();
        let rival = (self.publisher.clone(), self.lake.clone(), publish);
        let (started, rivals) = mpsc::channel();
        let meanwhile = move || {
            let (publisher, lake, publish) = rival.clone();
            let (start, at_start) = mpsc::channel();
            let (end, at_end) = mpsc::channel::<()>();
            let rival = thread::spawn(move || {
                start.send(Observed::current()).unwrap();
                let published = publish(&publisher, &lake);
                drop(end);
                published
            });
            let thread = at_start.recv().unwrap();
            if records.iter().any(|record| section::is_occupied(record)) {
                thread.until_blocked();
            } else {
                // Nothing is sent: the end of the rival, or its panic, drops the sender.
                let _ = at_end.recv();
            }
            started.send(rival).unwrap();
        };
        let event = Event::Meanwhile(Arc::new(meanwhile));
        let (target, calls) = faulty::with_event(&self.lake, call, event).unwrap();
        Meeting {
            target,
            calls,
            rivals,
        }
    }
}

/// Publishes the snapshot `tuesday` many times, always to a new target. During each of these
/// publications, a second publisher publishes the snapshot `rival`, just before a call of the first
/// publisher to the target. This call is a later one each time.
fn meet_at_calls(rival: &'static str) {
    let options = PublishRequest::default();
    at_each_place(|call| {
        let mut shop = Shop::new();
        shop.end_day(0, "monday");
        shop.publish("monday", &options);
        shop.end_day(1, "tuesday");
        shop.end_day(2, "wednesday");

        let meeting = shop.meeting(call, &[rival], move |publisher, lake| {
            publisher.publish(lake, rival, &PublishRequest::default())
        });
        let published = (shop.publisher).publish(&meeting.target, "tuesday", &options);
        let rival_result = meeting.rival_result();
        let has_met = rival_result.is_some();
        let of_rival = rival_result.map(|published| (rival, published));

        shop.check();
        for (snapshot, published) in iter::once(("tuesday", published)).chain(of_rival) {
            let Err(error) = published else {
                assert!(shop.recorded(snapshot).is_some(), "at call {call}");
                continue;
            };
            assert!(has_met && error.contains("publish again"), "{error}");
            // The rival of another snapshot commits before the first publisher goes on.
            assert_eq!(snapshot, "tuesday", "at call {call}: {error}");
            // Tables that the other publisher has committed of the same snapshot are accepted.
            let is_overtaken = error.contains("another publisher");
            assert!(
                !is_overtaken || rival != "tuesday",
                "at call {call}: {error}"
            );
            shop.publish("tuesday", &options);
        }
        if has_met && rival != "tuesday" {
            shop.check_whole(&["monday", "tuesday", rival]);
        } else {
            shop.check_whole(&["monday", "tuesday"]);
        }
        has_met
    });
}

#[test]
fn two_publishers_of_one_snapshot_publish_it_once_wherever_they_meet() {
    meet_at_calls("tuesday");
}

/// The number of a call by which a publisher has read its tables, and after which it commits them.
const CALLS_TO_MEET: usize = 30;

/// Regression: a publisher that another one of the same snapshot had overtaken removed the completion record, and
/// wrote it again at its end.
#[test]
fn a_publisher_that_is_overtaken_leaves_the_record_wherever_it_is_killed() {
    at_each_place(|call| {
        let mut shop = Shop::new();
        shop.end_day(0, "monday");
        let meeting = shop.meeting(CALLS_TO_MEET, &["monday"], |publisher, lake| {
            // Otherwise `CALLS_TO_MEET` does not fit the number of calls that a publication makes.
            let has_planned = !lake.list("_ebb/app/monday").unwrap().is_empty();
            assert!(has_planned && newest_metadata(lake, "t").is_none());
            publisher.publish(lake, "monday", &PublishRequest::default())
        });
        let at = CALLS_TO_MEET + 1 + call;
        let (target, calls) = faulty::with_event(&meeting.target, at, Event::Kill).unwrap();
        let _ = (shop.publisher).publish(&target, "monday", &PublishRequest::default());
        meeting.rival_result().expect("they meet").unwrap();
        assert!(shop.recorded("monday").is_some(), "killed at call {at}");
        calls.met_event()
    });
}

#[test]
fn two_publishers_of_two_snapshots_leave_both_whole_wherever_they_meet() {
    meet_at_calls("wednesday");
}

/// Regression: the record lost the tables of a publication that ended while another one, of other
/// tables of the same snapshot, was committed.
#[test]
fn publishers_of_two_tables_of_one_snapshot_record_both_wherever_they_meet() {
    let options = PublishRequest::default();
    at_each_place(|call| {
        let mut shop = Shop::new();
        shop.end_day(0, "monday");
        let publish_u = |publisher: &Publisher, lake: &Target| {
            publisher.publish_tables(&["u"], lake, "monday", &PublishRequest::default())
        };
        let meeting = shop.meeting(call, &["monday"], publish_u);
        let first = &shop.publisher;
        let published = first.publish_tables(&["t"], &meeting.target, "monday", &options);
        published.unwrap();
        let rival_result = meeting.rival_result();
        let has_met = rival_result.is_some();
        let of_u = rival_result.unwrap_or_else(|| publish_u(first, &shop.lake));
        of_u.unwrap();
        let record = shop.read("_ebb/app/monday.json");
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        let tables = record["tables"].as_array().unwrap().iter();
        let names = tables.map(|table| table["table"].as_str().unwrap());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        let expected = ["app/t", "app/t_static", "app/u"];
        assert_eq!(names, expected, "at call {call}");
        shop.check_whole(&["monday"]);
        has_met
    });
}

/// Both publishers remove the publication of monday, and each may remove that of the other one.
#[test]
fn two_publishers_that_remove_old_publications_leave_no_wrong_record_wherever_they_meet() {
    let options = keeping("1");
    at_each_place(|call| {
        let mut shop = Shop::new();
        shop.end_day(0, "monday");
        shop.publish("monday", &PublishRequest::default());
        shop.end_day(1, "tuesday");
        shop.end_day(2, "wednesday");

        let meeting = shop.meeting(call, &DAYS, |publisher, lake| {
            publisher.publish(lake, "wednesday", &keeping("1"))
        });
        let published = (shop.publisher).publish(&meeting.target, "tuesday", &options);
        let rival_result = meeting.rival_result();
        let has_met = rival_result.is_some();
        let of_rival = rival_result.map(|published| ("wednesday", published));

        shop.check();
        for (snapshot, published) in iter::once(("tuesday", published)).chain(of_rival) {
            if let Err(error) = published {
                assert!(has_met, "{snapshot}: {error}");
                shop.publish(snapshot, &options);
            }
        }
        shop.publish("wednesday", &options);
        // The older one that was committed last did not remove the newest one, and is not removed by it.
        let is_left = shop.tags()[0].contains_key("tuesday");
        if has_met && is_left {
            shop.check_whole(&["tuesday", "wednesday"]);
        } else {
            shop.check_whole(&["wednesday"]);
        }
        has_met
    });
}

/// The number of calls from the meeting of two publishers to the kill of one of them. The publisher makes
/// about ten calls from the removal of the old records to the commit of the first table, and 26 more to that of the
/// last table, which removes the first old tag. The moves of `main`, which remove the others, take 16 more calls.
const CALLS_TO_KILL: usize = 40;

/// Regression: the rival wrote the record of monday anew after the publisher had removed it and before the
/// publisher removed the tag. If the publisher was killed then, the record stayed for good.
#[test]
fn no_record_of_a_removed_publication_stays_if_it_is_published_again_before_a_kill() {
    let options = keeping("1");
    let mut kills_between_removals = 0;
    at_each_place(|call| {
        let mut shop = Shop::new();
        shop.end_day(0, "monday");
        shop.publish("monday", &PublishRequest::default());
        shop.end_day(1, "tuesday");

        let (sender, are_met_before_commits) = mpsc::channel();
        let meeting = shop.meeting(call, &["monday"], move |publisher, lake| {
            let is_removed = lake.read("_ebb/app/monday.json").unwrap().is_none();
            let first = PublishedTable::open(lake, "app/t").unwrap();
            let is_before_commits = is_removed && !first.has_tag("tuesday");
            sender.send(is_before_commits).unwrap();
            publisher.publish(lake, "monday", &PublishRequest::default())
        });
        let kill = call + CALLS_TO_KILL;
        let (target, _) = faulty::with_event(&meeting.target, kill, Event::Kill).unwrap();
        let published = shop.publisher.publish(&target, "tuesday", &options);
        // The rival fails if the tags of monday are removed first.
        let has_met = meeting.rival_result().is_some();
        let left = shop.check();
        let has_monday = |tags: &Tags| tags.contains_key("monday");
        let is_in_part = left.iter().any(has_monday) && !left.iter().all(has_monday);
        if has_met && are_met_before_commits.recv().unwrap() && is_in_part {
            kills_between_removals += 1;
        }
        shop.publish("tuesday", &options);
        shop.check();
        if !has_met {
            published.unwrap();
        }
        has_met
    });
    // Otherwise `CALLS_TO_KILL` does not fit the number of calls that a publication makes.
    assert!(kills_between_removals > 0);
}

/// Regression: a publisher that had removed a record with more tables than its own added all of them to the
/// new record, even if another publisher had removed the tag of one of them meanwhile.
#[test]
fn a_record_that_comes_back_has_no_table_that_has_lost_the_tag_meanwhile() {
    let options = PublishRequest::default();
    at_each_place(|call| {
        let mut shop = Shop::new();
        shop.end_day(0, "monday");
        shop.end_day(1, "tuesday");
        let meeting = shop.meeting(call, &["monday"], |publisher, lake| {
            publisher.publish_tables(&["t"], lake, "tuesday", &keeping("1"))
        });
        let late = (shop.publisher).open(&["u"], &meeting.target, "monday", &options);
        let late = late.unwrap();
        shop.publish("monday", &options);
        run(&late).unwrap();
        let rival_result = meeting.rival_result();
        let has_met = rival_result.is_some();
        rival_result.transpose().unwrap();
        // Absent if the rival has removed it after the end of the first publisher's commits.
        if let Some(record) = shop.lake.read("_ebb/app/monday.json").unwrap() {
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
            for table in record["tables"].as_array().unwrap() {
                let name = table["table"].as_str().unwrap();
                let table = PublishedTable::open(&shop.lake, name).unwrap();
                assert!(table.has_tag("monday"), "{name} at call {call}");
            }
        }
        has_met
    });
}
