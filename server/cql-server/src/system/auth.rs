//! `system_auth`: there is no authentication, and so there are no roles. cqlsh needs the
//! tables to show what any statement that begins with LIST returns.

use ebb_cql::protocol::ErrorResponse;

use super::Facts;
use super::virtual_table::{Definition, RowSet};

const KEYSPACE: &str = "system_auth";

pub(super) const ROLES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "roles",
    comment: "role definitions",
    columns: &[
        "role text",
        "can_login boolean",
        "is_superuser boolean",
        "member_of set<text>",
        "salted_hash text",
    ],
    partition_key: &["role"],
    clustering: &[],
    rows: none,
};

pub(super) const ROLE_PERMISSIONS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "role_permissions",
    comment: "permissions granted to db roles",
    columns: &["role text", "resource text", "permissions set<text>"],
    partition_key: &["role"],
    clustering: &["resource"],
    rows: none,
};

fn none(_: &Facts, _: &mut RowSet<'_>) -> Result<(), ErrorResponse> {
    Ok(())
}
