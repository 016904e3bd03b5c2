//! How many connections come from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections that are open, by the address that they come from.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// Of one address; none where that is not bounded.
    connections_max: Option<usize>,
}

/// A connection of an address, until this is dropped.
#[derive(Debug)]
pub(super) struct Place(Option<(Addresses, IpAddr)>);

impl Addresses {
    pub(super) fn new(connections_max: Option<usize>) -> Self {
        Self {
            counts: Arc::default(),
            connections_max,
        }
    }

    /// Counts one more; none where that would be too many.
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
        // A count is whole whenever it can be seen.
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
    fn an_address_has_so_many_places_and_leaves_nothing_behind() {
        let addresses = Addresses::new(Some(2));
        let one: IpAddr = [10, 0, 0, 1].into();
        let first = addresses.enter(one).unwrap();
        // The same address, as a socket of version 6 shows it.
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
