//! The server's own tables: those that drivers read when they connect, and those of ebb about
//! snapshots and jobs.
//!
//! | keyspace | tables |
//! | --- | --- |
//! | `system` | `local`, `peers`, `peers_v2`, `"IndexInfo"`, `size_estimates` |
//! | `system_schema` | `keyspaces`, `tables`, `columns`, `types`, `dropped_columns`, and empty tables for what ebb does not have |
//! | `system_virtual_schema` | `keyspaces`, `tables`, `columns` |
//! | `system_auth` | `roles`, `role_members`, `role_permissions`, `identity_to_role` |
//! | `system_traces` | `sessions`, `events` |
//! | `system_views` | `snapshots`, `jobs`, `clients`, `queries`, `index_builds` |
//!
//! These tables are not stored. Their rows are computed from the schema and the state of the node
//! during a statement. For drivers `system_views` and `system_virtual_schema` are virtual
//! keyspaces, the others the node's own. None of them can be written to. The database keyspace with
//! ebb's own records, `ebb_system`, does not exist in CQL.

mod activity;
mod auth;
pub(crate) mod cells;
mod index_builds;
mod jobs;
mod local;
mod lookup;
mod queries;
mod schema;
mod size_estimates;
#[cfg(test)]
mod tests;
mod views;
mod virtual_schema;
mod virtual_table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ebb_model::access::ActingRole;
use ebb_model::schema::TableSchema;
use ebb_tables::{Catalog, CatalogState};

pub use self::jobs::{JobList, JobRow};
pub(crate) use self::lookup::{Lookup, PageRows};
pub(crate) use self::views::{SnapshotRow, snapshot_rows};
pub(crate) use self::virtual_table::{VirtualRow, VirtualTable};
use crate::activity::Activity;
use crate::indexes::BuildFailures;

/// `release_version`: the version of Cassandra whose CQL and error messages the server has. Drivers
/// decide by this version which tables they read.
const RELEASE_VERSION: &str = "4.1.0";
/// The version of CQL that Cassandra 4.1 has.
pub(crate) const CQL_VERSION: &str = "3.4.6";
pub(crate) const DATA_CENTER: &str = "datacenter1";
const RACK: &str = "rack1";
/// The partitioner of Cassandra whose tokens drivers compute.
pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The name of the cluster if none is configured.
pub const CLUSTER_NAME: &str = "ebb";

/// The keyspaces of virtual tables that drivers see as ordinary ones: `system_schema` contains
/// them.
pub(super) const LOCAL_KEYSPACES: &[&str] =
    &["system", "system_auth", "system_schema", "system_traces"];
/// The keyspaces that drivers see as virtual: `system_virtual_schema` contains them.
pub(super) const VIRTUAL_KEYSPACES: &[&str] = &["system_views", "system_virtual_schema"];

/// The address and the cluster name of this node, as clients see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNode {
    /// The address of the node in `system.local`.
    pub address: SocketAddr,
    /// The name of the cluster, which consists of this node.
    pub cluster_name: String,
}

/// The facts from which the rows of virtual tables are computed: the node, and the schema at the
/// moment of the statement.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The address and the name of the node.
    pub node: Arc<LocalNode>,
    /// The catalog of the node.
    pub catalog: Arc<Catalog>,
    /// The schema that the statement uses.
    pub state: Arc<CatalogState>,
    /// All virtual tables.
    pub system: Arc<SystemTables>,
    /// The clients, queries and traces.
    pub activity: Arc<Activity>,
    /// The role that reads; `None` for a client of a server without authentication.
    pub role: Option<ActingRole>,
    /// The role whose queries the statement may see; `None` if it may see the queries of all users.
    pub queries_of: Option<Box<str>>,
    /// The errors of failed index builds.
    pub index_failures: Arc<BuildFailures>,
    /// The source of the jobs for `system_views.jobs`; `None` if the table is to be empty.
    pub jobs: Option<Arc<dyn JobList>>,
}

/// All virtual tables. They are the same in every database.
#[derive(Debug)]
pub struct SystemTables {
    by_keyspace: BTreeMap<&'static str, BTreeMap<&'static str, Arc<VirtualTable>>>,
}

impl Default for SystemTables {
    fn default() -> Self {
        let own = [
            local::LOCAL,
            local::PEERS,
            local::PEERS_V2,
            schema::KEYSPACES,
            schema::TABLES,
            schema::COLUMNS,
            schema::DROPPED_COLUMNS,
            schema::INDEXES,
            schema::BUILT_INDEXES,
            schema::TYPES,
            size_estimates::SIZE_ESTIMATES,
            virtual_schema::KEYSPACES,
            virtual_schema::TABLES,
            virtual_schema::COLUMNS,
            views::SNAPSHOTS,
            jobs::JOBS,
            index_builds::INDEX_BUILDS,
            auth::ROLES,
            auth::ROLE_MEMBERS,
            auth::ROLE_PERMISSIONS,
            auth::IDENTITY_TO_ROLE,
            activity::CLIENTS,
            queries::QUERIES,
            activity::SESSIONS,
            activity::EVENTS,
        ];
        let mut by_keyspace: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for definition in own.into_iter().chain(schema::ALWAYS_EMPTY) {
            let table = Arc::new(VirtualTable::new(&definition));
            let tables = by_keyspace.entry(definition.keyspace).or_default();
            tables.insert(definition.name, table);
        }
        Self { by_keyspace }
    }
}

impl SystemTables {
    /// Returns whether a keyspace contains virtual tables.
    pub fn has_keyspace(&self, keyspace: &str) -> bool {
        self.by_keyspace.contains_key(keyspace)
    }

    /// Returns the names of the keyspaces of virtual tables, ascending.
    pub fn keyspaces(&self) -> impl Iterator<Item = &'static str> {
        self.by_keyspace.keys().copied()
    }

    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<VirtualTable>> {
        self.by_keyspace.get(keyspace)?.get(name)
    }

    /// Returns the schemas of all tables of some keyspaces.
    pub fn tables_of<'a>(&'a self, keyspaces: &'a [&str]) -> impl Iterator<Item = &'a TableSchema> {
        let tables = keyspaces
            .iter()
            .filter_map(|name| self.by_keyspace.get(name));
        tables.flat_map(|tables| tables.values().map(|table| &**table.schema()))
    }
}
