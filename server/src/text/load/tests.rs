use super::*;
use crate::text::options::Duplicates;
use crate::text::walk;
use ebb_storage::{Db, Options, TableOptions};

/// A folder with files, and what loads of it left.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        Self { dir }
    }

    /// Twenty files of a hundred lines.
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

    /// Loads into a new database; what happened, and the keys and values of the table.
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
fn every_line_of_every_text_file_is_loaded_once_whatever_the_threads() {
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
fn a_limit_cuts_at_the_same_line_whatever_the_threads() {
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
fn a_file_that_is_bad_further_on_ends_the_load_or_is_left_out_whole() {
    let fixture = Fixture::with_lines();
    // Text in what the walk looks at, not further on.
    let late = [&b"x\n".repeat(10_000)[..], b"\xff"].concat();
    fixture.write("late", late);
    let said = fixture.refused(&LoadOptions::default());
    assert!(
        said.contains("in/late: line 10001: byte 1 is not UTF-8"),
        "{said}"
    );
    assert!(said.ends_with("nothing was loaded"), "{said}");
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
fn rows_with_the_same_key_are_refused_with_their_places_or_the_last_counts() {
    let fixture = Fixture::new();
    fixture.write("a.csv", "id,v\n1,a\n2,b\n");
    fixture.write("b.csv", "id,v\n3,c\n1,d\n");
    let said = fixture.refused(&by("id"));
    let expected = [
        "key \"1\" is there twice: in line 2 of ",
        "in/a.csv and in line 3 of ",
        "in/b.csv",
        "--duplicates last",
    ];
    for part in expected {
        assert!(said.contains(part), "{said}");
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
    let said = fixture.refused(&by("id"));
    assert!(
        said.contains("columns are id, w") && said.contains("are id, v"),
        "{said}"
    );
    fixture.write("b.csv", "id,v\n2,b\n");
    fixture.write("c.txt", "id,v\n3,c\n");
    let said = fixture.refused(&by("id"));
    assert!(
        said.contains("c.txt") && said.contains("--format"),
        "{said}"
    );
    let options = LoadOptions {
        format: Some(crate::text::TextFormat::Csv),
        ..by("id")
    };
    assert_eq!(fixture.load(&options).0.rows, 3);
}

#[test]
fn a_name_that_is_also_a_key_of_another_file_is_loaded_all_the_same() {
    let fixture = Fixture::new();
    fixture.write("a", "1\n2\n");
    fixture.write("a:000000000001", "3\n4\n");
    let (report, rows) = fixture.load(&LoadOptions::default());
    assert_eq!((report.rows, rows.len()), (4, 4));
}

/// Cancels at the first telling of a phase.
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
fn a_cancelled_load_loads_nothing_whatever_it_was_doing() {
    let fixture = Fixture::new();
    let rows: String = (0..40_000).map(|n| format!("{n},abcdefghij\n")).collect();
    fixture.write("a.csv", format!("id,v\n{rows}"));
    for phase in [LoadPhase::Read, LoadPhase::Write] {
        let (report, rows) = fixture.load_with(&by("id"), &CancelIn(phase, false.into()));
        assert!(matches!(report, Err(LoadError::Cancelled)), "{report:?}");
        assert_eq!(rows, []);
    }
}
