//! A limit on the connections from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers of open connections, by the address of the client.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// The most connections of one address; `None` for no limit.
    connections_max: Option<usize>,
}

/// The entry of an open connection in the count of its address. When this is dropped, the
/// connection no longer counts.
#[derive(Debug)]
pub(super) struct Place(Option<(Addresses, IpAddr)>);

impl Addresses {
    pub(super) fn new(connections_max: Option<usize>) -> Self {
        Self {
            counts: Arc::default(),
            connections_max,
        }
    }

    /// Counts another connection of `address`. Returns `None` if the connection would exceed the
    /// limit.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Place> {
        let Some(connections_max) = self.connections_max else {
            return Some(Place(None));
        };
        let address = address.to_canonical();
        let mut counts = self.lock();
        let count = counts.entry(address).or_default();
        if *count >= connections_max {
            return None;
        }
        *count += 1;
        Some(Place(Some((self.clone(), address))))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Each update is a single step, so a panic leaves no count half updated.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((addresses, address)) = &self.0 {
            let mut counts = addresses.lock();
            match counts.get_mut(address) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(counts.remove(address)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_an_address_are_limited_and_leave_no_entry_behind() {
        let addresses = Addresses::new(Some(2));
        let one: IpAddr = [10, 0, 0, 1].into();
        let first = addresses.enter(one).unwrap();
        // The same address, as an IPv6 socket reports it.
        let second = addresses.enter("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(addresses.enter(one).is_none());
        let other = addresses.enter([10, 0, 0, 2].into()).unwrap();
        drop(first);
        let third = addresses.enter(one).unwrap();
        assert!(addresses.enter(one).is_none());
        drop((second, third, other));
        assert!(addresses.lock().is_empty());
    }
}
