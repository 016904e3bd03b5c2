//! Random writes, merged in any order and grouping, have the content that the model computes.

use ebb_test_support::seed::for_seeds;
use fastrand::Rng;

use super::super::*;
use super::model::{self, Fact, HeaderFact};
use super::operands::*;

/// Runs `check` with `release` seeds, or with a twenty-fifth of them in a debug build, which is slow.
pub(super) fn cases(test: &str, release: u64, mut check: impl FnMut(&mut Rng)) {
    let count = if cfg!(debug_assertions) {
        release / 25
    } else {
        release
    };
    for_seeds(test, count, |seed| check(&mut Rng::with_seed(seed)));
}

/// Merges the operands pairwise, in random order and grouping, some more than once.
pub(super) fn fold(
    rng: &mut Rng,
    mut operands: Vec<Vec<u8>>,
    merge: impl Fn(&[u8], &[u8]) -> Result<Vec<u8>, RowError>,
) -> Vec<u8> {
    while rng.u8(0..4) == 0 {
        let again = rng.choice(&operands).unwrap().clone();
        operands.push(again);
    }
    while operands.len() > 1 {
        let one = operands.swap_remove(rng.usize(..operands.len()));
        let two = operands.swap_remove(rng.usize(..operands.len()));
        operands.push(merge(&one, &two).unwrap());
    }
    operands.pop().unwrap()
}

fn rows(rng: &mut Rng, timestamps: Timestamps) -> Vec<Vec<Fact>> {
    (0..rng.usize(1..6))
        .map(|_| row_facts(rng, timestamps))
        .collect()
}

fn headers(rng: &mut Rng, timestamps: Timestamps) -> Vec<Vec<HeaderFact>> {
    (0..rng.usize(1..5))
        .map(|_| header_facts(rng, timestamps))
        .collect()
}

#[test]
fn merged_writes_show_what_the_model_shows() {
    cases("merged_writes_show_what_the_model_shows", 150_000, |rng| {
        let timestamps = Timestamps::some(rng);
        let (rows, headers) = (rows(rng, timestamps), headers(rng, timestamps));
        let row = fold(
            rng,
            rows.iter().map(|facts| row_operand(facts)).collect(),
            merge_rows,
        );
        let operands = headers.iter().map(|facts| header_operand(facts)).collect();
        let header = fold(rng, operands, merge_headers);

        let (facts, header_facts) = (rows.concat(), headers.concat());
        let row = RowRef::parse(&row).unwrap();
        let header = Header::parse(&header).unwrap();
        for _ in 0..2 {
            let (clustering, now_s) = (clustering(rng), time_s(rng));
            let above = model::deleted_above(&header_facts, &clustering);
            let view = RowView::new(row, header.deletion_at(&clustering), now_s);
            assert_eq!(
                row_of_view(&view),
                model::visible_row(&facts, above, now_s),
                "row {clustering:?} at {now_s} of {facts:#?} under {header_facts:#?}"
            );
            let (facts, above) = model::static_row(&header_facts);
            assert_eq!(
                row_of_view(&header.static_view(now_s)),
                model::visible_row(&facts, above, now_s),
                "static row at {now_s} of {header_facts:#?}"
            );
        }
    });
}

#[test]
fn the_order_and_grouping_of_merges_leave_no_trace_in_the_bytes() {
    cases(
        "the_order_and_grouping_of_merges_leave_no_trace_in_the_bytes",
        50_000,
        |rng| {
            let timestamps = Timestamps::some(rng);
            let mut operands: Vec<_> = rows(rng, timestamps)
                .iter()
                .map(|facts| row_operand(facts))
                .collect();
            // A single write is not canonical by itself; a merge with any operand, here an empty
            // one, makes it so.
            operands.push(row_operand(&[]));
            let one = fold(rng, operands.clone(), merge_rows);
            assert_eq!(one, fold(rng, operands, merge_rows));
            assert_eq!(one, merge_rows(&one, &one).unwrap());

            let mut operands: Vec<_> = headers(rng, timestamps)
                .iter()
                .map(|facts| header_operand(facts))
                .collect();
            operands.push(header_operand(&[]));
            let one = fold(rng, operands.clone(), merge_headers);
            assert_eq!(one, fold(rng, operands, merge_headers));
            assert_eq!(one, merge_headers(&one, &one).unwrap());
        },
    );
}

