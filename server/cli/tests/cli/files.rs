//! Files as other programs write them: loads and jobs read them alike, or refuse them alike.

use ebb_test_support::cases::parse_cases;

use crate::loading::gzip;
use crate::place::Place;

impl Place {
    /// Loads a file into a new table, and returns the values of the table, in the order of the lines. If the
    /// load fails, checks that it loaded nothing, and returns its error.
    #[track_caller]
    fn loaded(&self, format: &str, name: &str, options: &str) -> Result<String, String> {
        let had_data = self.path("ebb-data").exists();
        let table = format!("files.{}", name.replace('.', "_"));
        let done = self.ebb(&format!(
            "load --table {table} --format {format} {options} {name}"
        ));
        if done.code != 0 {
            let said = done.fails(2);
            assert!(said.contains("nothing was loaded"), "{said}");
            assert_eq!(self.path("ebb-data").exists(), had_data);
            return Err(said);
        }
        let rows = self.ebb(&format!("scan {table}")).ok();
        let value = |row: &str| row.split_once('\t').unwrap().1.to_string() + "\n";
        Ok(rows.lines().map(value).collect())
    }

    /// Runs a job that selects rows of a file, and returns the rows, or the error of the job.
    #[track_caller]
    fn selected(&self, option: &str, name: &str, options: &str) -> Result<String, String> {
        let run = format!("run select {option} {name} {options} --output ./selected.txt");
        let done = self.ebb(&run);
        if done.code != 0 {
            let said = done.fails(2);
            assert!(!self.path("selected.txt").exists());
            return Err(said);
        }
        let rows = self.read("selected.txt");
        std::fs::remove_file(self.path("selected.txt")).unwrap();
        // Lines of text have their place before them.
        let value = |row: &str| {
            row.split_once('\t')
                .map_or(row, |(_, value)| value)
                .to_string()
        };
        Ok(rows.lines().map(|row| value(row) + "\n").collect())
    }
}

/// A description of a file; the content of the file; and the rows that both `ebb load` and `ebb run` read
/// from it. For a file that both reject: the line that the error names (0 for none), and a part of the
/// error.
type Case<'a> = (&'a str, Vec<u8>, Result<String, (u64, &'a str)>);

/// Returns the bytes of a JSON string without its quotes: each character is a byte.
fn bytes_of(text: &str) -> Vec<u8> {
    let text: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
    let bytes = text.chars().map(u8::try_from);
    bytes.collect::<Result<_, _>>().unwrap()
}

/// Checks `others` and the cases of a table. Its contents and rows are in the form of [`bytes_of`].
#[track_caller]
fn agree<'a>(format: &str, option: &str, end: &str, cases: &'a str, others: Vec<Case<'a>>) {
    let place = Place::new();
    let cases = parse_cases(cases).into_iter();
    let cases = cases.map(|[content, bytes, line, expected]| {
        let expected = match line {
            "rows" => Ok(String::from_utf8(bytes_of(expected)).unwrap()),
            line => Err((line.parse::<u64>().unwrap(), expected)),
        };
        (content, bytes_of(bytes), expected)
    });
    for (nth, (content, bytes, expected)) in cases.chain(others).enumerate() {
        let name = format!("{nth}.{end}");
        place.write(&name, bytes);
        let found = [
            place.loaded(format, &name, ""),
            place.selected(option, &name, ""),
        ];
        for found in found {
            match (found, &expected) {
                (Ok(rows), Ok(expected)) => assert_eq!(rows, *expected, "{content}"),
                (Err(said), Err((line, why))) => {
                    let is_named = said.contains(&name) && said.contains(why);
                    let is_placed = *line == 0 || said.contains(&format!(" line {line}: "));
                    assert!(is_named && is_placed, "{content}: {said}");
                }
                (found, _) => panic!("{content}: {found:?}"),
            }
        }
    }
}

