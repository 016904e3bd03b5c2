//! The metadata of node and schema as the driver reads it, and schema changes that it sees by event.

use std::sync::Arc;
use std::time::Duration;

use ebb_cql_server::system::CLUSTER_NAME;
use ebb_test_support::wait;
use scylla::client::session::Session;
use scylla::cluster::ClusterState;
use scylla::cluster::metadata::{
    CollectionType, ColumnKind, ColumnType, NativeType, PeriodicFetchMode, Strategy, Table,
    UserDefinedType,
};
use uuid::Uuid;

use super::session::{
    KEYSPACE, all_rows, builder, connect, connect_with, prepare, read, rows, run, with_server,
    write,
};

fn native(native: NativeType) -> ColumnType<'static> {
    ColumnType::Native(native)
}

fn collection(typ: CollectionType<'static>, frozen: bool) -> ColumnType<'static> {
    ColumnType::Collection { frozen, typ }
}

fn list(element: ColumnType<'static>) -> CollectionType<'static> {
    CollectionType::List(Box::new(element))
}

fn set(element: ColumnType<'static>) -> CollectionType<'static> {
    CollectionType::Set(Box::new(element))
}

fn map(key: ColumnType<'static>, value: ColumnType<'static>) -> CollectionType<'static> {
    CollectionType::Map(Box::new(key), Box::new(value))
}

#[test]
fn the_driver_sees_the_node_with_its_id_and_the_address_it_connected_to() {
    with_server(|address| async move {
        let session = connect(address).await;
        let state = session.get_cluster_state();
        assert_eq!(state.cluster_name(), CLUSTER_NAME);
        let [node] = state.get_nodes_info() else {
            panic!("one node: {:?}", state.get_nodes_info());
        };
        assert_eq!(node.address.ip(), address.ip());
        assert_eq!(node.address.port(), address.port());
        assert_eq!(node.datacenter.as_deref(), Some("datacenter1"));
        let hosts: Vec<(Uuid,)> = rows(&session, "SELECT host_id FROM system.local").await;
        assert_eq!(hosts, [(node.host_id,)]);
    });
}

#[test]
fn the_driver_reads_keyspaces_types_tables_and_columns() {
    with_server(|address| async move {
        let schema = [
            "CREATE TYPE ks.address (street text, number int, phones frozen<set<text>>)",
            "CREATE TABLE ks.orders (customer text, region int, ordered timestamp, item tinyint, \
             note text STATIC, total decimal, tags set<text>, counts map<text, bigint>, \
             parts frozen<list<frozen<tuple<text, int>>>>, shipped address, \
             billed frozen<address>, PRIMARY KEY ((customer, region), ordered, item)) \
             WITH CLUSTERING ORDER BY (ordered DESC, item ASC)",
        ];
        let session = connect_with(address, &schema).await;
        let state = session.get_cluster_state();
        let keyspace = state.get_keyspace("ks").expect("the keyspace is known");
        let simple = Strategy::SimpleStrategy {
            replication_factor: 1,
        };
        assert_eq!(keyspace.strategy, simple);
        assert!(keyspace.durable_writes && !keyspace.tablet_based);

        let text = || native(NativeType::Text);
        let definition = Arc::new(UserDefinedType {
            name: "address".into(),
            keyspace: "ks".into(),
            field_types: vec![
                ("street".into(), text()),
                ("number".into(), native(NativeType::Int)),
                ("phones".into(), collection(set(text()), true)),
            ],
        });
        assert_eq!(keyspace.user_defined_types["address"], definition);
        let user_type = |frozen| ColumnType::UserDefinedType {
            frozen,
            definition: definition.clone(),
        };

        let table = &keyspace.tables["orders"];
        assert_eq!(table.partition_key, ["customer", "region"]);
        assert_eq!(table.clustering_key, ["ordered", "item"]);
        let pair = ColumnType::Tuple(vec![text(), native(NativeType::Int)]);
        let counts = map(text(), native(NativeType::BigInt));
        let expected = [
            ("customer", ColumnKind::PartitionKey, text()),
            ("region", ColumnKind::PartitionKey, native(NativeType::Int)),
            (
                "ordered",
                ColumnKind::Clustering,
                native(NativeType::Timestamp),
            ),
            ("item", ColumnKind::Clustering, native(NativeType::TinyInt)),
            ("note", ColumnKind::Static, text()),
            ("total", ColumnKind::Regular, native(NativeType::Decimal)),
            ("tags", ColumnKind::Regular, collection(set(text()), false)),
            ("counts", ColumnKind::Regular, collection(counts, false)),
            ("parts", ColumnKind::Regular, collection(list(pair), true)),
            ("shipped", ColumnKind::Regular, user_type(false)),
            ("billed", ColumnKind::Regular, user_type(true)),
        ];
        assert_eq!(table.columns.len(), expected.len());
        for (name, kind, typ) in expected {
            let column = table.columns.get(name);
            let column = column.unwrap_or_else(|| panic!("{name} is known"));
            assert_eq!((&column.kind, &column.typ), (&kind, &typ), "{name}");
        }
    });
}

/// Returns the table `ks.t` in the metadata of a session.
fn table(state: &ClusterState) -> Option<&Table> {
    state.get_keyspace("ks")?.tables.get("t")
}

/// Waits until the metadata of `session` meets `condition`. Meanwhile the tasks of the driver read
/// the metadata.
fn wait_until(session: &Session, what: &str, condition: impl Fn(&ClusterState) -> bool) {
    tokio::task::block_in_place(|| {
        wait::until(what, || condition(&session.get_cluster_state()));
    });
}

/// The driver does not read the schema at an event, but at the next tick of its refresh. In the
/// mode `AffectedKeyspaces` a refresh reads only the keyspaces that events have named since the
/// last tick. So the interval is short, and without events the session would not see these changes.
#[test]
fn a_session_sees_the_schema_changes_of_another_session_by_events() {
    with_server(|address| async move {
        let other = connect_with(address, &[]).await;
        let session = builder(address)
            .periodic_metadata_fetch_mode(PeriodicFetchMode::AffectedKeyspaces)
            .cluster_metadata_refresh_interval(Duration::from_millis(20))
            .build()
            .await
            .expect("the driver connects");
        let state = session.get_cluster_state();
        assert!(state.get_keyspace("ks").is_some() && table(&state).is_none());

        run(&other, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)").await;
        wait_until(&session, "the new table", |state| {
            table(state).is_some_and(|table| table.columns.len() == 2)
        });
        run(&other, "ALTER TABLE ks.t ADD added text").await;
        wait_until(&session, "the new column", |state| {
            table(state).is_some_and(|table| table.columns.contains_key("added"))
        });
        run(&other, "CREATE TYPE ks.pair (x int, y int)").await;
        wait_until(&session, "the new type", |state| {
            let keyspace = state.get_keyspace("ks");
            keyspace.is_some_and(|keyspace| keyspace.user_defined_types.contains_key("pair"))
        });
        run(&other, "DROP TABLE ks.t").await;
        wait_until(&session, "the end of the table", |state| {
            table(state).is_none()
        });
        run(&other, "DROP KEYSPACE ks").await;
        wait_until(&session, "the end of the keyspace", |state| {
            state.get_keyspace("ks").is_none()
        });
        run(&other, KEYSPACE).await;
        wait_until(&session, "the new keyspace", |state| {
            state.get_keyspace("ks").is_some()
        });
    });
}

#[test]
fn prepared_statements_are_routed_by_the_token_that_the_server_computes() {
    with_server(|address| async move {
        let visits = "CREATE TABLE ks.visits (site text, day int, seconds bigint, \
                      PRIMARY KEY ((site, day), seconds))";
        let session = connect_with(address, &[visits]).await;
        // The markers come in another order than the columns of the partition key.
        let insert = "INSERT INTO ks.visits (seconds, day, site) VALUES (?, ?, ?)";
        let insert = prepare(&session, insert).await;
        let markers: Vec<_> = insert
            .get_variable_col_specs()
            .iter()
            .map(|spec| (spec.name(), spec.typ().clone()))
            .collect();
        let expected = [
            ("seconds", native(NativeType::BigInt)),
            ("day", native(NativeType::Int)),
            ("site", native(NativeType::Text)),
        ];
        assert_eq!(markers, expected);
        assert!(insert.is_token_aware());
        let mut key: Vec<_> = insert
            .get_variable_pk_indexes()
            .iter()
            .map(|marker| (marker.sequence, marker.index))
            .collect();
        key.sort_unstable();
        assert_eq!(key, [(0, 2), (1, 1)]);
        let of_one_site = "SELECT seconds FROM ks.visits WHERE site = 'home' AND day = ?";
        assert!(!prepare(&session, of_one_site).await.is_token_aware());

        let select = "SELECT token(site, day), seconds FROM ks.visits WHERE site = ? AND day = ?";
        let select = prepare(&session, select).await;
        let state = session.get_cluster_state();
        let node = state.get_nodes_info()[0].host_id;
        for (site, day) in [("home", 1), ("about", -7), ("größer", i32::MAX)] {
            let values = (5_i64, day, site);
            write(&session, &insert, values).await;
            let token = insert.calculate_token(&values).expect("the key is bound");
            let token = token.expect("the statement is token-aware");
            let found: Vec<(i64, i64)> = all_rows(&read(&session, &select, (site, day)).await);
            assert_eq!(found, [(token.value(), 5)], "{site}, {day}");
            // Computed from the metadata of the table instead of the statement's.
            let of_table = state.compute_token("ks", "visits", &(site, day));
            assert_eq!(of_table.expect("the table is known"), token);
            let replicas = state.get_endpoints("ks", "visits", &(site, day));
            let replicas = replicas.expect("the table is known");
            let replicas: Vec<Uuid> = replicas.iter().map(|(node, _)| node.host_id).collect();
            assert_eq!(replicas, [node], "{site}, {day}");
        }
    });
}
