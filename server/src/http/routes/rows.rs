//! Rows as the store has them: the value of a key, and the rows of a key range by pages.

use std::ops::Bound;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use ebb_jobs::{Failure, JobError};
use ebb_storage::{Db, Entry, SnapshotTable};
use ebb_tables::lookup;
use ebb_tables::names::TableName;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Body, JsonBytes, Named, json_of};
use super::paging::limit_of;
use super::{At, Served};
use crate::http::permits::{check_input_at, check_rows, readable_table};
use crate::http::problem::Problem;
use crate::http::wire::{GetRequest, Octets, RowPage, RowView, ScanRequest};
use crate::http::work_limits::WorkKind;
use crate::node::Node;
use crate::tokens::Principal;

/// The bytes of keys and values after which a page ends.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// The most bytes of key and value of a row in a response. JSON may take six bytes for each byte, and ebb's
/// client reads at most 64 MiB of a response.
const ROW_BYTES_MAX: usize = 8 << 20;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(get))
        .routes(routes!(scan))
}

/// Returns the value of a key
///
/// It takes a token for scope `admin`, or a token of a role with scope `jobs` and SELECT on the table. The
/// request is a POST because keys may be longer than paths, and must not be in logs.
#[utoipa::path(
    post, path = "/v1/tables/{keyspace}/{table}/get", operation_id = "get_row", tag = "tables",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the table"),
        ("table" = String, Path, description = "The name of the table"),
    ),
    request_body = GetRequest,
    responses((status = 200, description = "The row", body = RowView)),
)]
async fn get(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named((keyspace, table)): Named<(String, String)>,
    body: Body,
) -> Result<JsonBytes, Problem> {
    let GetRequest { key, snapshot } = json_of(body)?;
    let name = TableName { keyspace, table };
    check_rows(&principal, &name)?;
    let key = key.into_bytes().map_err(Problem::senseless)?;
    let row = served.json_work(WorkKind::Rows, move |node| {
        let db = node.database("a row")?;
        let value = match &snapshot {
            Some(snapshot) => table_at(node, db, &principal, &name, snapshot)?.get(&key)?,
            None => readable_table(node, db, &principal, &name)?.get(&key)?,
        };
        match value {
            Some(value) => row_of(&key, Some(&value)),
            None => Err(no_key(&key, &name, snapshot.as_deref())),
        }
    });
    row.await
}

/// Opens a table at a snapshot, and checks that the principal may read it there.
fn table_at(
    node: &Node,
    db: &Db,
    principal: &Principal,
    name: &TableName,
    snapshot: &str,
) -> Result<SnapshotTable, JobError> {
    let rows = lookup::snapshot_table(db, name, snapshot)?;
    check_input_at(node, principal, name, &rows)?;
    Ok(rows)
}

fn no_key(key: &[u8], table: &TableName, snapshot: Option<&str>) -> Problem {
    let key = String::from_utf8_lossy(key);
    let at = snapshot.map(|name| format!(" at snapshot {name}"));
    let text = format!("no key {key:?} in {table}{}", at.unwrap_or_default());
    Problem::new(StatusCode::NOT_FOUND, Failure::NotFound, text)
}

/// Returns a page of the rows of a key range
///
/// It takes the same token as `get`. Each page shows the table as it is at that time, unless the
/// request names a snapshot. A page ends after 1 MiB of keys and values.
#[utoipa::path(
    post, path = "/v1/tables/{keyspace}/{table}/scan", operation_id = "scan_rows", tag = "tables",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the table"),
        ("table" = String, Path, description = "The name of the table"),
    ),
    request_body = ScanRequest,
    responses((status = 200, description = "A page of rows", body = RowPage)),
)]
async fn scan(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named((keyspace, table)): Named<(String, String)>,
    body: Body,
) -> Result<JsonBytes, Problem> {
    let request: ScanRequest = json_of(body)?;
    let name = TableName { keyspace, table };
    check_rows(&principal, &name)?;
    let limit = limit_of(request.limit)?;
    let range = range_of(&request).map_err(Problem::senseless)?;
    let page = served.json_work(WorkKind::Rows, move |node| {
        let db = node.database("a scan")?;
        let rows = match &request.snapshot {
            Some(snapshot) => table_at(node, db, &principal, &name, snapshot)?.scan(range),
            None => readable_table(node, db, &principal, &name)?.range(range),
        };
        if request.reverse {
            page_of(rows.rev(), limit, request.keys_only)
        } else {
            page_of(rows, limit, request.keys_only)
        }
    });
    page.await
}