#[test]
fn loads_and_jobs_agree_on_csv() {
    // 120 KB, so a job that counts the lines before an error reads the file in more than one piece: see
    // `count_line_ends`.
    let long = [b"id,v\n".as_slice(), &b"1,x\n".repeat(30_000), b"2,\"y\n"].concat();
    let packed = gzip(b"\xef\xbb\xbfid,v\n1,a\n");
    let cut = packed[..packed.len() - 4].to_vec();
    let members = [gzip(b"id,v\n1,"), gzip(b"a\n")].concat();
    let cases = r#"
        CR line ends => id,v\r1,a\r2,b\r => rows => 1,a\n2,b\n
        mixed line ends => id,v\r\n1,a\r2,b\n3,c => rows => 1,a\n2,b\n3,c\n
        blank lines => \n\r\nid,v\n\n1,a\n\r\r2,b\n\n => rows => 1,a\n2,b\n
        a byte order mark => \u00ef\u00bb\u00bfid,v\n1,a\n => rows => 1,a\n
        empty fields => id,v\n1,\n2,\"x,y\"\n => rows => 1,\n2,\"x,y\"\n
        a column without a name => id,\n1,a\n => rows => 1,a\n
        an open quote => id,v\n1,\"a\n2,b\n => 2 => a quote is still open
        a quote in a field => id,v\n1,5\" disk\n => 2 => inside field 2
        text after a quote => id,v\n1,\"a\"b\n => 2 => closing quote of field 2
        a blank after a quote => id,v\n1,\"a\" \n => 2 => closing quote of field 2
        too few fields => id,v\n1,a\n2\n => 3 => it has 1 field
        too many fields => id,v\n1,a,b\n => 2 => it has 3 fields
        two columns of a name => id,id\n1,a\n => 1 => two columns are called
        two columns without a name => id,,\n1,a,b\n => 1 => two columns have no name
        Latin 1 => id,v\n1,caf\u00e9\n => 2 => byte 6 is not UTF-8
        NUL => id,v\n1,\u0000\n => 2 => NUL
        UTF-16 => \u00ff\u00fei\u0000d\u0000\n\u0000 => 0 => is UTF-16: convert it
        UTF-16, big end first => \u00fe\u00ff\u0000i\u0000d\u0000\n => 0 => is UTF-16: convert it
        UTF-32 => \u00ff\u00fe\u0000\u0000i\u0000\u0000\u0000 => 0 => is UTF-32: convert it
        a zip file => PK\u0003\u0004 and so on => 0 => is a file in the format zip
    "#;
    let others = vec![
        ("an empty file", Vec::new(), Ok(String::new())),
        ("a header alone", b"id,v".to_vec(), Ok(String::new())),
        (
            "an open quote far on",
            long,
            Err((30_002, "a quote is still open")),
        ),
        ("a byte order mark, packed", packed, Ok("1,a\n".into())),
        ("two packed members", members, Ok("1,a\n".into())),
        ("gzip that is cut off", cut, Err((0, "cut off"))),
    ];
    agree("csv", "--csv", "csv", cases, others);
}

