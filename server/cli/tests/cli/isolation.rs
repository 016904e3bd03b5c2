//! `ebb run --isolate process`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use ebb_test_support::seed::for_seeds;
use ebb_test_support::wait::{until, until_some};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::corpus::count_words;
use crate::place::{Place, Running, output};

/// Runs a job once with tasks on threads and once with tasks in processes, checks that the outputs are equal,
/// and returns the output.
fn alike(place: &Place, run: &str, output: &str) -> String {
    let outputs = ["thread", "process"].map(|how| {
        let output = format!("{how}-{output}");
        let line = format!("run {run} --splits 5 --isolate {how} --output {output}");
        place.ebb(&line).ok();
        std::fs::read(place.path(&output)).unwrap()
    });
    let [threads, processes] = outputs;
    assert!(threads == processes, "{run}");
    String::from_utf8_lossy(&processes).into_owned()
}

#[test]
fn processes_put_out_what_threads_put_out() {
    let place = Place::with_corpus();
    let words = count_words(&place.path("corpus"));
    let table = "--table app.lines --snapshot s";
    let counts = alike(&place, &format!("wordcount {table} --reduces 3"), "w.tsv");
    assert_eq!(counts.lines().count(), words.len());
    for (run, output) in [
        (format!("index {table} --reduces 2"), "i.jsonl"),
        (
            "sort --text corpus/d0 corpus/d1 corpus/d2 --reduces 3".to_string(),
            "s.txt",
        ),
        (
            format!("grep {table} --prefix corpus/d1 --pattern (run)"),
            "g.csv",
        ),
        (
            "combine --generate 3000 --seed 5 --reduces 2".to_string(),
            "c.csv",
        ),
        ("pi --points 10000000".to_string(), "p.tsv"),
    ] {
        let rows = alike(&place, &run, output);
        assert!(rows.lines().count() > 0, "{run}");
    }
    // This job has column names, and two inputs of different kinds.
    place.write("cities.csv", "name,land\nBonn,DE\nCork,IE\n");
    place.write(
        "trips.jsonl",
        "{\"to\":\"Bonn\",\"fare\":7}\n{\"to\":\"Rome\",\"fare\":9}\n",
    );
    let join = "join --csv cities.csv --on name --with trips.jsonl --with-on to --left";
    assert!(alike(&place, join, "j.csv").contains("Cork"));
    alike(&place, "aggregate --csv cities.csv --by land", "a.csv");
}

/// Regression: with processes, the command panicked.
#[test]
fn processes_read_files_of_a_folder_whose_names_are_not_utf_8() {
    let place = Place::new();
    place.write("in/a.txt", "c\na\n");
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::write(place.path("in").join(name), "b\n").unwrap();
    assert_eq!(alike(&place, "sort --text in", "s.txt"), "a\nb\nc\n");
}

#[test]
fn rows_of_processes_appear_in_a_table_and_a_snapshot_of_their_own_goes() {
    let place = Place::with_corpus();
    let run = "run wordcount --table app.lines --isolate process --cores 2";
    let report = place
        .ebb(&format!("{run} --output app.words --json"))
        .json();
    let words = count_words(&place.path("corpus"));
    assert_eq!(report["counters"]["output_records"], words.len());
    let rows = place.ebb("scan app.words").ok();
    for (word, count) in &words {
        assert!(rows.contains(&format!("{word}\t{count}\n")), "{word}");
    }
    let snapshots = place.ebb("snapshot list --json").ok();
    assert!(!snapshots.contains("run-1"), "{snapshots}");
    assert!(!place.path("ebb-data/spill").exists());
}

#[test]
fn each_job_of_a_chain_runs_in_processes_and_leaves_nothing_behind() {
    for_seeds(
        "each_job_of_a_chain_runs_in_processes_and_leaves_nothing_behind",
        1,
        check_chain,
    );
}

/// Runs PageRank over links drawn from `seed`, on threads and in processes.
fn check_chain(seed: u64) {
    let place = Place::new();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut node = |nodes: u32| rng.random_range(0..nodes);
    // Some nodes have no links.
    let links: Vec<_> = (0..3000)
        .map(|_| format!("n{},n{}\n", node(200), node(300)))
        .collect();
    place.write("links.csv", format!("from,to\n{}", links.concat()));
    let run = "pagerank --csv links.csv --from from --to to --iterations 4 --reduces 3";
    let ranks = alike(&place, run, "ranks.tsv");
    let sum: f64 = (ranks.lines())
        .map(|line| line.split_once('\t').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");

    // The links are in a table, and the chain keeps its intermediate rows in the database's folder.
    (place.ebb("load --table app.links links.csv")).ok();
    let run = "run pagerank --table app.links --values csv --iterations 3 --isolate process";
    place.ebb(&format!("{run} --output app.ranks")).ok();
    let rows = place.ebb("scan app.ranks").ok();
    assert!(rows.lines().count() > 200, "{rows}");
    assert!(!place.path("ebb-data/spill").exists());
    // A failure in a process fails the chain.
    place.write("bad.txt", "a b\na b c\n");
    let said = place
        .ebb("run pagerank --text bad.txt --isolate process --output bad.tsv")
        .fails(2);
    assert!(said.contains("expected two names"), "{said}");
    assert!(!place.path("bad.tsv").exists());
}

#[test]
fn a_process_without_a_parent_is_refused() {
    let place = Place::new();
    let mut alone = place.command("run-tasks-of-parent");
    let done = output(&mut alone);
    assert!(!done.status.success());
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("which is for ebb to start"), "{said}");
}

/// Returns the ids of the processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| state_and_parent(*id).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// Returns the state of a process, as the kernel's letter for it, and the id of its parent; `None` if the
/// process is gone.
fn state_and_parent(id: u32) -> Option<(char, u32)> {
    let stat = Path::new("/proc").join(id.to_string()).join("stat");
    let text = std::fs::read_to_string(stat).ok()?;
    // The state is behind the name, which may have blanks and parentheses.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[test]
fn processes_do_not_outlive_a_parent_that_is_killed() {
    let place = Place::new();
    let run = "run pi --points 1000000000000 --isolate process --output - --cores 2";
    let mut command = place.command(run);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let parent = Running::start(&mut command);
    let ids = until_some("tasks in processes", || {
        let ids = children(parent.id());
        (!ids.is_empty()).then_some(ids)
    });
    parent.kill();
    until("the end of the processes", || {
        // A zombie has ended, and no parent has waited for it.
        let mut left = ids.iter().filter_map(|id| state_and_parent(*id));
        left.all(|(state, _)| state == 'Z')
    });
}
