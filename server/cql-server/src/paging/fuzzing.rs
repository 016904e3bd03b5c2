//! Forged paging states, decoded from any bytes, for `fuzz`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::HEAD_BYTES;
use crate::executor::harness::Server;

/// Statements of every kind with pages, over two partitions with rows, and one partition that has
/// only a static column.
const STATEMENTS: [&str; 10] = [
    "SELECT k, c, d, s, v FROM t",
    "SELECT k, c, d, v FROM t LIMIT 7",
    "SELECT k, c FROM t PER PARTITION LIMIT 2",
    "SELECT DISTINCT k, s FROM t",
    "SELECT k, c FROM t WHERE token(k) > -4000000000000000000",
    "SELECT k, c, d FROM t WHERE k IN (1, 2)",
    "SELECT k, c, d FROM t WHERE k = 1 AND c > 1",
    "SELECT k, c, d FROM t WHERE k = 1 AND c IN (1, 3) ORDER BY c DESC, d DESC",
    "SELECT k, c, d FROM t WHERE k = 2 AND (c, d) >= (1, 1) AND (c, d) < (3, 0)",
    "SELECT k, c, d FROM t WHERE v > 3 ALLOW FILTERING",
];

/// The code of a protocol error: the server rejects an invalid paging state with this code.
const PROTOCOL_ERROR: i32 = 0x000a;

/// A server with rows, and the statements that the test reads them with.
pub(crate) struct Pages {
    server: Server,
    cases: Vec<Case>,
}

/// A statement, with the rows that its pages may contain.
pub(crate) struct Case {
    text: &'static str,
    /// The rows of the statement without LIMIT.
    all: BTreeSet<Vec<String>>,
    /// The number of rows that the statement returns with its LIMIT.
    most: usize,
    /// The paging state that follows each row of the statement, except for the last row.
    pub(crate) states: Vec<Vec<u8>>,
}

impl Pages {
    pub(crate) fn new() -> Self {
        let mut server = Server::with(&[
            "CREATE TABLE t (k int, c int, d int, s int STATIC, v int, PRIMARY KEY (k, c, d))",
            "INSERT INTO t (k, s) VALUES (3, 9)",
        ]);
        for k in 1..3 {
            for c in 0..4 {
                for d in 0..2 {
                    let v = k + c + d;
                    server.run(&format!(
                        "INSERT INTO t (k, c, d, v, s) VALUES ({k}, {c}, {d}, {v}, {k})"
                    ));
                }
            }
        }
        let cases = STATEMENTS.map(|text| Case::new(text, &mut server)).into();
        Self { server, cases }
    }

    pub(crate) fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Executes the statement with the index `case` from a paging state on, in pages of `page_rows`
    /// rows (`None` for a single page). Returns false if the server rejects the state. Otherwise
    /// checks that the pages contain only rows of the statement, and no more of them than LIMIT
    /// permits. If the statement reads whole partitions, the pages may also contain one row with
    /// only static columns.
    pub(crate) fn shows(&mut self, case: usize, page_rows: Option<u32>, state: &[u8]) -> bool {
        let Case {
            text, all, most, ..
        } = &self.cases[case];
        let mut next = Some(state.to_vec());
        let (mut pages, mut rows, mut of_statics) = (0, 0, 0);
        while let Some(of_page) = next {
            let page = match self.server.page(text, &[], page_rows, Some(&of_page)) {
                Ok(page) => page,
                Err(error) => {
                    let is_refused = error.kind.code() == PROTOCOL_ERROR && pages == 0;
                    assert!(is_refused, "{text}: {error}: {of_page:02x?}");
                    return false;
                }
            };
            // A state may claim that a partition had no rows. Then the partition has a row for its
            // static columns, which is no leak if the statement reads whole partitions, followed by
            // its rows.
            let is_whole = !text.contains("k =") && !text.contains("v >");
            let is_permitted =
                |row: &Vec<String>| all.contains(row) || is_whole && row[1] == "null";
            assert!(page.rows.iter().all(is_permitted), "{text}: {of_page:02x?}");
            let page_rows = page_rows.map_or(usize::MAX, |rows| rows as usize);
            assert!(page.rows.len() <= page_rows, "{text}: {of_page:02x?}");
            pages += 1;
            let not_of_all = page.rows.iter().filter(|row| !all.contains(*row));
            let not_of_all = not_of_all.count();
            of_statics += not_of_all;
            rows += page.rows.len() - not_of_all;
            assert!(rows <= *most && of_statics <= 1, "{text}: {state:02x?}");
            assert!(pages <= most + 2, "{text} does not end: {state:02x?}");
            next = page.state.map(|state| state.to_vec());
        }
        true
    }
}

impl Case {
    fn new(text: &'static str, server: &mut Server) -> Self {
        let most = server.page(text, &[], None, None).unwrap().rows.len();
        let unlimited = text.split(" PER PARTITION").next().unwrap_or(text);
        let unlimited = unlimited.split(" LIMIT").next().unwrap_or(text);
        let all = server.page(unlimited, &[], None, None).unwrap().rows;
        let mut states = Vec::new();
        while let Some(next) = {
            let state = states.last().map(Vec::as_slice);
            server.page(text, &[], Some(1), state).unwrap().state
        } {
            states.push(next.to_vec());
        }
        Self {
            text,
            all: all.into_iter().collect(),
            most,
            states,
        }
    }
}

/// Executes a statement from a paging state that a fuzzer has made. The first two bytes of `bytes`
/// select the statement and the page size, and the rest is the state. The hash in the state is
/// replaced by that of the statement. Otherwise the server would reject the state because of its
/// hash, and not examine the bytes after it.
pub fn state(bytes: &[u8]) {
    thread_local! {
        static PAGES: RefCell<Option<Pages>> = const { RefCell::new(None) };
    }
    let (&[case, size], state) = bytes.split_first_chunk::<2>().unwrap_or((&[0, 0], bytes));
    PAGES.with_borrow_mut(|pages| {
        let pages = pages.get_or_insert_with(Pages::new);
        let case = usize::from(case) % STATEMENTS.len();
        let page_rows = Some(u32::from(size % 8)).filter(|&rows| rows > 0);
        let mut state = state.to_vec();
        if state.len() >= HEAD_BYTES {
            state[1..9].copy_from_slice(&pages.cases()[case].states[0][1..9]);
        }
        pages.shows(case, page_rows, &state);
    });
}
