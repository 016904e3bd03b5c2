//! Rows as users see them: numbers without loss of digits, outputs that are inputs of other jobs, and
//! malformed inputs.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::place::{Done, Place};

/// Runs `ebb run select` with the words of `line` and `condition`. The condition has blanks, so it
/// cannot be a part of `line`.
fn select(place: &Place, line: &str, condition: &str) -> Done {
    let mut command = place.command(&format!("run select --output - {line}"));
    Done::of(command.args(["--where", condition]))
}

#[test]
fn sums_of_large_numbers_and_of_decimals_are_exact() {
    // A user summed up ids near 2^53 and amounts in cents: both were off, and 1e400 was inf.
    let place = Place::new();
    place.write(
        "n.csv",
        "id,amount\n9007199254740993,0.10\n9007199254740993,0.20\n18446744073709551615,1e400\n",
    );
    place.write(
        "n.jsonl",
        "{\"id\":9007199254740993,\"amount\":0.10}\n{\"id\":9007199254740993,\"amount\":0.20}\n\
         {\"id\":18446744073709551615,\"amount\":1e400}\n",
    );
    let id = "3,18464758472219033601,9007199254740993,18446744073709551615";
    let ten_400 = format!("1{}", "0".repeat(400));
    let expected = format!(
        "all\t3,{id},6154919490739677867,3,{ten_400}.3,0.1,1e400,3.3333333333333333333e399\n"
    );
    for input in ["--csv n.csv", "--json-lines n.jsonl"] {
        let run = format!("run aggregate {input} --of id,amount --output -");
        assert_eq!(place.ebb(&run).rows(), expected, "{input}");
        let json = place.ebb(&format!("{run} --format json-lines")).ok();
        assert!(json.contains("\"id_sum\":18464758472219033601,"), "{json}");
        assert!(json.contains("\"amount_max\":1e400,"), "{json}");
    }
    place.write("huge.csv", "n\n1\n1e999999999\n");
    let run = "run aggregate --csv huge.csv --of n --output -";
    let said = place.ebb(run).fails(2);
    let why = "huge.csv, line 3: column n is \"1e999999999\", which is a number with more than";
    assert!(said.contains(why), "{said}");
    // Quantiles are computed with floats: a number beyond their range is an error that names them.
    let run = "run aggregate --csv n.csv --of amount --quantiles 0.5 --output -";
    let said = place.ebb(run).fails(2);
    assert!(
        said.contains("n.csv, line 4: column amount is 1e400, and quantiles"),
        "{said}"
    );
}

#[test]
fn neighbours_above_two_to_the_53rd_are_distinct_and_sorted() {
    // A user looked for one id, got its neighbour too, and a sort left them as they came.
    let place = Place::new();
    let ids = [
        "9007199254740993",
        "9007199254740992",
        "-9007199254740993",
        "1e400",
        "1e-400",
    ];
    place.write("n.csv", format!("id\n{}\n", ids.join("\n")));
    let lines: Vec<String> = ids.iter().map(|id| format!("{{\"id\":{id}}}\n")).collect();
    place.write("n.jsonl", lines.concat());
    // JSON objects have no line of names before them.
    for (input, names, shown) in [
        ("--csv n.csv", "id\n", ["", ""]),
        ("--json-lines n.jsonl", "", ["{\"id\":", "}"]),
    ] {
        let found = select(&place, input, "id = 9007199254740993").ok();
        let [before, behind] = shown;
        assert_eq!(found, format!("{names}{before}9007199254740993{behind}\n"));
        let found = select(
            &place,
            &format!("{input} --columns id"),
            "id > 9007199254740992",
        )
        .ok();
        assert_eq!(found, "id\n9007199254740993\n1e400\n");
        let sort = format!("run sort {input} --by id --numeric --output -");
        let sorted = place.ebb(&sort).ok();
        let sorted: Vec<_> = (sorted.strip_prefix(names).unwrap().lines())
            .map(|line| {
                line.strip_prefix(shown[0])
                    .unwrap()
                    .strip_suffix(shown[1])
                    .unwrap()
            })
            .collect();
        assert_eq!(sorted, [ids[2], ids[4], ids[1], ids[0], ids[3]]);
    }
}

#[test]
fn fields_without_a_number_are_missing_to_a_sort_as_they_are_to_an_aggregate() {
    // A user aggregated a column with gaps, and the sort of the same column failed.
    let place = Place::new();
    place.write("gaps.csv", "city,fare\nBonn,7\nCork,\nRome, \nNice,-1\n");
    let sorted = place
        .ebb("run sort --csv gaps.csv --by fare --numeric --output sorted.csv")
        .ok();
    assert!(sorted.contains("4 rows"), "{sorted}");
    assert_eq!(
        place.read("sorted.csv"),
        "city,fare\nCork,\nRome, \nNice,-1\nBonn,7\n"
    );
    let all = place
        .ebb("run aggregate --csv gaps.csv --of fare --output -")
        .rows();
    assert_eq!(all, "all\t4,2,6,-1,7,3\n");
}