#[test]
fn a_write_that_was_never_merged_shows_the_same_as_merged() {
    cases(
        "a_write_that_was_never_merged_shows_the_same_as_merged",
        25_000,
        |rng| {
            let timestamps = Timestamps::some(rng);
            let operand = row_operand(&row_facts(rng, timestamps));
            let merged = merge_rows(&operand, &operand).unwrap();
            let now_s = time_s(rng);
            let view = |bytes| {
                let row = RowRef::parse(bytes).unwrap();
                row_of_view(&RowView::new(row, None, now_s))
            };
            assert_eq!(view(&operand), view(&merged));
        },
    );
}

#[test]
fn merged_operands_do_not_outgrow_their_inputs() {
    // A column may get a timestamp of its own (10 bytes) and an expiry (15); each column had at
    // least 1 byte before. A header's base may grow by 10.
    cases(
        "merged_operands_do_not_outgrow_their_inputs",
        25_000,
        |rng| {
            let timestamps = Timestamps::some(rng);
            let rows = rows(rng, timestamps);
            let operands: Vec<_> = rows.iter().map(|facts| row_operand(facts)).collect();
            let given: usize = operands.iter().map(Vec::len).sum();
            let facts: usize = rows.iter().map(Vec::len).sum();
            let merged = operands
                .iter()
                .fold(row_operand(&[]), |one, two| merge_rows(&one, two).unwrap());
            assert!(merged.len() <= given + 25 * facts + 10);
        },
    );
}

#[test]
fn stats_bound_the_written_content() {
    cases("stats_bound_the_written_content", 25_000, |rng| {
        let timestamps = Timestamps::some(rng);
        let operands: Vec<_> = rows(rng, timestamps)
            .iter()
            .map(|facts| row_operand(facts))
            .collect();
        let each = operands.iter().map(|operand| row_stats(operand).unwrap());
        let all = each.fold(Stats::NONE, Stats::union);
        let merged = fold(rng, operands, merge_rows);
        let stats = row_stats(&merged).unwrap();
        let row = RowRef::parse(&merged).unwrap();
        assert_eq!(stats.greatest_timestamp, row.greatest_timestamp());
        assert_eq!(stats.greatest_timestamp, all.greatest_timestamp);
        assert_eq!(all, all.union(stats));
        // No content is visible after the last of it has ended.
        if stats.greatest_local_time_s < i64::MAX {
            let view = RowView::new(row, None, stats.greatest_local_time_s.max(0));
            assert!(!view.is_live(None).unwrap());
        }
        // The visible content changes only between the first and the last expiry.
        let live_at = |read_time_s| {
            let view = RowView::new(row, None, read_time_s);
            let mut live = Vec::new();
            for column in row.columns() {
                let (id, _) = column.unwrap();
                match view.column(id).unwrap() {
                    Some(LiveColumn::Cell(cell)) => live.push((id, None, cell.value)),
                    Some(LiveColumn::Collection(collection)) => {
                        let elements = collection.elements().map(|element| element.unwrap());
                        live.extend(elements.map(|of| (id, Some(of.path), of.cell.value)));
                    }
                    None => {}
                }
            }
            (view.marker(), live)
        };
        let (first, last) = (stats.least_expiry_s, stats.greatest_expiry_s);
        if first <= last {
            assert_eq!(live_at(i64::MIN), live_at(first.saturating_sub(1)));
            assert_eq!(live_at(last), live_at(i64::MAX));
        } else {
            assert_eq!(live_at(i64::MIN), live_at(i64::MAX));
        }
    });
}
