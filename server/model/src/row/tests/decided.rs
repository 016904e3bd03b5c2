//! A final read result does not change with operands from older sources.

use super::super::*;
use super::operands::*;
use super::properties::{cases, fold};

#[test]
fn a_decided_row_is_the_same_with_all_older_operands() {
    let (mut cases_run, mut rows_decided, mut statics_decided) = (0, 0, 0);
    cases(
        "a_decided_row_is_the_same_with_all_older_operands",
        150_000,
        |rng| {
            cases_run += 1;
            let timestamps = Timestamps::some(rng);
            let greatest_left = timestamps.one(rng);
            let left = Timestamps {
                from: timestamps.from,
                count: greatest_left - timestamps.from + 1,
            };
            let operands = (0..rng.usize(1..4)).map(|_| row_operand(&row_facts(rng, timestamps)));
            let operands = operands.collect();
            let found = fold(rng, operands, merge_rows);
            let operands =
                (0..rng.usize(1..3)).map(|_| header_operand(&header_facts(rng, timestamps)));
            let operands = operands.collect();
            let found_header = fold(rng, operands, merge_headers);
            let all = merge_rows(&row_operand(&row_facts(rng, left)), &found).unwrap();
            let left = header_operand(&header_facts(rng, left));
            let all_header = merge_headers(&left, &found_header).unwrap();

            let mut columns: Vec<u32> = [SIMPLE.as_slice(), &COLLECTIONS].concat();
            columns.retain(|_| rng.u8(0..4) == 0);
            columns.sort_unstable();
            let needs_original = rng.u8(0..4) == 0;
            let (clustering, now_s) = (clustering(rng), time_s(rng));
            let view = |row, header: &Header<'_>| {
                let row = RowRef::parse(row).unwrap();
                RowView::new(row, header.deletion_at(&clustering), now_s)
            };
            let found_header = Header::parse(&found_header).unwrap();
            let all_header = Header::parse(&all_header).unwrap();
            let of_columns = |view: &RowView<'_>| {
                let mut seen = row_of_view(view);
                seen.cells.retain(|id, _| columns.contains(id));
                seen.collections.retain(|id, _| columns.contains(id));
                (seen.cells, seen.collections)
            };

            let (one, two) = (view(&found, &found_header), view(&all, &all_header));
            let decided = one.is_decided(&columns, needs_original, greatest_left);
            if decided.unwrap() {
                rows_decided += 1;
                let of_row = |view: &RowView<'_>| {
                    let is_live = view.is_live(None).unwrap();
                    let original = view.original_clustering().map(<[u8]>::to_vec);
                    let original = original.filter(|_| is_live && needs_original);
                    (is_live, original, is_live.then(|| of_columns(view)))
                };
                assert_eq!(
                    of_row(&one),
                    of_row(&two),
                    "columns {columns:?} of {found:02x?} above {greatest_left}"
                );
            }
            let (one, two) = (
                found_header.static_view(now_s),
                all_header.static_view(now_s),
            );
            if one.are_columns_decided(&columns, greatest_left).unwrap() {
                statics_decided += 1;
                assert_eq!(of_columns(&one), of_columns(&two), "{columns:?}");
            }
        },
    );
    // The share is arbitrary: 100 of the 6,000 cases of a debug build. A hundred cases show that the
    // assertions above are reached.
    let enough = cases_run / 60;
    assert!(rows_decided >= enough && statics_decided >= enough);
}
