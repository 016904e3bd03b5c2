use super::*;
use crate::RowFormat;
use crate::pi::Variant;

fn table() -> InputRequest {
    InputRequest::Table(TableInput {
        snapshot: Some("monday".to_string()),
        keys: KeySelection::Range {
            from: "a".to_string(),
            to: String::new(),
        },
        values: ValueKind::Csv,
        names: vec!["a".to_string(), "b".to_string()],
        columns: Vec::new(),
        ..TableInput::new("app.lines".parse().unwrap())
    })
}

/// Returns an application of each kind.
fn applications() -> Vec<ApplicationRequest> {
    let order = OrderRequest {
        by: vec!["fare".to_string()],
        numeric: true,
        reverse: false,
    };
    vec![
        ApplicationRequest::Aggregate(AggregateRequest {
            by: vec!["city".to_string()],
            of: vec!["fare".to_string()],
            quantiles: vec![0.5, 0.99],
            reduces: 2,
        }),
        ApplicationRequest::Combine(CombineRequest {
            by: vec!["city".to_string()],
            reduces: 2,
        }),
        ApplicationRequest::Grep(GrepRequest {
            pattern: "x".to_string(),
            regex: true,
        }),
        ApplicationRequest::Index(IndexRequest { reduces: 2 }),
        ApplicationRequest::Join(JoinRequest {
            left_on: Some("id".to_string()),
            right_on: None,
            keep_left: true,
            reduces: 2,
        }),
        ApplicationRequest::Pagerank(PagerankRequest {
            from: "1".to_string(),
            to: "2".to_string(),
            iterations: 20,
            damping: 0.85,
            reduces: 2,
        }),
        ApplicationRequest::Pi(PiRequest {
            points: 1000,
            seed: 1,
            variant: Variant::Plain,
        }),
        ApplicationRequest::Publish(PublishRequest {
            decimal: Some("18,2".parse().unwrap()),
            replace: true,
            keep: Some("3,7d".parse().unwrap()),
            ..PublishRequest::default()
        }),
        ApplicationRequest::Select(SelectRequest {
            conditions: vec!["a >= 1".parse().unwrap()],
            columns: vec!["b".to_string()],
            keep: 0.5,
        }),
        ApplicationRequest::Simulate(SimulateRequest {
            scenario: Some("week.toml".into()),
            replicas: Some(2),
        }),
        ApplicationRequest::Sort(SortRequest {
            order: order.clone(),
            reduces: 2,
        }),
        ApplicationRequest::Validate(ValidateRequest { order }),
        ApplicationRequest::Wordcount(WordcountRequest { reduces: 2 }),
    ]
}

/// Returns a publication of tables of the snapshot `monday`.
fn publication(tables: &[&str]) -> JobRequest {
    let input = |table: &&str| {
        InputRequest::Table(TableInput {
            snapshot: Some("monday".to_string()),
            ..TableInput::new(table.parse().unwrap())
        })
    };
    let output = OutputPlace::Iceberg("lake".parse().unwrap()).into();
    let application = ApplicationRequest::Publish(PublishRequest::default());
    let inputs = tables.iter().map(input).collect();
    JobRequest::new(application, inputs, output, "/home/ada")
}

fn request(application: ApplicationRequest) -> JobRequest {
    if let ApplicationRequest::Publish(_) = application {
        return JobRequest {
            application,
            ..publication(&["app.lines", "app.words"])
        };
    }
    let inputs = vec![table(); application.inputs()];
    let output = OutputRequest {
        to: OutputPlace::Folder("out".into()),
        format: Some(RowFormat::Csv),
        limit: Some(10),
        header: false,
    };
    JobRequest {
        goal_s: Some(90.0),
        splits: Some(3),
        cores: Some(1),
        isolation: Isolation::Process,
        ..JobRequest::new(application, inputs, output, "/home/ada")
    }
}

