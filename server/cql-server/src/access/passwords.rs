//! Hashes of passwords, and which passwords were verified before.
//!
//! A hash is argon2id (RFC 9106) with 19 MiB and two passes, as OWASP advises, written as a
//! PHC string. That takes some 20 ms of a core, which a pool of connections asks for hundreds
//! of times at once; so what was verified is remembered for a while, by a keyed hash of the
//! stored hash and the password, with a key that this process has drawn. The password is not
//! kept. A role whose password changes has another stored hash, so what was remembered never
//! matches again.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params};
use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};

/// Passwords that are remembered; the oldest go first.
const REMEMBERED: usize = 1024;
/// The most that a hash of somebody else's making may cost, in KiB, passes and lanes.
const MEMORY_KIB_MAX: u32 = 64 << 10;
const PASSES_MAX: u32 = 10;
const LANES_MAX: u32 = 4;

pub(super) struct Passwords {
    key: [u8; 32],
    /// For a role that is not there: verifying it takes as long as for one that is.
    nobodys: String,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    all: HashSet<[u8; 32]>,
    oldest: VecDeque<[u8; 32]>,
}

/// The hash to store of a password, with a salt that was drawn.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn hash(password: &str) -> Result<String, String> {
    let hashed = Argon2::default().hash_password(password.as_bytes());
    hashed
        .map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

/// Whether a text is a hash that can be verified, and costs no more than it should.
pub(super) fn is_hash(text: &str) -> bool {
    let Ok(parsed) = PasswordHash::new(text) else {
        return false;
    };
    let Ok(params) = Params::try_from(&parsed) else {
        return false;
    };
    parsed.algorithm == Algorithm::Argon2id.ident()
        && parsed.salt.is_some()
        && parsed.hash.is_some()
        && params.m_cost() <= MEMORY_KIB_MAX
        && params.t_cost() <= PASSES_MAX
        && params.p_cost() <= LANES_MAX
}

impl Passwords {
    /// With a key that is drawn.
    pub(super) fn new() -> Self {
        Self {
            key: rand::random(),
            nobodys: hash("").expect("an empty text can be hashed"),
            remembered: Mutex::default(),
        }
    }

    /// Whether a password was verified by this hash before, and is still remembered.
    pub(super) fn is_remembered(&self, stored: &str, password: &[u8]) -> bool {
        let mark = self.mark(stored, password);
        self.remembered().all.contains(&mark)
    }

    /// Whether a password is the one of this hash, or no password where there is none: both
    /// take as long. Some tens of milliseconds.
    pub(super) fn verify(&self, stored: Option<&str>, password: &[u8]) -> bool {
        let parsed = PasswordHash::new(stored.unwrap_or(&self.nobodys));
        let verified =
            parsed.is_ok_and(|parsed| Argon2::default().verify_password(password, &parsed).is_ok());
        let Some(stored) = stored.filter(|_| verified) else {
            return false;
        };
        let mark = self.mark(stored, password);
        let mut remembered = self.remembered();
        if remembered.all.insert(mark) {
            remembered.oldest.push_back(mark);
        }
        if remembered.oldest.len() > REMEMBERED
            && let Some(oldest) = remembered.oldest.pop_front()
        {
            remembered.all.remove(&oldest);
        }
        true
    }

    fn mark(&self, stored: &str, password: &[u8]) -> [u8; 32] {
        let mut mac = Blake2sMac256::new(&self.key.into());
        // A hash has no zero byte.
        mac.update(stored.as_bytes());
        mac.update(&[0]);
        mac.update(password);
        mac.finalize().into_bytes().into()
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_by_its_hash_and_remembered_by_that_hash_only() {
        let passwords = Passwords::new();
        let [first, second] = [(); 2].map(|()| hash("geheim").unwrap());
        assert_ne!(first, second, "each has its salt");
        assert!(is_hash(&first));
        assert!(!passwords.verify(Some(&first), b"Geheim"));
        assert!(!passwords.is_remembered(&first, b"Geheim"));
        assert!(passwords.verify(Some(&first), b"geheim"));
        assert!(passwords.is_remembered(&first, b"geheim"));
        assert!(!passwords.is_remembered(&first, b"Geheim"));
        assert!(!passwords.is_remembered(&second, b"geheim"));
        assert!(!passwords.verify(None, b"geheim"));
        assert!(!passwords.verify(None, b""), "nobody has the empty one");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let passwords = Passwords::new();
        let stored = hash("x").unwrap();
        for number in 0..REMEMBERED + 2 {
            let mark = passwords.mark(&stored, &number.to_be_bytes());
            let mut remembered = passwords.remembered();
            remembered.all.insert(mark);
            remembered.oldest.push_back(mark);
        }
        passwords.verify(Some(&stored), b"x");
        let remembered = passwords.remembered();
        assert_eq!(remembered.all.len(), remembered.oldest.len());
        assert!(
            !remembered
                .all
                .contains(&passwords.mark(&stored, &0_usize.to_be_bytes()))
        );
    }

    #[test]
    fn hashes_that_are_none_or_cost_too_much_are_refused() {
        let of = |params: &str| {
            format!(
                "$argon2id$v=19${params}$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            )
        };
        assert!(is_hash(&of("m=19456,t=2,p=1")));
        for refused in [
            String::new(),
            "$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG".into(),
            of("m=1048576,t=2,p=1"),
            of("m=19456,t=11,p=1"),
            of("m=19456,t=2,p=5"),
            of("m=19456,t=2,p=1").replace("argon2id", "argon2i"),
            "$argon2id$v=19$m=19456,t=2,p=1".into(),
        ] {
            assert!(!is_hash(&refused), "{refused}");
        }
    }
}
