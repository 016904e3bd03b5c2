use super::*;
use crate::options::Duplicates;
use crate::walk;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    Db, ErrorKind, FileSystem, Maintenance, Options, SortedWriterOptions, TableOptions,
};

/// A folder with files to load.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        Self { dir }
    }

    /// Creates twenty files of a hundred lines.
    fn with_lines() -> Self {
        let fixture = Self::new();
        for n in 0..20 {
            let line = format!("file {n} line\n");
            fixture.write(&format!("{n:02}"), line.repeat(100));
        }
        fixture
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.dir.path().join("in").join(name), content).unwrap();
    }

    fn found(&self) -> Found {
        walk(&[self.dir.path().join("in")], None).unwrap()
    }

    /// Loads into a new database. Returns the result, and the keys and values of the table.
    fn load_with(
        &self,
        options: &LoadOptions,
        control: &dyn LoadControl,
    ) -> (Result<LoadReport, LoadError>, Vec<(String, String)>) {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        let table = db.keyspace("k").unwrap();
        let table = table.table("t", TableOptions::default()).unwrap();
        let commits = db.view().seq().0;
        let report = load(&table, &self.found(), options, &scratch, control);
        assert!(db.view().seq().0 <= commits + 1);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let rows = table.range::<&[u8], _>(..).map(|row| {
            let (key, value) = row.unwrap();
            (text(&key), text(&value))
        });
        (report, rows.collect())
    }

    fn load(&self, options: &LoadOptions) -> (LoadReport, Vec<(String, String)>) {
        let (report, rows) = self.load_with(options, &());
        (report.unwrap(), rows)
    }

    fn refused(&self, options: &LoadOptions) -> String {
        let (report, rows) = self.load_with(options, &());
        assert_eq!(rows, []);
        report.unwrap_err().to_string()
    }
}

fn by(key: &str) -> LoadOptions {
    LoadOptions {
        key: Some(key.to_string()),
        ..LoadOptions::default()
    }
}

#[test]
fn every_line_of_every_text_file_is_loaded_once_with_any_number_of_threads() {
    let fixture = Fixture::with_lines();
    for threads in [1, 3, 100] {
        let options = LoadOptions {
            threads,
            part_bytes_min: 1,
            ..LoadOptions::default()
        };
        let (report, rows) = fixture.load(&options);
        assert_eq!((report.files, report.rows, rows.len()), (20, 2000, 2000));
        assert!(
            rows[150].0.ends_with("in/01:000000000051"),
            "{:?}",
            rows[150]
        );
    }
}

#[test]
fn a_limit_cuts_at_the_same_line_with_any_number_of_threads() {
    let fixture = Fixture::with_lines();
    let load = |threads| {
        let options = LoadOptions {
            threads,
            part_bytes_min: 1,
            max_bytes: Some(2995),
            ..LoadOptions::default()
        };
        fixture.load(&options)
    };
    let (report, rows) = load(1);
    assert_eq!((report.files, report.bytes), (3, 3000));
    assert_eq!(load(3).1, rows);
}

#[test]
fn a_file_that_is_malformed_at_its_end_ends_the_load_or_is_skipped_whole() {
    let fixture = Fixture::with_lines();
    // Text at the start, which the walk reads, but not later.
    let late = [&b"x\n".repeat(10_000)[..], b"\xff"].concat();
    fixture.write("late", late);
    let message = fixture.refused(&LoadOptions::default());
    assert!(
        message.contains("in/late: line 10001: byte 1 is not UTF-8"),
        "{message}"
    );
    assert!(message.ends_with("nothing was loaded"), "{message}");
    let options = LoadOptions {
        skip_bad: true,
        ..LoadOptions::default()
    };
    let (report, rows) = fixture.load(&options);
    assert_eq!((report.files, report.rows, rows.len()), (20, 2000, 2000));
    assert_eq!(report.skipped.len(), 1);
    assert!(report.skipped[0].path.ends_with("late"));
}

