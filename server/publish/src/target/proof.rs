//! The proof that a target refuses to create a name twice.

use bytes::Bytes;
use object_store::ObjectStore as _;
use object_store::path::Path;

use super::{Result, Target, TargetError};

/// The greatest number of attempts to prove that a target refuses to create a name twice. Each publisher that
/// begins at the same time may make one attempt fail.
const PROOF_ATTEMPTS: usize = 10;

/// The folder of ebb's own objects, which lies outside of all tables.
const OWN: &str = "_ebb";

/// The prefix of the names, in [`OWN`], of the objects by which a target proves that it creates a name only
/// once.
const PROBE: &str = "probe-";

impl Target {
    /// Proves that the target refuses to create a name twice, and removes the probes (objects for this proof)
    /// that killed publishers have left. `unique` becomes part of the probe's name; no other publisher may
    /// use the same text.
    ///
    /// Nothing shows whether the publisher of another probe is still at work: a probe belongs to no version
    /// of a table, and clocks of servers and of this machine may differ too much to compare ages. So each
    /// publisher removes all probes, and another one may remove the probe of this call. Then the second
    /// creation succeeds, as on a target that never refuses, and the proof begins anew.
    ///
    /// # Errors
    /// If the target does not refuse, or if it cannot be written.
    pub fn check_creates_once(&self, unique: &str) -> Result<()> {
        let name = format!("{OWN}/{PROBE}{unique}");
        let mut attempt = 1;
        loop {
            let is_last = attempt == PROOF_ATTEMPTS;
            match self.refuses_second(&name) {
                Ok(true) => return self.remove_probes(),
                Ok(false) if is_last => return Err(TargetError::CreatesTwice(self.url.clone())),
                // In a folder, another publisher may also remove the file in which the store collects the
                // probe: the creation fails.
                Err(error) if is_last || self.folder.is_none() => return Err(error),
                _ => attempt += 1,
            }
        }
    }

    /// Creates an object twice, with different bytes, and removes it. Returns whether the first creation
    /// succeeded and the second one was refused.
    fn refuses_second(&self, name: &str) -> Result<bool> {
        let first = self.create(name, Bytes::from_static(b"a"))?;
        let second = self.create(name, Bytes::from_static(b"b"));
        self.remove(name)?;
        Ok(first && !second?)
    }

    /// Removes all probes, complete or not, of any publisher.
    fn remove_probes(&self) -> Result<()> {
        let path = Path::from(OWN);
        let listed = self.store.list_with_delimiter(Some(&path));
        let listed = self.runtime.block_on(listed);
        let listed = listed.map_err(|error| self.failed("listing", OWN, &error))?;
        let is_probe = |name: &str| name.starts_with(PROBE);
        for object in listed.objects {
            if object.location.filename().is_some_and(is_probe) {
                self.remove(object.location.as_ref())?;
            }
        }
        self.remove_unfinished(OWN, is_probe).map(drop)
    }
}