const TRIPS: &str = "id,city,fare\n1,Bonn,7\n2,\"Aarhus, DK\",10\n3,Bonn,\n4,Cork,9.5\n";

/// Jobs whose output has columns, and the names of these columns.
const RUNS: [(&str, &str); 11] = [
    ("sort --csv trips.csv --by fare --numeric", "id,city,fare"),
    ("select --csv trips.csv", "id,city,fare"),
    ("select --csv trips.csv --columns fare,city", "fare,city"),
    ("grep --csv trips.csv --pattern Bonn", "id,city,fare"),
    (
        "join --csv trips.csv --on city --with cities.csv --with-on name --left",
        "city,id,fare,right_id,land",
    ),
    (
        "aggregate --csv trips.csv --by city,id --of fare",
        "city,id,rows,fare_count,fare_sum,fare_min,fare_max,fare_avg",
    ),
    ("combine --csv trips.csv --by city,id", "city,id,rows,bytes"),
    ("wordcount --csv trips.csv", "word,count"),
    ("index --text trips.csv", "word,keys"),
    ("validate --csv trips.csv --by city", "measure,value"),
    (
        "pagerank --csv trips.csv --from id --to city --iterations 2",
        "node,rank",
    ),
];

#[test]
fn what_an_application_writes_ebb_reads_again_with_the_same_columns() {
    // A user sorted a CSV file and lost its header, and could not read what a join wrote.
    let place = Place::new();
    place.write("trips.csv", TRIPS);
    place.write(
        "cities.csv",
        "id,name,land\n7,Bonn,Germany\n8,\"Aarhus, DK\",Denmark\n",
    );
    for (nth, (run, columns)) in RUNS.iter().enumerate() {
        let (csv, json) = (format!("{nth}.csv"), format!("{nth}.jsonl"));
        place.ebb(&format!("run {run} --output {csv}")).ok();
        let written = place.read(&csv);
        assert_eq!(written.lines().next(), Some(*columns), "{run}");
        assert!(written.lines().count() > 1, "{run}");
        let again = format!("run select --csv {csv} --columns {columns} --output again-{csv}");
        place.ebb(&again).ok();
        assert_eq!(place.read(&format!("again-{csv}")), written, "{run}");

        place.ebb(&format!("run {run} --output {json}")).ok();
        let from_json = format!("from-json-{nth}.csv");
        let again = format!("run select --json-lines {json} --columns {columns}");
        place.ebb(&format!("{again} --output {from_json}")).ok();
        assert_eq!(place.read(&from_json), written, "{run}");
        let as_it_is = format!("run select --json-lines {json} --output again-{json}");
        place.ebb(&as_it_is).ok();
        assert_eq!(
            place.read(&format!("again-{json}")),
            place.read(&json),
            "{run}"
        );
    }
    let joined = place.read("4.csv");
    assert!(
        joined.contains("\"Aarhus, DK\",2,10,8,Denmark\n"),
        "{joined}"
    );
    assert!(joined.contains("Cork,4,9.5,,\n"), "{joined}");
    assert_eq!(
        place.read("5.csv").lines().nth(1),
        Some("\"Aarhus, DK\",2,1,1,10,10,10,10")
    );
}

#[test]
fn the_key_of_a_table_is_a_column() {
    // A user sorted a table into a file, and the keys were gone.
    let place = Place::with_corpus();
    let of_table = "--table app.lines --snapshot s";
    let file = "corpus/d0/03.txt:";
    let prefix = format!("--prefix {file}");
    place
        .ebb(&format!(
            "run sort {of_table} {prefix} --by key --reverse --output keys.csv"
        ))
        .ok();
    let sorted = place.read("keys.csv");
    let mut keys: Vec<String> = place
        .ebb("scan app.lines --snapshot s --keys-only")
        .ok()
        .lines()
        .filter(|key| key.starts_with(file))
        .map(str::to_string)
        .collect();
    keys.reverse();
    assert_eq!(sorted.lines().next(), Some("key,value"));
    let found: Vec<&str> = sorted
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap().0)
        .collect();
    assert!(keys.len() > 50);
    assert_eq!(found, keys);
    let one = select(&place, of_table, &format!("key = {}", keys[3])).rows();
    assert_eq!(one.lines().count(), 1);
    assert!(one.starts_with(&format!("{}\t", keys[3])), "{one}");
    let counted = format!("run aggregate {of_table} {prefix} --by key --output - --limit 2");
    let counted = place.ebb(&counted).rows();
    let last = keys.len() - 1;
    assert_eq!(
        counted,
        format!("{}\t1\n{}\t1\n", keys[last], keys[last - 1])
    );
}