#[test]
fn the_first_good_file_determines_the_columns_if_bad_ones_are_skipped() {
    // Once both files were skipped, because the columns of the bad one were required.
    let fixture = Fixture::new();
    fixture.write("a.csv", "1\n2,3\n");
    fixture.write("b.csv", "1,2\n");
    // The file is long, so that the thread of the next file is faster.
    fixture.write("c.csv", "3,4\n".repeat(50_000));
    fixture.write("d.csv", "5,6,7\n");
    for threads in [1, 4] {
        let options = LoadOptions {
            header: false,
            skip_bad: true,
            duplicates: Duplicates::Last,
            threads,
            part_bytes_min: 1,
            ..by("1")
        };
        let (report, rows) = fixture.load(&options);
        assert_eq!((report.files, rows.len()), (2, 2));
        let skipped = report.skipped.iter().map(|skipped| &skipped.path);
        let names = skipped.filter_map(|path| path.file_name()?.to_str());
        assert_eq!(names.collect::<Vec<_>>(), ["a.csv", "d.csv"]);
    }
}

#[test]
fn rows_by_a_column_are_sorted_within_little_memory() {
    let fixture = Fixture::new();
    for part in 0..4 {
        let rows = (0..250).map(|n| format!("{},v{n}\n", (n * 4 + part) * 7919 % 1000));
        let rows: String = rows.collect();
        fixture.write(&format!("{part}.csv"), format!("id,v\n{rows}"));
    }
    let all = fixture.load(&by("id"));
    assert_eq!(all.1.len(), 1000);
    assert!(all.1.is_sorted());
    assert_eq!(
        all.0.columns.as_deref(),
        Some(&["id".to_string(), "v".into()][..])
    );
    for (sort_bytes, threads) in [(0, 1), (4 << 10, 3)] {
        let options = LoadOptions {
            sort_bytes,
            threads,
            part_bytes_min: 1,
            ..by("id")
        };
        assert_eq!(fixture.load(&options).1, all.1);
    }
}

#[test]
fn rows_with_the_same_key_are_refused_with_their_places_or_the_last_wins() {
    let fixture = Fixture::new();
    fixture.write("a.csv", "id,v\n1,a\n2,b\n");
    fixture.write("b.csv", "id,v\n3,c\n1,d\n");
    let message = fixture.refused(&by("id"));
    let expected = [
        "key \"1\" is there twice: in line 2 of ",
        "in/a.csv and in line 3 of ",
        "in/b.csv",
        "--duplicates last",
    ];
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
    let options = LoadOptions {
        duplicates: Duplicates::Last,
        ..by("id")
    };
    let (report, rows) = fixture.load(&options);
    assert_eq!((report.rows, report.replaced), (3, 1));
    assert_eq!(rows[0], ("1".to_string(), "1,d".to_string()));
}

#[test]
fn files_of_other_columns_or_of_no_known_format_are_refused() {
    let fixture = Fixture::new();
    fixture.write("a.csv", "id,v\n1,a\n");
    fixture.write("b.csv", "id,w\n2,b\n");
    let message = fixture.refused(&by("id"));
    assert!(
        message.contains("b.csv: line 1: its columns are id, w") && message.contains("are id, v"),
        "{message}"
    );
    fixture.write("b.csv", "id,v\n2,b\n");
    fixture.write("c.txt", "id,v\n3,c\n");
    let message = fixture.refused(&by("id"));
    assert!(
        message.contains("c.txt") && message.contains("--format"),
        "{message}"
    );
    let options = LoadOptions {
        format: Some(crate::TextFormat::Csv),
        ..by("id")
    };
    assert_eq!(fixture.load(&options).0.rows, 3);
}

#[test]
fn files_without_a_header_have_records_of_the_same_width() {
    // Jobs rejected such files, but loads did not.
    let fixture = Fixture::new();
    fixture.write("a.csv", "1,a\n");
    fixture.write("b.csv", "2,b,c\n");
    let options = LoadOptions {
        header: false,
        ..by("1")
    };
    let message = fixture.refused(&options);
    assert!(message.contains("records have 3 fields"), "{message}");
    assert!(message.contains("records have 2 fields"), "{message}");
    fixture.write("b.csv", "2,b\n");
    assert_eq!(fixture.load(&options).0.rows, 2);
}