type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Returns the bounds of the rows of a page: those of the range that come behind the key `after`, in the
/// order of the scan. An `after` that lies before the range has no effect, so it cannot widen the range.
///
/// # Errors
/// When the `hex` of a key is not made of pairs of hexadecimal digits.
fn range_of(request: &ScanRequest) -> Result<KeyBounds, String> {
    let key = |key: &Option<Octets>| key.clone().map(Octets::into_bytes).transpose();
    let (from, to) = (key(&request.from)?, key(&request.to)?);
    let after = key(&request.after)?.filter(|after| {
        if request.reverse {
            to.as_ref().is_none_or(|to| after <= to)
        } else {
            from.as_ref().is_none_or(|from| from <= after)
        }
    });
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    Ok(match (after, request.reverse) {
        (None, _) => (from, to),
        (Some(after), false) => (Bound::Excluded(after), to),
        (Some(after), true) => (from, Bound::Excluded(after)),
    })
}

fn page_of(
    rows: impl Iterator<Item = ebb_storage::Result<Entry>>,
    limit: usize,
    keys_only: bool,
) -> Result<RowPage, Problem> {
    let mut page = RowPage {
        rows: Vec::new(),
        next: None,
    };
    let mut bytes = 0;
    for row in rows {
        let (key, value) = row?;
        if page.rows.len() == limit || bytes >= PAGE_BYTES_MAX {
            page.next = page.rows.last().map(|last| last.key.clone());
            break;
        }
        let value = (!keys_only).then_some(&value[..]);
        bytes += key.len() + value.map_or(0, <[u8]>::len);
        page.rows.push(row_of(&key, value)?);
    }
    Ok(page)
}

fn row_of(key: &[u8], value: Option<&[u8]>) -> Result<RowView, Problem> {
    let bytes = key.len() + value.map_or(0, <[u8]>::len);
    if bytes > ROW_BYTES_MAX {
        return Err(Problem::senseless(format!(
            "a row has {bytes} bytes, and a response has rows of at most {ROW_BYTES_MAX}: read it \
             by CQL, or when no server has the database open"
        )));
    }
    Ok(RowView {
        key: key.into(),
        value: value.map(Octets::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(values: &[usize]) -> impl Iterator<Item = ebb_storage::Result<Entry>> {
        let entry = |(key, bytes): (u8, &usize)| (vec![key].into(), vec![0_u8; *bytes].into());
        let entries: Vec<Entry> = (0..).zip(values).map(entry).collect();
        entries.into_iter().map(Ok)
    }

    #[test]
    fn a_page_begins_after_the_one_before_and_never_outside_of_the_range() {
        let bounds = |after: &str, reverse| {
            range_of(&ScanRequest {
                from: Some(Octets::Text("c".to_string())),
                to: Some(Octets::Text("m".to_string())),
                after: Some(Octets::Text(after.to_string())),
                reverse,
                ..ScanRequest::default()
            })
        };
        let included = |key: &str| Bound::Included(key.as_bytes().to_vec());
        let excluded = |key: &str| Bound::Excluded(key.as_bytes().to_vec());
        for (after, reverse, expected) in [
            ("e", false, (excluded("e"), excluded("m"))),
            ("e", true, (included("c"), excluded("e"))),
            ("a", false, (included("c"), excluded("m"))),
            ("x", true, (included("c"), excluded("m"))),
        ] {
            assert_eq!(bounds(after, reverse), Ok(expected), "{after}, {reverse}");
        }
    }

    #[test]
    fn a_page_ends_by_its_rows_or_by_its_bytes() {
        let page = |values: &[usize], limit| page_of(entries(values), limit, false);
        let shape = |page: RowPage| (page.rows.len(), page.next.map(Octets::into_bytes));
        assert_eq!(shape(page(&[1, 1, 1], 3).unwrap()), (3, None));
        assert_eq!(shape(page(&[1, 1, 1], 2).unwrap()), (2, Some(Ok(vec![1]))));
        let long = [PAGE_BYTES_MAX, 1, 1];
        assert_eq!(shape(page(&long, 3).unwrap()), (1, Some(Ok(vec![0]))));
        let refused = page(&[1, ROW_BYTES_MAX], 3).unwrap_err();
        assert_eq!(refused.failure, Failure::Invalid);
        let keys = page_of(entries(&[ROW_BYTES_MAX, 1]), 3, true);
        assert_eq!(shape(keys.unwrap()), (2, None));
    }
}