#[test]
fn a_limit_leaves_the_first_rows_of_the_result() {
    // A user wanted the ten dearest trips, and had to write all of them first.
    let place = Place::new();
    let rows: Vec<String> = (0..30_000)
        .map(|n| format!("{n},{}\n", n * 7919 % 30_000))
        .collect();
    place.write("n.csv", format!("id,n\n{}", rows.concat()));
    let top = "run sort --csv n.csv --by n --numeric --reverse --splits 4 --reduces 3 --limit 3";
    let said = place.ebb(&format!("{top} --output top.csv")).ok();
    assert!(
        said.contains("top.csv: 3 rows, the first of 30,000"),
        "{said}"
    );
    let found = place.read("top.csv");
    let found: Vec<&str> = found
        .lines()
        .map(|line| line.split_once(',').unwrap().1)
        .collect();
    assert_eq!(found, ["n", "29999", "29998", "29997"]);
    place
        .ebb("run select --csv n.csv --splits 4 --limit 2 --output two.csv")
        .ok();
    assert_eq!(place.read("two.csv"), "id,n\n0,0\n1,7919\n");
    let none = place
        .ebb("run select --csv n.csv --limit 0 --output -")
        .ok();
    assert_eq!(none, "id,n\n");
    place.ebb(&format!("{top} --output top/ --format csv")).ok();
    assert_eq!(place.read("top/part-00000.csv"), place.read("top.csv"));
}

#[test]
fn select_keeps_what_members_of_json_are_in_json_lines() {
    // A user selected columns of JSON lines, and numbers came out as strings.
    let place = Place::new();
    place.write(
        "in.jsonl",
        "{\"id\":7,\"name\":\"17\",\"tags\":[1,true]}\n{\"id\":8.50,\"name\":null}\n",
    );
    let run = "run select --json-lines in.jsonl --columns id,name,tags";
    place.ebb(&format!("{run} --output out.jsonl")).ok();
    assert_eq!(
        place.read("out.jsonl"),
        "{\"id\":7,\"name\":\"17\",\"tags\":[1,true]}\n\
         {\"id\":8.50,\"name\":null,\"tags\":null}\n"
    );
    let one = "run select --json-lines in.jsonl --columns id --output id.jsonl";
    place.ebb(one).ok();
    assert_eq!(place.read("id.jsonl"), "{\"id\":7}\n{\"id\":8.50}\n");
    place.ebb(&format!("{run} --output out.csv")).ok();
    assert!(place.read("out.csv").contains("\n7,17,\"[1,true]\"\n"));
}

#[test]
fn a_column_that_no_record_has_is_an_error() {
    // A user misspelt a column of JSON lines, and got no rows and no message.
    let place = Place::new();
    place.write("in.jsonl", "{\"name\":null,\"n\":1}\n{\"n\":2}\n");
    let run = "run select --json-lines in.jsonl --output out.csv";
    for how in ["thread", "process"] {
        let run = format!("{run} --isolate {how}");
        for bad in ["--where nam=x", "--columns n,nam"] {
            let said = place.ebb(&format!("{run} {bad}")).fails(2);
            assert!(said.contains("no record has a column \"nam\""), "{said}");
            assert!(!place.path("out.csv").exists());
        }
        // A column whose value is null exists, though it meets no condition.
        place.ebb(&format!("{run} --where name=x")).ok();
        std::fs::remove_file(place.path("out.csv")).unwrap();
    }
}

#[test]
fn no_application_takes_a_misspelt_column_of_json_for_one_without_values() {
    // A sort by such a column left the rows as they were, and validate found them in order.
    let place = Place::new();
    place.write("in.jsonl", "{\"name\":null,\"n\":1}\n{\"n\":2}\n");
    place.write("empty.jsonl", "");
    let input = "--json-lines in.jsonl --output out.csv";
    for how in ["thread", "process"] {
        for (run, records) in [
            ("aggregate --by nam --of n", "record"),
            ("aggregate --by name --of nam", "record"),
            ("combine --by n,nam", "record"),
            ("sort --by nam", "record"),
            ("sort --by n,nam --reduces 2", "record"),
            ("validate --by nam --numeric", "record"),
            ("pagerank --from nam --to n", "record"),
            ("join --with in.jsonl --on nam", "record on the left side"),
            (
                "join --with in.jsonl --on n --with-on nam",
                "record on the right side",
            ),
        ] {
            let said = place.ebb(&format!("run {run} {input} --isolate {how}"));
            let said = said.fails(2);
            let expected = format!("no {records} has a column \"nam\"");
            assert!(said.contains(&expected), "{run}: {said}");
            assert!(!place.path("out.csv").exists(), "{run}");
        }
    }
    let empty = "run join --with empty.jsonl --on n --json-lines in.jsonl --left --output -";
    assert_eq!(place.ebb(empty).rows().lines().count(), 2);
}

