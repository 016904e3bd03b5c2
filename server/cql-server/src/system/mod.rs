//! The tables that a server has of its own: what drivers ask for when they connect, and
//! what ebb tells of its snapshots and jobs.
//!
//! | keyspace | tables |
//! | --- | --- |
//! | `system` | `local`, `peers`, `peers_v2`, `"IndexInfo"`, `size_estimates` |
//! | `system_schema` | `keyspaces`, `tables`, `columns`, `types`, `dropped_columns`, and those of what ebb has none of |
//! | `system_virtual_schema` | `keyspaces`, `tables`, `columns` |
//! | `system_auth` | `roles`, `role_members`, `role_permissions`, `identity_to_role` |
//! | `system_traces` | `sessions`, `events` |
//! | `system_views` | `snapshots`, `jobs`, `clients`, `queries`, `index_builds` |
//!
//! Nothing of them is stored. A row is computed from the schema and the node as they are
//! when a statement asks. `system_views` and `system_virtual_schema` count as virtual for drivers, the others
//! as a node's own. None can be written to. The keyspace of the database in which ebb
//! keeps its own records, `ebb_system`, is not there for CQL.

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

use ebb_model::schema::TableSchema;
use ebb_tables::{Catalog, CatalogState};

pub use self::jobs::{JobList, JobRow};
pub(crate) use self::lookup::Lookup;
pub(crate) use self::views::{SnapshotRow, snapshot_rows};
pub(crate) use self::virtual_table::{VirtualRow, VirtualTable};
use crate::activity::Activity;
use crate::indexes::BuildFailures;

/// What `release_version` says: the Cassandra whose CQL and messages these are. Drivers
/// choose by it which tables they ask for.
const RELEASE_VERSION: &str = "4.1.0";
const CQL_VERSION: &str = "3.4.6";
pub(crate) const DATA_CENTER: &str = "datacenter1";
const RACK: &str = "rack1";
/// How tokens are computed.
pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// What a cluster is called that was given no name.
pub const CLUSTER_NAME: &str = "ebb";

/// What drivers take for a node's own keyspaces.
pub(super) const LOCAL_KEYSPACES: &[&str] =
    &["system", "system_auth", "system_schema", "system_traces"];
/// What drivers take for virtual ones.
pub(super) const VIRTUAL_KEYSPACES: &[&str] = &["system_views", "system_virtual_schema"];

/// How clients reach this node, and what they call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNode {
    /// What is told to drivers as the node's address.
    pub address: SocketAddr,
    /// The cluster of this one node.
    pub cluster_name: String,
}

/// What rows are computed from: the node, and the schema at the moment of the statement.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The node.
    pub node: Arc<LocalNode>,
    /// Its catalog.
    pub catalog: Arc<Catalog>,
    /// The schema that the statement sees.
    pub state: Arc<CatalogState>,
    /// All tables of this kind.
    pub system: Arc<SystemTables>,
    /// What the server does for whom.
    pub activity: Arc<Activity>,
    /// The role whose queries the statement may read; `None` for those of all users.
    pub queries_of: Option<Box<str>>,
    /// The errors of index builds that failed.
    pub index_failures: Arc<BuildFailures>,
    /// The jobs; `None` where there are none.
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
        for definition in own.into_iter().chain(schema::NOT_THERE) {
            let table = Arc::new(VirtualTable::new(&definition));
            let tables = by_keyspace.entry(definition.keyspace).or_default();
            tables.insert(definition.name, table);
        }
        Self { by_keyspace }
    }
}

impl SystemTables {
    /// Whether this is one of the keyspaces here.
    pub fn has_keyspace(&self, keyspace: &str) -> bool {
        self.by_keyspace.contains_key(keyspace)
    }

    /// The names of the keyspaces, ascending.
    pub fn keyspaces(&self) -> impl Iterator<Item = &'static str> {
        self.by_keyspace.keys().copied()
    }

    /// A table by its keyspace and name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<VirtualTable>> {
        self.by_keyspace.get(keyspace)?.get(name)
    }

    /// The schemas of all tables of some keyspaces.
    pub fn tables_of<'a>(&'a self, keyspaces: &'a [&str]) -> impl Iterator<Item = &'a TableSchema> {
        let tables = keyspaces
            .iter()
            .filter_map(|name| self.by_keyspace.get(name));
        tables.flat_map(|tables| tables.values().map(|table| &**table.schema()))
    }
}

/// Whether users may not make a keyspace of this name: it is one of Cassandra's own, or
/// one of ebb's.
pub(crate) fn is_reserved(keyspace: &str) -> bool {
    keyspace.starts_with("system") || keyspace == ebb_tables::names::SYSTEM_KEYSPACE
}
