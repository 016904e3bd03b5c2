//! Rust's scylla driver: metadata, prepared statements, batches, paging.

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::batch::{Batch, BatchType};

const ROWS: i32 = 10_000;

#[tokio::main]
async fn main() -> Result<()> {
    let (host, port) = (std::env::var("CQL_HOST")?, std::env::var("CQL_PORT")?);
    let session = SessionBuilder::new().known_node(format!("{host}:{port}")).build().await?;
    let schema = [
        "DROP KEYSPACE IF EXISTS rust",
        "CREATE KEYSPACE rust WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE rust.numbers (half int, number int, name text, PRIMARY KEY (half, number))",
    ];
    for statement in schema {
        session.query_unpaged(statement, &[]).await.context(statement)?;
    }
    session.await_schema_agreement().await?;
    session.refresh_metadata().await?;
    // The driver goes on without metadata, so that it has some is to be looked at.
    let state = session.get_cluster_state();
    let table = state.get_keyspace("rust").and_then(|keyspace| keyspace.tables.get("numbers"));
    let table = table.context("the driver knows the table")?;
    ensure!(table.partition_key == ["half"] && table.clustering_key == ["number"]);

    let insert = "INSERT INTO rust.numbers (half, number, name) VALUES (?, ?, ?)";
    let insert = session.prepare(insert).await?;
    ensure!(insert.is_token_aware(), "the server names the partition key's markers");
    for from in (0..ROWS).step_by(100) {
        let mut batch = Batch::new(BatchType::Unlogged);
        let mut values = Vec::new();
        for number in from..from + 100 {
            batch.append_statement(insert.clone());
            values.push((number % 2, number, format!("number {number}")));
        }
        session.batch(&batch, values).await?;
    }
    let mut select = session
        .prepare("SELECT number, name FROM rust.numbers WHERE half = ?")
        .await?;
    select.set_page_size(777);
    let rows = session.execute_iter(select, (1,)).await?;
    let rows: Vec<(i32, String)> = rows.rows_stream()?.try_collect().await?;
    ensure!(rows.len() as i32 == ROWS / 2, "{} rows", rows.len());
    for (at, (number, name)) in (0..).zip(&rows) {
        ensure!(*number == 2 * at + 1 && *name == format!("number {number}"));
    }
    println!("Rust scylla: {ROWS} rows: passed");
    Ok(())
}
