use std::collections::BTreeMap;

use super::*;
use crate::records::ValueFormat;
use crate::testing::{input, options, report};
use ebb_scheduler::runtime::{Outcome, Runtime, RuntimeOptions, VecOutput};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};

fn ranks(lines: &[String], format: &RecordFormat, iterations: u32) -> BTreeMap<String, f64> {
    let dir = tempfile::tempdir().unwrap();
    let output = VecOutput::new();
    let edges = Edges::new(format, "1", "2").unwrap();
    let mut chain = PageRank::new(
        "rank",
        input(lines, 4),
        edges,
        Arc::new(output.clone()),
        dir.path(),
        0.85,
        iterations,
        3,
    );
    let runtime = Runtime::start(RuntimeOptions {
        task_memory_bytes: 64 << 10,
        ..options(2)
    });
    let runtime = runtime.unwrap();
    let stages = chain.outline().stages;
    let outlined = stages.into_iter().flat_map(|stage| {
        let reduces = stage.reduces;
        stage.names.into_iter().map(move |name| (name, reduces))
    });
    let outlined: Vec<(String, u32)> = outlined.collect();
    let mut done = None;
    let mut jobs: Vec<(String, u32)> = Vec::new();
    while let Some(job) = chain.next(done.as_ref()).unwrap() {
        if let Some((_, reduces_before)) = jobs.last() {
            let maps = job.input.splits().unwrap().len();
            assert_eq!(maps, *reduces_before as usize, "{}", job.name);
        }
        jobs.push((job.name.clone(), job.reduces));
        let report = runtime.submit(job).unwrap().wait();
        assert_eq!(report.outcome, Outcome::Succeeded);
        done = Some(report);
    }
    assert_eq!(jobs.len(), chain.length() as usize);
    assert_eq!(jobs, outlined);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows = output.rows().unwrap().into_iter();
    rows.map(|(node, rank)| (text(node), text(rank).parse().unwrap()))
        .collect()
}

/// Computes ranks with a matrix, whose entry (v, u) is the fraction of the rank of u that goes to
/// v.
fn by_matrix(edges: &[(usize, usize)], nodes: usize, iterations: u32) -> Vec<f64> {
    let mut matrix = vec![vec![0.0; nodes]; nodes];
    for from in 0..nodes {
        let links: Vec<_> = edges.iter().filter(|edge| edge.0 == from).collect();
        for &&(_, to) in &links {
            matrix[to][from] += 1.0 / links.len() as f64;
        }
        if links.is_empty() {
            matrix
                .iter_mut()
                .for_each(|row| row[from] = 1.0 / nodes as f64);
        }
    }
    let mut ranks = vec![1.0 / nodes as f64; nodes];
    for _ in 0..iterations {
        let product = |row: &Vec<f64>| row.iter().zip(&ranks).map(|(a, b)| a * b).sum::<f64>();
        let next = |row| 0.15 / nodes as f64 + 0.85 * product(row);
        ranks = matrix.iter().map(next).collect();
    }
    ranks
}

#[test]
fn ranks_are_those_of_the_matrix_with_and_without_dangling_nodes() {
    let test = "ranks_are_those_of_the_matrix_with_and_without_dangling_nodes";
    for_seeds(test, 1, |seed| {
        for dangling in [true, false] {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let nodes = 40;
            let last_source = if dangling { 30 } else { nodes };
            // Every node has a link: the first ones form a ring of sources.
            let ring = (0..nodes).map(|node| (node % last_source, (node + 1) % nodes));
            let drawn =
                (0..150).map(|_| (rng.random_range(0..last_source), rng.random_range(0..nodes)));
            let edges: Vec<_> = ring.chain(drawn).collect();
            let lines = |separator: &str| -> Vec<String> {
                let line = |(from, to): &(usize, usize)| format!("n{from}{separator}n{to}");
                edges.iter().map(line).collect()
            };
            let unnamed = RecordFormat::file(ValueFormat::UnnamedCsv);
            for (lines, format) in [(lines(" \t"), RecordFormat::text()), (lines(","), unnamed)] {
                let found = ranks(&lines, &format, 12);
                let expected = by_matrix(&edges, nodes, 12);
                assert_eq!(found.len(), nodes);
                for (node, rank) in expected.iter().enumerate() {
                    let found = found[&format!("n{node}")];
                    assert!((found - rank).abs() < 1e-12, "{node}: {found} {rank}");
                }
                assert!((found.values().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    });
}

/// Regression: the links of a node were one record of the shuffle, so the job failed if they had
/// more than a tenth of a task's memory. Here that is a tenth of 64 KiB. The name of a leaf has at
/// least two bytes, and its length four.
#[test]
fn the_links_of_a_node_may_be_longer_than_a_record() {
    const LEAVES: usize = 2000;
    const ITERATIONS: u32 = 3;
    let link_both_ways = |n: usize| [format!("hub n{n}"), format!("n{n} hub")];
    let lines: Vec<String> = (0..LEAVES).flat_map(link_both_ways).collect();
    let found = ranks(&lines, &RecordFormat::text(), ITERATIONS);
    let nodes = LEAVES as f64 + 1.0;
    let (mut hub, mut leaf) = (1.0 / nodes, 1.0 / nodes);
    for _ in 0..ITERATIONS {
        let shares = (leaf * LEAVES as f64, hub / LEAVES as f64);
        hub = 0.15 / nodes + 0.85 * shares.0;
        leaf = 0.15 / nodes + 0.85 * shares.1;
    }
    assert_eq!(found.len(), LEAVES + 1);
    for (node, rank) in found {
        let expected = if node == "hub" { hub } else { leaf };
        assert!((rank - expected).abs() < 1e-12, "{node}: {rank} {expected}");
    }
}

#[test]
fn a_node_with_too_many_links_fails_the_job_and_is_named() {
    let lines: Vec<String> = (0..2000).map(|n| format!("hub n{n}\nn{n} hub")).collect();
    let lines: Vec<&str> = lines.iter().flat_map(|lines| lines.lines()).collect();
    // A name has at most five bytes, plus four for its length.
    for (links_bytes_max, is_enough) in [(2000 * 9, true), (2000 * 5, false)] {
        let links = |input, output| {
            let mapper = edge_mapper(Edges::Text, Edges::Text.seen());
            JobSpec::new("links", input, Arc::new(mapper), output)
                .reducer(Arc::new(links_reducer(links_bytes_max)), 2)
        };
        match report(input(&lines, 4), VecOutput::new(), links).outcome {
            Outcome::Failed { cause } if !is_enough => {
                assert!(cause.contains("node \"hub\" has more than"), "{cause}");
            }
            outcome => assert!(is_enough && outcome == Outcome::Succeeded, "{outcome:?}"),
        }
    }
}

#[test]
fn a_line_that_is_no_link_is_an_error_and_a_comment_is_none() {
    let edges = Edges::Text;
    let seen = edges.seen();
    assert!(edges.read(b"k", b"# a b", &seen).unwrap().is_none());
    assert!(edges.read(b"k", b"  ", &seen).unwrap().is_none());
    for bad in ["a", "a b c"] {
        let error = edges.read(b"row9", bad.as_bytes(), &seen).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("row9"), "{error}");
    }
}