#[test]
fn a_job_reads_files_as_inputs_or_as_its_application_does() {
    // The scenario of a simulation once counted as no file.
    let simulation = |scenario: Option<&str>| {
        let application = ApplicationRequest::Simulate(SimulateRequest {
            scenario: scenario.map(Into::into),
            replicas: None,
        });
        let output = OutputPlace::Table("app.out".parse().unwrap()).into();
        JobRequest::new(application, Vec::new(), output, "/")
    };
    let (own, given) = (simulation(None), simulation(Some("/etc/passwd")));
    assert!(!own.reads_files() && !own.names_files());
    assert!(given.reads_files() && given.names_files());
    let mut of_table = request(applications().remove(0));
    assert!(!of_table.reads_files());
    assert!(of_table.names_files(), "it writes a folder");
    assert_eq!(of_table.tables_read().count(), of_table.inputs.len());
    of_table.inputs = vec![InputRequest::Text(TextInput {
        paths: vec!["words.txt".into()],
        skip_bad: false,
    })];
    assert!(of_table.reads_files());
    assert_eq!(of_table.tables_read().count(), 0);
}

#[test]
fn a_file_whose_extension_promises_another_form_than_its_rows_have_is_refused() {
    // A job once wrote plain text into rows.csv.gz, and lines into rows.json.
    let check = |name: &str, format| {
        let mut request = request(applications().remove(0));
        request.output.to = OutputPlace::File(name.into());
        request.output.format = format;
        request.check().map_err(|error| error.to_string())
    };
    for name in ["rows.csv.gz", "out/rows.PARQUET", "rows.zst"] {
        for format in [None, Some(RowFormat::Csv)] {
            let error = check(name, format).unwrap_err();
            assert!(error.contains(name) && error.contains(".csv"), "{error}");
        }
    }
    let error = check("rows.json", None).unwrap_err();
    assert!(error.contains(".jsonl"), "{error}");
    assert_eq!(check("rows.json", Some(RowFormat::JsonLines)), Ok(()));
    for name in ["rows", "rows.txt", "rows.csv", "gz", "a.gz/rows.jsonl"] {
        assert_eq!(check(name, None), Ok(()), "{name}");
    }
}

#[test]
fn a_request_of_every_application_reads_as_it_was_written() {
    let mut names = crate::names();
    for application in applications() {
        let request = request(application);
        request.check().unwrap();
        assert_eq!(Some(request.application.name()), names.next());
        let read = JobRequest::from_json(request.to_json()).unwrap();
        assert_eq!(read, request);
    }
    assert_eq!(names.next(), None);
}

/// Stored jobs describe CSV files by this JSON, which has `delimiter`, `lenient_quotes` and
/// `skip_bad` only if they are set. Ebb must be able to read JSON without them, because it starts
/// jobs again that an earlier build has stored.
#[test]
fn options_of_csv_files_that_are_not_set_are_left_out_of_the_json() {
    let kept = json!({"csv": {"paths": ["a.csv"], "header": true, "multiline": true, "names": []}});
    let read: InputRequest = serde_json::from_value(kept.clone()).unwrap();
    assert_eq!(json!(read), kept);
    let chosen = InputRequest::Csv(CsvInput {
        delimiter: Some(';'),
        lenient_quotes: true,
        ..CsvInput::new(vec!["a.csv".into()])
    });
    let form = json!(chosen);
    assert_eq!(form["csv"]["delimiter"], ";");
    assert_eq!(form["csv"]["lenient_quotes"], true);
    assert_eq!(
        serde_json::from_value::<InputRequest>(form).unwrap(),
        chosen
    );
}

/// Stored jobs have this form: a change of it requires a new version.
#[test]
fn the_form_of_version_1_is_this() {
    let grep = GrepRequest {
        pattern: "TODO".to_string(),
        regex: false,
    };
    let kept = json!({
        "version": 1,
        "application": {"grep": {"pattern": "TODO", "regex": false}},
        "inputs": [{"table": {
            "table": "app.lines", "snapshot": "monday",
            "keys": {"range": {"from": "a", "to": ""}}, "values": "csv", "names": ["a", "b"],
        }}],
        "output": {"to": {"folder": "out"}, "format": "csv", "limit": 10},
        "directory": "/home/ada",
        "goal_s": 90.0, "splits": 3, "cores": 1, "isolation": "process",
    });
    let request = request(ApplicationRequest::Grep(grep));
    assert_eq!(request.to_json(), kept);
    // A request that is written by hand may leave out the defaults.
    let short = json!({
        "application": {"pi": {"points": 1, "seed": 1, "variant": "simd"}},
        "output": {"to": "terminal"},
        "directory": "/",
    });
    let request = JobRequest::from_json(short).unwrap();
    assert_eq!(request.output.to, OutputPlace::Terminal);
    assert_eq!(
        (request.isolation, request.goal_s),
        (Isolation::Thread, None)
    );
}