#[test]
fn a_file_with_any_malformation_loads_nothing() {
    let fixture = Fixture::new();
    fixture.write("a.csv", "id,v\n1,a\n2,b\n");
    let late = |end: &str| format!("id,v\n{}{end}", "x,y\n".repeat(50_000));
    for (content, expected) in [
        (
            late("3,\"c\n4,d\n").into_bytes(),
            "line 50002: a quote is still open",
        ),
        (
            late("3,c\"\n").into_bytes(),
            "line 50002: a quote stands inside",
        ),
        (late("3,\"c\"d\n").into_bytes(), "line 50002: text follows"),
        (late("3\n").into_bytes(), "line 50002: it has 1 field"),
        (
            [late("3,").as_bytes(), b"\xe9\n"].concat(),
            "line 50002: byte 3 is not UTF-8",
        ),
        (b"\xff\xfei\0d\0\n\0".to_vec(), "it is UTF-16: convert it"),
    ] {
        fixture.write("b.csv", content);
        let options = LoadOptions {
            duplicates: Duplicates::Last,
            ..by("id")
        };
        let named = [
            fixture.dir.path().join("in/a.csv"),
            fixture.dir.path().join("in/b.csv"),
        ];
        let found = walk(&named, None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let error = sort(&found, &options, dir.path(), &())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("in/b.csv") && error.contains(expected),
            "{error}"
        );
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn a_name_that_is_also_a_key_of_another_file_is_loaded_all_the_same() {
    let fixture = Fixture::new();
    fixture.write("a", "1\n2\n");
    fixture.write("a:000000000001", "3\n4\n");
    let (report, rows) = fixture.load(&LoadOptions::default());
    assert_eq!((report.rows, rows.len()), (4, 4));
}

#[test]
fn a_load_onto_a_full_disk_loads_nothing_and_leaves_no_scratch_file() {
    let fixture = Fixture::new();
    let csv: String = (0..400)
        // Each id from 0 to 399 occurs once, out of order, because 7919 is prime.
        .map(|n| format!("{},{n:0>40}\n", n * 7919 % 400))
        .collect();
    fixture.write("a.csv", format!("id,v\n{csv}"));
    fixture.write("b.csv", format!("id,v\n{}", csv.replace('\n', "b\n")));
    // Runs of a few rows, by several threads; then lines, which need no sort.
    let sorted = LoadOptions {
        duplicates: Duplicates::Last,
        sort_bytes: 4 << 10,
        threads: 2,
        part_bytes_min: 1,
        ..by("id")
    };
    let in_order = LoadOptions {
        key: None,
        ..sorted.clone()
    };
    // Both files have the same 400 ids. Each has 401 lines with its header.
    for (options, rows) in [(sorted, 400), (in_order, 802)] {
        let used_bytes = {
            let disk = FullDisk::new();
            let before = disk.disk.used_bytes();
            disk.load(&fixture, &options).unwrap();
            assert_eq!(disk.rows(), rows);
            disk.disk.used_bytes() - before
        };
        for percent in (0..100).step_by(4) {
            let disk = FullDisk::new();
            let room = used_bytes * percent / 100;
            (disk.disk).set_capacity_bytes(Some(disk.disk.used_bytes() + room));
            let loaded = disk.load(&fixture, &options);
            disk.check(loaded, rows, &format!("room for {room} bytes"));
        }
        // File systems that allocate late report a full disk at a sync. The first sync is of a file
        // in the scratch folder; a failed sync of the log is tested elsewhere.
        let calls = [
            (FaultOp::Create, u64::MAX),
            (FaultOp::Append, u64::MAX),
            (FaultOp::Sync, 1),
        ];
        for (op, struck_max) in calls {
            let mut struck = 0;
            while struck < struck_max {
                let disk = FullDisk::new();
                let at = format!("{op:?} {}", struck + 1);
                (disk.disk).fail_next(op, struck + 1, io::ErrorKind::StorageFull);
                let loaded = disk.load(&fixture, &options);
                if disk.disk.armed_faults() > 0 {
                    assert!(loaded.is_ok(), "{at}: {loaded:?}");
                    break;
                }
                disk.check(loaded, rows, &at);
                struck += 1;
            }
            assert!(struck > 0, "{op:?} is never called");
        }
    }
}

/// A database whose disk becomes full at some moment of a load.
struct FullDisk {
    disk: MemDisk,
    db: Db,
}

const SCRATCH: &str = "/db/spill/one";

impl FullDisk {
    fn new() -> Self {
        let disk = MemDisk::new();
        let db = Self::open(&disk);
        let keyspace = db.keyspace("k").unwrap();
        keyspace.table("t", TableOptions::default()).unwrap();
        disk.create_dir_all(Path::new(SCRATCH)).unwrap();
        Self { disk, db }
    }

    fn options(disk: &MemDisk) -> Options {
        Options {
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            low_water_bytes: 0,
            ..Options::default()
        }
    }

    fn open(disk: &MemDisk) -> Db {
        Db::open("/db", Self::options(disk)).unwrap()
    }

    fn table(db: &Db) -> Table {
        let keyspace = db.existing_keyspace("k").unwrap();
        keyspace.existing_table("t").unwrap()
    }

    fn load(&self, fixture: &Fixture, options: &LoadOptions) -> Result<LoadReport, LoadError> {
        let options = LoadOptions {
            sorted: SortedWriterOptions::from(&Self::options(&self.disk)),
            ..options.clone()
        };
        let (table, scratch) = (Self::table(&self.db), Path::new(SCRATCH));
        load(&table, &fixture.found(), &options, scratch, &())
    }

    fn rows(&self) -> usize {
        let rows = Self::table(&self.db);
        rows.range::<&[u8], _>(..).map(Result::unwrap).count()
    }

    /// Checks that the table has all rows or none, before and after the database is reopened.
    fn check(self, loaded: Result<LoadReport, LoadError>, rows: usize, at: &str) {
        let expected = match &loaded {
            Ok(_) => rows,
            Err(error) => {
                assert!(is_disk_full(error), "{at}: {error:?}");
                0
            }
        };
        assert_eq!(self.rows(), expected, "{at}");
        let left = self.disk.list(Path::new(SCRATCH)).unwrap();
        assert!(left.is_empty(), "{at}: {left:?}");
        let Self { disk, db } = self;
        drop(db);
        disk.clear_faults();
        disk.set_capacity_bytes(None);
        let db = Self::open(&disk);
        assert_eq!(Self { disk, db }.rows(), expected, "{at}, opened again");
    }
}

/// Recognizes a full disk like the command line does.
fn is_disk_full(error: &LoadError) -> bool {
    match error {
        LoadError::Store(error) => error.kind() == ErrorKind::DiskFull,
        LoadError::Scratch { source, .. } => source.kind() == io::ErrorKind::StorageFull,
        _ => false,
    }
}

/// A control that cancels the load at the first report of a phase. The flag is true from that report on.
struct CancelIn(LoadPhase, AtomicBool);

impl LoadControl for CancelIn {
    fn progress(&self, now: LoadProgress) {
        if now.phase == self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

#[test]
fn a_load_cancelled_in_any_phase_loads_nothing() {
    let fixture = Fixture::new();
    let rows: String = (0..40_000).map(|n| format!("{n},abcdefghij\n")).collect();
    fixture.write("a.csv", format!("id,v\n{rows}"));
    for phase in [LoadPhase::Read, LoadPhase::Write] {
        let (report, rows) = fixture.load_with(&by("id"), &CancelIn(phase, false.into()));
        assert!(matches!(report, Err(LoadError::Cancelled)), "{report:?}");
        assert_eq!(rows, []);
    }
}
