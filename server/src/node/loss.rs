//! The acceptance of a loss: damaged files of a table are rewritten without the parts that cannot be read.

use ebb_jobs::JobError;
use ebb_storage::LossReport;
use ebb_tables::Catalog;

use super::Node;

impl Node {
    /// Rewrites the damaged files of the store's table `keyspace.table`, as
    /// [`Db::rewrite_damaged`](ebb_storage::Db::rewrite_damaged) does, on the calling thread. Before that,
    /// writes again those records of the schema and the roles that are in this table. Afterwards, does what
    /// [`reread_catalog`](Self::reread_catalog) does. Indexes that are being built begin anew.
    ///
    /// # Errors
    /// Fails when [`Db::rewrite_damaged`](ebb_storage::Db::rewrite_damaged) or
    /// [`Catalog::write_before_loss`] does, or when the node has no database. Files that were rewritten
    /// before the error stay rewritten.
    pub fn accept_loss(
        &self,
        keyspace: &str,
        table: &str,
        token: &str,
    ) -> Result<Option<LossReport>, JobError> {
        let db = self.database("a repair")?;
        let catalog = self.opened_catalog();
        let _under_way = catalog.as_deref().map(Catalog::begin_loss);
        if let Some(catalog) = &catalog {
            // Otherwise a crash during the rewrite could lose records that the catalog has in memory.
            catalog.write_before_loss(keyspace, table)?;
        }
        let report = db.rewrite_damaged(keyspace, table, token);
        // Also after an error: some of the files may have been rewritten.
        self.reread_catalog();
        Ok(report?)
    }
}

#[cfg(test)]
mod tests {
    use ebb_storage::{Options, TableOptions};

    use super::*;
    use crate::node::NodeOptions;

    /// An attempt at the build of an index, which may run for hours, goes by this count.
    #[test]
    fn each_acceptance_is_counted_also_one_that_fails() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(dir.path(), Options::default(), NodeOptions::for_tests()).unwrap();
        let app = node.db().unwrap().keyspace("app").unwrap();
        app.table("words", TableOptions::default()).unwrap();
        let catalog = node.catalog().unwrap();
        assert_eq!(catalog.losses(), Some(0));
        let report = node.accept_loss("app", "words", "").unwrap().unwrap();
        assert!(report.files.is_empty());
        assert_eq!(catalog.losses(), Some(1));
        assert!(node.accept_loss("app", "nothing", "").is_err());
        assert_eq!(catalog.losses(), Some(2));
    }
}