#[test]
fn another_version_or_an_unknown_field_is_refused_by_name() {
    let kept = request(applications().remove(0)).to_json();
    for version in [0, 2, 1_u64 << 40] {
        let mut other = kept.clone();
        other["version"] = version.into();
        other["unheard_of"] = 1.into();
        let error = JobRequest::from_json(other).unwrap_err();
        assert!(matches!(error, RequestError::Version { .. }), "{error}");
        assert!(error.to_string().contains("knows version 1 only"));
    }
    for place in ["", "/application/aggregate", "/inputs/0/table", "/output"] {
        let mut other = kept.clone();
        other.pointer_mut(place).unwrap()["colour"] = "blue".into();
        let error = JobRequest::from_json(other).unwrap_err().to_string();
        assert!(error.contains("unknown field `colour`"), "{place}: {error}");
    }
    let mut other = kept.clone();
    other["application"] = json!({"teleport": {}});
    let error = JobRequest::from_json(other).unwrap_err().to_string();
    assert!(error.contains("teleport"), "{error}");
}

#[test]
fn requests_that_make_no_sense_are_rejected_with_the_reason() {
    let sort = || {
        request(ApplicationRequest::Sort(SortRequest {
            order: OrderRequest::default(),
            reduces: 1,
        }))
    };
    let refused = |change: &dyn Fn(&mut JobRequest), expected: &str| {
        let mut request = sort();
        change(&mut request);
        let error = request.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    sort().check().unwrap();
    refused(&|request| request.inputs.clear(), "sort takes 1 input");
    refused(&|request| request.directory = "here".into(), "not absolute");
    refused(&|request| request.goal_s = Some(0.0), "in the future");
    refused(&|request| request.goal_s = Some(f64::NAN), "in the future");
    refused(&|request| request.goal_s = Some(1e300), "within ten years");
    refused(&|request| request.splits = Some(0), "splits is 0");
    refused(&|request| request.cores = Some(5000), "1 to 1024");
    // More records than this have more bytes than a 64-bit number counts.
    let generated = |records| InputRequest::Generated(GeneratedInput { records, seed: 1 });
    let change = |request: &mut JobRequest| request.inputs[0] = generated(u64::MAX);
    refused(&change, "too many: at most 1000000000000000");
    let mut most = sort();
    most.inputs[0] = generated(1_000_000_000_000_000);
    most.check().unwrap();
    let lenient = InputRequest::Table(TableInput {
        lenient_quotes: true,
        ..TableInput::new("app.lines".parse().unwrap())
    });
    let change = |request: &mut JobRequest| request.inputs[0] = lenient.clone();
    refused(&change, "lenient_quotes is for values that are CSV");
    let text = |_: &JobRequest| {
        InputRequest::Text(TextInput {
            paths: Vec::new(),
            skip_bad: false,
        })
    };
    refused(&|request| request.inputs[0] = text(request), "no file");
    for delimiter in ['"', '\n', '\u{e4}', '\0'] {
        let csv = InputRequest::Csv(CsvInput {
            delimiter: Some(delimiter),
            ..CsvInput::new(vec!["a.csv".into()])
        });
        let change = |request: &mut JobRequest| request.inputs[0] = csv.clone();
        refused(&change, "it may be an ASCII character other than");
    }
}

/// Regression: the pattern of grep could have a megabyte, and each list of jobs had all of it.
#[test]
fn a_text_of_a_request_has_a_limited_length_and_the_error_names_it() {
    let grep = |bytes: usize| {
        request(ApplicationRequest::Grep(GrepRequest {
            pattern: "x".repeat(bytes),
            regex: false,
        }))
    };
    grep(16_384).check().unwrap();
    let error = grep(16_385).check().unwrap_err().to_string();
    let expected = "application.grep.pattern has 16385 bytes; it may have at most 16384";
    assert_eq!(error, expected);
    let mut named = grep(1);
    let mut input = TableInput::new("app.lines".parse().unwrap());
    input.values = ValueKind::Csv;
    input.names = vec!["a".to_string(), "x".repeat(20_000)];
    named.inputs = vec![InputRequest::Table(input)];
    let error = named.check().unwrap_err().to_string();
    assert!(
        error.starts_with("inputs.0.table.names.1 has 20000 bytes"),
        "{error}"
    );
}

#[test]
fn a_publication_has_whole_tables_of_one_named_snapshot() {
    let tables = || publication(&["app.lines", "app.words"]);
    tables().check().unwrap();
    let refused = |request: JobRequest, expected: &str| {
        let error = request.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(publication(&[]), "publish takes 1 input or more");
    refused(publication(&["app.t", "app.t"]), "app.t is named twice");
    refused(publication(&["app.t", "other.t"]), "one keyspace");
    refused(publication(&["ebb_system.jobs"]), "ebb's own");
    refused(publication(&["_ebb.t"]), "ebb's own");
    refused(publication(&["app.ä"]), "ASCII");
    let change = |change: fn(&mut JobRequest)| {
        let mut request = tables();
        change(&mut request);
        request
    };
    let first: fn(&mut JobRequest) -> &mut TableInput = |request| match &mut request.inputs[0] {
        InputRequest::Table(table) => table,
        _ => unreachable!("it was made above"),
    };
    let mut unnamed = tables();
    first(&mut unnamed).snapshot = None;
    refused(unnamed, "named snapshot");
    let mut other = tables();
    first(&mut other).snapshot = Some("tuesday".to_string());
    refused(other, "one snapshot");
    let mut part = tables();
    first(&mut part).keys = KeySelection::Prefix("a".to_string());
    refused(part, "all rows and columns");
    refused(change(|request| request.output.limit = Some(1)), "limit");
    refused(
        change(|request| request.isolation = Isolation::Process),
        "runs on threads",
    );
    let to_file = |request: &mut JobRequest| request.output.to = OutputPlace::File("x".into());
    refused(change(to_file), "iceberg");
    let mut words = request(ApplicationRequest::Wordcount(WordcountRequest {
        reduces: 1,
    }));
    words.output = OutputPlace::Iceberg("lake".parse().unwrap()).into();
    refused(words, "only the application publish");
}

#[test]
fn other_engines_could_do_the_jobs_that_read_tables_only() {
    let word_count = || {
        request(ApplicationRequest::Wordcount(WordcountRequest {
            reduces: 2,
        }))
    };
    assert!(word_count().could_read_publication());
    let text = InputRequest::Text(TextInput {
        paths: vec!["a.txt".into()],
        skip_bad: false,
    });
    let with = |inputs| JobRequest {
        inputs,
        ..word_count()
    };
    assert!(with(vec![table(), table()]).could_read_publication());
    assert!(!with(vec![table(), text.clone()]).could_read_publication());
    assert!(!with(vec![text]).could_read_publication());
    assert!(!with(Vec::new()).could_read_publication());
    let own = TableInput::new("ebb_system.jobs".parse().unwrap());
    assert!(!with(vec![InputRequest::Table(own)]).could_read_publication());
    assert!(!publication(&["app.lines"]).could_read_publication());
}

#[test]
fn work_is_what_is_read_and_computed_and_nothing_else() {
    let sort = |reduces, numeric| {
        request(ApplicationRequest::Sort(SortRequest {
            order: OrderRequest {
                numeric,
                ..OrderRequest::default()
            },
            reduces,
        }))
    };
    let one = sort(1, false);
    let mut other = JobRequest {
        goal_s: None,
        splits: None,
        output: OutputPlace::Terminal.into(),
        ..sort(7, false)
    };
    let InputRequest::Table(table) = &mut other.inputs[0] else {
        unreachable!("it was made above");
    };
    table.snapshot = None;
    assert_eq!(one.work(), other.work());
    assert_ne!(one.work(), sort(1, true).work());
    assert_eq!(one.work_of("sort", &[]), one.work());
    assert_ne!(one.work_of("sort changes", &[]), one.work());
    assert_eq!(one.work_of("sort", &[7]), other.work_of("sort", &[7]));
    assert_ne!(one.work_of("sort", &[7]), other.work_of("sort", &[8]));
}
