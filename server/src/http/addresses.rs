//! Limits on connections, so that clients without a token cannot keep others out.
//!
//! Any process on the machine can connect, without a token. So a new connection beyond the limit of its address
//! takes the place of the oldest connection of the address over which no valid credential has come. One client
//! may have many addresses: a connection that gets the last place of the port takes that of the oldest such
//! connection of all addresses. A client with a token shows it with its first request, and keeps its connection
//! from then on. Clients that open many connections and send nothing over them close only each other's.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The open connections of a port. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    /// The connections, the oldest first.
    open: Arc<Mutex<Vec<Admission>>>,
    /// The most connections of the port.
    port_max: usize,
    /// The most connections of one address, at least 1.
    address_max: usize,
}

/// The admission of one connection. Clones stand for the same connection.
#[derive(Debug, Clone)]
pub(super) struct Admission(Arc<AdmissionState>);

#[derive(Debug)]
struct AdmissionState {
    /// The address that counts for the client.
    address: IpAddr,
    /// True once a request with a valid credential has come over the connection.
    has_credential: AtomicBool,
    /// Has a permit once another connection takes the place of this one.
    displaced: Notify,
}

impl Admission {
    fn of(address: IpAddr) -> Self {
        Self(Arc::new(AdmissionState {
            address,
            has_credential: AtomicBool::new(false),
            displaced: Notify::new(),
        }))
    }

    /// Notes that a request with a valid credential came over the connection, which then keeps its place.
    pub(super) fn note_credential(&self) {
        self.0.has_credential.store(true, Ordering::Relaxed);
    }

    fn has_credential(&self) -> bool {
        self.0.has_credential.load(Ordering::Relaxed)
    }
}

/// The place of an open connection among those of the port. When this is dropped, the connection no longer
/// counts.
#[derive(Debug)]
pub(super) struct Place {
    addresses: Addresses,
    admission: Admission,
}

impl Addresses {
    /// Creates the limits of a port with at most `port_max` connections: three quarters of them, and at least
    /// one, for each address. A proxy or the machine itself may have most clients, so the share is large.
    pub(super) fn of(port_max: u32) -> Self {
        let port_max = port_max as usize;
        Self {
            open: Arc::default(),
            port_max,
            address_max: (port_max * 3 / 4).max(1),
        }
    }

    /// Counts another connection of `address`. If it exceeds the limit of the address, or gets the last place
    /// of the port, displaces the oldest connection without a credential, of the address or of all. Returns
    /// `None` if the address has its limit of connections with a credential.
    ///
    /// The last place is kept free because the next client is only accepted while there is one.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Place> {
        let address = counted_as(address);
        let mut open = self.lock();
        let of_address = open.iter().filter(|other| other.0.address == address);
        let is_over = of_address.count() >= self.address_max;
        if is_over || open.len() + 1 >= self.port_max {
            let is_displaced = |other: &Admission| {
                !other.has_credential() && (!is_over || other.0.address == address)
            };
            match open.iter().position(is_displaced) {
                Some(oldest) => open.remove(oldest).0.displaced.notify_one(),
                None if is_over => return None,
                None => {}
            }
        }
        let admission = Admission::of(address);
        open.push(admission.clone());
        drop(open);
        Some(Place {
            addresses: self.clone(),
            admission,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Admission>> {
        // Each update is a single step, so a panic leaves no list half updated.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address that counts for a client. Each process of the machine can connect from any loopback
/// address, so all of these count as one.
fn counted_as(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    if address.is_loopback() {
        Ipv4Addr::LOCALHOST.into()
    } else {
        address
    }
}

impl Place {
    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Waits until another connection takes this place.
    pub(super) async fn displaced(&self) {
        self.admission.0.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A displaced connection is in the list no more.
        let is_other = |other: &Admission| !Arc::ptr_eq(&other.0, &self.admission.0);
        self.addresses.lock().retain(is_other);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Returns limits of `port_max` connections, and of `address_max` for each address.
    fn limits(port_max: usize, address_max: usize) -> Addresses {
        Addresses {
            open: Arc::default(),
            port_max,
            address_max,
        }
    }

    fn enter(addresses: &Addresses, address: &str) -> Option<Place> {
        addresses.enter(address.parse().unwrap())
    }

    /// Enters a connection over which a valid credential comes.
    fn enter_with_credential(addresses: &Addresses, address: &str) -> Place {
        let place = enter(addresses, address).unwrap();
        place.admission().note_credential();
        place
    }

    fn is_displaced(place: &Place) -> bool {
        place.displaced().now_or_never().is_some()
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_oldest_of_its_address_without_a_credential() {
        let addresses = limits(100, 3);
        let other = enter(&addresses, "10.0.0.2").unwrap();
        let first = enter_with_credential(&addresses, "10.0.0.1");
        // The same address, as an IPv6 socket reports it.
        let second = enter(&addresses, "::ffff:10.0.0.1").unwrap();
        let third = enter(&addresses, "10.0.0.1").unwrap();
        let fourth = enter(&addresses, "10.0.0.1").unwrap();
        let displaced = [&other, &first, &second, &third, &fourth].map(is_displaced);
        assert_eq!(displaced, [false, false, true, false, false]);
        for place in [&third, &fourth] {
            place.admission().note_credential();
        }
        let refused = enter(&addresses, "10.0.0.1");
        assert!(refused.is_none(), "all have a credential");
        // The displaced connection ends only now, and leaves the others their places.
        drop(second);
        assert!(enter(&addresses, "10.0.0.1").is_none());
        drop(third);
        let fifth = enter(&addresses, "10.0.0.1").unwrap();
        drop((first, fourth, fifth, other));
        assert!(addresses.lock().is_empty());
    }

    #[test]
    fn clients_of_many_addresses_leave_the_last_place_of_the_port_free() {
        let addresses = limits(4, 4);
        let first = enter_with_credential(&addresses, "10.0.0.1");
        let [second, third] = ["10.0.0.2", "10.0.0.3"].map(|from| enter(&addresses, from).unwrap());
        assert!(![&first, &second, &third].into_iter().any(is_displaced));
        let fourth = enter_with_credential(&addresses, "10.0.0.4");
        let displaced = [&first, &second, &third, &fourth].map(is_displaced);
        assert_eq!(displaced, [false, true, false, false]);
        third.admission().note_credential();
        // Clients with a credential may have the last place, too: further ones wait to be accepted.
        let fifth = enter_with_credential(&addresses, "10.0.0.5");
        assert!(
            ![&first, &third, &fourth, &fifth]
                .into_iter()
                .any(is_displaced)
        );
    }

    #[test]
    fn all_loopback_addresses_count_as_one() {
        let addresses = limits(100, 3);
        let local = ["127.0.0.1", "127.0.0.2", "::1"];
        let places = local.map(|from| enter_with_credential(&addresses, from));
        assert!(enter(&addresses, "127.9.9.9").is_none());
        drop(places);
        assert!(enter(&addresses, "127.9.9.9").is_some());
    }

    #[test]
    fn a_port_for_few_connections_serves_every_address() {
        for (port_max, of_address) in [(1, 1), (2, 1), (4, 3), (512, 384)] {
            assert_eq!(Addresses::of(port_max).address_max, of_address);
        }
    }
}