#[test]
fn loads_and_jobs_agree_on_json_lines() {
    // With the object of the line itself, the lists nest one level deeper than the reader permits.
    let deep = format!("{{\"a\":{}{}}}\n", "[".repeat(127), "]".repeat(127));
    let cases = r#"
        CR line ends => {\"a\":1}\r{\"a\":2}\r => rows => {\"a\":1}\n{\"a\":2}\n
        CRLF line ends => {\"a\":1}\r\n{\"a\":2}\r\n => rows => {\"a\":1}\n{\"a\":2}\n
        blank lines => \n  \n{\"a\":1}\n\n => rows => {\"a\":1}\n
        a byte order mark => \u00ef\u00bb\u00bf{\"a\":1}\n => rows => {\"a\":1}\n
        double members => {\"a\":1,\"a\":2}\n => rows => {\"a\":1,\"a\":2}\n
        a list => {}\n[1]\n => 2 => it is no JSON object
        an object over two lines => {\n\"a\":1}\n => 1 => it is no JSON object
        a comma too many => {\"a\":1,}\n => 1 => it is no JSON object
        half of a character => {\"a\":\"\\ud800\"}\n => 1 => half of a character
        Latin 1 => {\"a\":\"\u00e9\"}\n => 1 => byte 7 is not UTF-8
        UTF-16 => \u00ff\u00fe{\u0000}\u0000\n\u0000 => 0 => is UTF-16: convert it
    "#;
    let others = vec![
        ("an empty file", Vec::new(), Ok(String::new())),
        ("deep nesting", deep.into(), Err((1, "levels deep"))),
    ];
    agree("json-lines", "--json-lines", "jsonl", cases, others);
}

#[test]
fn loads_and_jobs_agree_on_text() {
    let cases = r#"
        mixed line ends => a\rb\r\nc\nd => rows => a\nb\nc\nd\n
        blank lines => a\n\n\r\nb\n => rows => a\n\n\nb\n
        a byte order mark => \u00ef\u00bb\u00bfword word\n => rows => word word\n
        Latin 1 => tea\ncaf\u00e9\n => 2 => byte 4 is not UTF-8
        NUL => a\u0000\n => 1 => NUL
        UTF-16 => \u00ff\u00fea\u0000\n\u0000 => 0 => is UTF-16: convert it
    "#;
    agree("text", "--text", "txt", cases, vec![]);
}

#[test]
fn an_open_quote_loads_nothing() {
    // `ebb load` once printed "loaded 1 row": two rows had become part of a value.
    let place = Place::new();
    place.write("open.csv", "city,pop\nA,\"1\nB,2\nC,3\n");
    let said = place.ebb("load --table x.q --key city open.csv").fails(2);
    assert!(
        said.contains("open.csv: line 2: a quote is still open"),
        "{said}"
    );
    assert!(said.contains("nothing was loaded"), "{said}");
    assert!(!place.path("ebb-data").exists());
    let run = place.ebb("run select --csv open.csv --output -").fails(2);
    assert!(
        run.contains("open.csv, line 2: a quote is still open"),
        "{run}"
    );
    // With --lenient-quotes the quote is text.
    let lenient = "--lenient-quotes open.csv";
    place
        .ebb(&format!("load --table x.q --key city {lenient}"))
        .ok();
    assert_eq!(place.ebb("get x.q A").ok(), "A,\"1\nB,2\nC,3\n\"\n");
    let run = "run select --output - --csv open.csv --lenient-quotes";
    assert_eq!(place.ebb(run).ok(), "city,pop\nA,\"1\nB,2\nC,3\n\"\n");
}

#[test]
fn files_with_cr_line_ends_have_their_rows() {
    // `ebb run` once read no rows, with exit code 0, while `ebb load` read both.
    let place = Place::new();
    place.write("cr.csv", "a,b\r1,2\r3,4\r");
    assert_eq!(
        place.ebb("run select --csv cr.csv --output -").ok(),
        "a,b\n1,2\n3,4\n"
    );
    let said = place.ebb("load --table x.q --key a cr.csv").ok();
    assert!(said.starts_with("loaded 2 rows"), "{said}");
    // The file is also read in parts, and with fields over several lines.
    let rows: String = (0..40_000).map(|n| format!("{n},\"x\r{n}\"\r")).collect();
    place.write("large.csv", format!("id,v\r{rows}"));
    for splits in [1, 7] {
        let run = format!("run aggregate --csv large.csv --of id --splits {splits} --output -");
        assert_eq!(
            place.ebb(&run).rows(),
            "all\t40000,40000,799980000,0,39999,19999.5\n"
        );
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_word() {
    // The first word once counted as a different one, because the mark was part of it.
    let place = Place::new();
    place.write("bom.txt", b"\xef\xbb\xbfword word\n");
    let counts = place.ebb("run wordcount --text bom.txt --output -").ok();
    assert_eq!(counts, "word\tcount\nword\t2\n");
    place.write("bom.jsonl", b"\xef\xbb\xbf{\"a\":1}\n");
    let sum = "run aggregate --json-lines bom.jsonl --of a --output -";
    assert_eq!(place.ebb(sum).rows(), "all\t1,1,1,1,1,1\n");
}

#[test]
fn an_input_that_is_not_there_is_no_such_file_before_anything_is_opened() {
    // The error of a join with a missing file was once about a database.
    let place = Place::new();
    place.write("left.csv", "id,v\n1,a\n");
    let join = "run join --csv left.csv --on id --output out.csv --with";
    for missing in ["nope.csv", "nope.jsonl", "nope.txt", "nope", "no/nope.csv"] {
        let said = place.ebb(&format!("{join} {missing}")).fails(1);
        assert_eq!(said, format!("ebb: no such file: {missing}\n"));
    }
    let said = place.ebb(&format!("{join} nope.json")).fails(3);
    assert!(
        said.contains("no such file: nope.json; nor is there a database"),
        "{said}"
    );
    for run in [
        "run select --csv nope.csv --output x.csv",
        "run wordcount --text left.csv nope.csv --output x.csv",
        "run join --json-lines nope.csv --with app.t --output x.csv",
        "run simulate --scenario nope.csv --output x.csv",
        "sim run nope.csv",
        "sim queueing nope.csv",
        "sim msjo nope.csv",
        "forecast nope.csv",
        "serve --config nope.csv",
        "config check nope.csv",
        "load --table app.t nope.csv",
    ] {
        let said = place.ebb(run).fails(1);
        assert_eq!(said, "ebb: no such file: nope.csv\n", "{run}");
    }
    assert!(!place.path("ebb-data").exists());
    // The same holds with a database.
    place.ebb("load --table app.t left.csv").ok();
    let said = place.ebb(&format!("{join} nope.csv")).fails(1);
    assert_eq!(said, "ebb: no such file: nope.csv\n");
    let said = place.ebb(&format!("{join} nope.json")).fails(3);
    assert!(said.contains("nor is there a keyspace nope"), "{said}");
}

#[test]
fn an_output_that_cannot_be_made_is_refused_before_a_database_is_opened() {
    let place = Place::new();
    place.write("there.tsv", "");
    for (output, why) in [
        ("no/such/x.tsv", "no such folder: no/such; make it first"),
        ("there.tsv/x.tsv", "there.tsv is not a directory"),
        ("./there.tsv", "there.tsv exists already"),
        ("no/such/", "no such folder: no; make it first"),
    ] {
        // The database is not there either.
        let said = place
            .ebb(&format!("run wordcount --table app.t --output {output}"))
            .fails(1);
        assert!(said.contains(why), "{output}: {said}");
    }
}

#[test]
fn a_file_for_json_is_refused_before_the_work_that_fills_it() {
    let place = Place::new();
    for (file, why) in [
        ("no/such/x.json", "no such folder: no/such"),
        (".", "it is a folder"),
    ] {
        let said = place.ebb(&format!("sim run --json-file {file} nope.toml"));
        let said = said.refused();
        assert!(said.contains("--json-file") && said.contains(why), "{said}");
    }
}

#[test]
fn tabs_and_other_delimiters_are_read_by_loads_and_jobs() {
    let place = Place::new();
    place.write("a.tsv", "id\tv\n1\ta,b\n");
    place.write("a.txt", "id;v\n1;a,b\n");
    for (file, options) in [("a.tsv", ""), ("a.txt", "--delimiter ;")] {
        let found = place.loaded("csv", file, options).unwrap();
        assert_eq!(found, "1,\"a,b\"\n");
        assert_eq!(place.selected("--csv", file, options).unwrap(), found);
    }
    let run = "run select --text a.txt --output -";
    for option in ["--delimiter ;", "--lenient-quotes"] {
        let said = place.ebb(&format!("{run} {option}")).refused();
        assert!(said.contains("is for --csv files: leave it out"), "{said}");
    }
    place
        .ebb("run select --csv a.txt --delimiter ab --output -")
        .refused();
}

#[test]
fn parts_of_a_file_with_quoted_line_ends_have_the_rows_of_the_whole() {
    // They once were an error, unless one task read the whole file.
    let place = Place::new();
    let rows: String = (0..60_000)
        .map(|n| format!("{n},\"two\nlines, \"\"{n}\"\"\"\n"))
        .collect();
    place.write("a.csv", format!("id,v\n{rows}"));
    for splits in [1, 2, 5, 16] {
        let run = format!("run select --csv a.csv --splits {splits} --output ./{splits}.csv");
        place.ebb(&run).ok();
        assert!(place.read(&format!("{splits}.csv")) == format!("id,v\n{rows}"));
    }
    place.write("bad.csv", format!("id,v\n{rows}7,\"open\n8,b\n"));
    for splits in [1, 5] {
        let run = format!("run select --csv bad.csv --splits {splits} --output ./bad-out.csv");
        let said = place.ebb(&run).fails(2);
        assert!(
            said.contains("bad.csv, line 120002: a quote is still open"),
            "{said}"
        );
    }
}

#[test]
fn stored_values_with_stray_quotes_are_read_on_request() {
    // At first no option could read such values.
    let place = Place::new();
    place.ebb("put --create app.t k 1,5\"").ok();
    let run = "run select --table app.t --values csv --output -";
    let said = place.ebb(run).fails(2);
    assert!(said.contains("--lenient-quotes"), "{said}");
    let lenient = format!("{run} --lenient-quotes");
    let text = place.ebb(&lenient).ok();
    assert_eq!(text, "key\tvalue\nk\t1,\"5\"\"\"\n");
    let isolated = place.ebb(&format!("{lenient} --isolate process")).ok();
    assert_eq!(isolated, text);
    let said = place.ebb("run select --table app.t --lenient-quotes --output -");
    let said = said.refused();
    assert!(said.contains("--values csv"), "{said}");
}

#[test]
fn a_job_leaves_out_bad_files_on_request_and_names_them() {
    let place = Place::new();
    place.write("docs/a.txt", "word\n");
    place.write("docs/logo.png", b"\x89PNG\r\n\x1a\n\0");
    let run = "run wordcount --text docs --output";
    let said = place.ebb(&format!("{run} counts.tsv")).fails(2);
    assert!(said.contains("docs/logo.png, line 3"), "{said}");
    assert!(said.contains("--skip-bad"), "{said}");
    let said = place.ebb(&format!("{run} counts.tsv --skip-bad")).ok();
    assert!(said.contains("skipped 1 file:"), "{said}");
    assert!(said.contains("docs/logo.png, line 3"), "{said}");
    assert_eq!(place.read("counts.tsv"), "word\t1\n");
    let json = place
        .ebb(&format!("{run} again.tsv --skip-bad --json"))
        .ok();
    assert!(
        json.contains("\"skipped\":[\"docs/logo.png, line 3"),
        "{json}"
    );
    let said = place.ebb("run wordcount --generate 1 --skip-bad --output -");
    assert!(said.refused().contains("--skip-bad is for files"));
}

#[test]
fn a_table_whose_name_ends_like_that_of_a_file_can_be_joined() {
    // The error was once "no such file".
    let place = Place::new();
    place.write("left.csv", "id,v\n1,a\n");
    place.ebb("put --create app.html 1 page").ok();
    let join = "run join --csv left.csv --on id --with-on key --output - --with";
    let joined = place.ebb(&format!("{join} app.html")).ok();
    assert!(joined.contains("page"), "{joined}");
    let said = place.ebb(&format!("{join} none.html")).fails(1);
    assert_eq!(said, "ebb: no such file: none.html\n");
    // A file of the name comes first.
    place.write("app.html", "1\n");
    assert_eq!(place.ebb(&format!("{join} app.html")).rows(), "");
}