#[test]
fn conditions_without_sense_are_refused() {
    // A user wrote 5O for 50 and => for >=, and got rows that were compared as text.
    let place = Place::new();
    place.write("trips.csv", TRIPS);
    for bad in [
        "fare => 5",
        "fare == 5",
        "fare <> 5",
        "fare >",
        "> 5",
        "fare > 1e999999999",
    ] {
        let said = select(&place, "--csv trips.csv", bad).refused();
        assert!(said.contains("--where"), "{bad}: {said}");
    }
    for (bad, line) in [
        ("fare >= 5O", 2),
        ("fare = dear", 2),
        ("city > 5", 2),
        ("id < abc", 2),
    ] {
        let said = select(&place, "--csv trips.csv", bad).fails(2);
        assert!(
            said.contains(&format!("trips.csv, line {line}: column")),
            "{bad}: {said}"
        );
        assert!(said.contains("in quotes"), "{bad}: {said}");
    }
    let found = |condition| {
        let found = select(&place, "--csv trips.csv --columns id", condition).rows();
        found.split_whitespace().collect::<Vec<_>>().join(",")
    };
    assert_eq!(found("fare >= 9.5"), "2,4");
    assert_eq!(found("fare != 7"), "2,4");
    assert_eq!(found("fare >= '8'"), "4");
    assert_eq!(found("city = Bonn"), "1,3");
    assert_eq!(found("fare = "), "3");
}

#[test]
fn ragged_rows_and_double_columns_are_errors_with_file_and_line() {
    // A user's export had a comma too many, and the sums were those of other columns.
    let place = Place::new();
    place.write("short.csv", "city,fare\nBonn,7\n\nCork\n");
    place.write("long.csv", "city,fare\nBonn,7\nRome,9,more\n");
    place.write("even.csv", "city,land\nBonn,Germany\n");
    for run in [
        "aggregate --by city --of fare",
        "combine --by city",
        "select",
        "select --columns city",
        "sort",
        "sort --by fare",
        "grep --pattern o",
        "validate",
        "join --on city --with even.csv",
    ] {
        for (name, line, fields) in [("short.csv", 4, "1 field"), ("long.csv", 3, "3 fields")] {
            let said = place
                .ebb(&format!("run {run} --csv {name} --output -"))
                .fails(2);
            let why = format!("{name}, line {line}: it has {fields}, and there are 2");
            assert!(said.contains(&why), "{run}: {said}");
        }
    }
    let isolated = "run select --csv short.csv --isolate process --output -";
    let said = place.ebb(isolated).fails(2);
    assert!(said.contains("attempt 1: short.csv, line 4: "), "{said}");
    place.write("double.csv", "city,fare,city\nBonn,7,Cork\n");
    let said = place
        .ebb("run aggregate --csv double.csv --by city --output -")
        .fails(2);
    let why = "double.csv, line 1: two columns are called \"city\"";
    assert!(said.contains(why), "{said}");
    for (names, why) in [("a,a", "\"a\""), ("a", "1 name for the 2 columns")] {
        let run = format!("run select --csv short.csv --no-header --names {names} --output -");
        let said = place.ebb(&run).fails(2);
        assert!(said.contains(why), "{said}");
    }
    let said = place
        .ebb("run select --csv long.csv --names a,b --output -")
        .fails(2);
    assert!(said.contains("--no-header"), "{said}");
}

#[test]
fn a_file_compressed_by_gzip_is_read_and_one_of_parquet_is_refused() {
    // A user counted the words of a .gz and of a .parquet, and they were no words.
    let place = Place::new();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(TRIPS.as_bytes()).unwrap();
    place.write("trips.csv.gz", gzip.finish().unwrap());
    place.write("trips.csv", TRIPS);
    for run in [
        "wordcount --text",
        "aggregate --by city --of fare --csv",
        "sort --csv",
    ] {
        let plain = place.ebb(&format!("run {run} trips.csv --output -")).ok();
        let gzip = place
            .ebb(&format!("run {run} trips.csv.gz --output -"))
            .ok();
        assert_eq!(plain, gzip);
    }
    place.write("trips.parquet", b"PAR1\x15\x04\x15rows\x00PAR1");
    for input in ["--text trips.parquet", "--csv trips.parquet"] {
        let said = place
            .ebb(&format!("run wordcount {input} --output -"))
            .fails(2);
        assert!(
            said.contains("trips.parquet is a file in the format Parquet"),
            "{said}"
        );
    }
}
