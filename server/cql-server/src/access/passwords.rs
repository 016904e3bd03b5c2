//! Hashes of passwords, and a cache of verified passwords.
//!
//! A hash is argon2id (RFC 9106) with 19 MiB and two passes, as OWASP recommends, in the form of a
//! PHC string. Verifying one takes about 20 ms of CPU time, and a pool opens hundreds of
//! connections at once. So the cache keeps verified pairs of a stored hash and a password, as a MAC
//! over both with a random key of this process; it never keeps the password. A new password of a
//! role changes the stored hash, so that older entries match no more.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params};
use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};

/// The number of entries of the cache of verified passwords. A new entry replaces the oldest one.
const CACHE_ENTRIES: usize = 1024;
/// The most memory, in KiB, that a hash from HASHED PASSWORD (in CREATE or ALTER ROLE) may take.
/// The server needs as much to verify a login of the role.
const MEMORY_KIB_MAX: u32 = 64 << 10;
/// The most passes over its memory (argon2's time cost) that a hash from HASHED PASSWORD may need.
const PASSES_MAX: u32 = 10;
/// The most lanes (argon2's parallelism) of a hash from HASHED PASSWORD: the parts of its memory
/// that can be computed at once.
const LANES_MAX: u32 = 4;

pub(super) struct Passwords {
    key: [u8; 32],
    /// The hash that is verified if a role does not exist or has no password, so that the
    /// verification takes as long as for other roles.
    missing_role: String,
    verified_cache: Mutex<VerifiedCache>,
}

#[derive(Default)]
struct VerifiedCache {
    all: HashSet<[u8; 32]>,
    oldest: VecDeque<[u8; 32]>,
}

/// Hashes a password with a random salt.
///
/// # Errors
/// A message about the password, if it cannot be hashed.
pub(crate) fn hash(password: &str) -> Result<String, String> {
    let hashed = Argon2::default().hash_password(password.as_bytes());
    hashed
        .map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

/// Returns whether `text` is an argon2id hash within the cost limits.
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
    /// Creates an empty cache with a random key.
    pub(super) fn new() -> Self {
        Self {
            key: rand::random(),
            missing_role: hash("").expect("an empty text can be hashed"),
            verified_cache: Mutex::default(),
        }
    }

    /// Returns whether this password was verified against the stored hash recently.
    pub(super) fn is_cached(&self, stored: &str, password: &[u8]) -> bool {
        let mark = self.mark(stored, password);
        self.verified_cache().all.contains(&mark)
    }

    /// Verifies a password against a stored hash, and caches the pair if they match. Without a
    /// stored hash returns false, after an equally long computation. Takes tens of milliseconds.
    pub(super) fn verify(&self, stored: Option<&str>, password: &[u8]) -> bool {
        let parsed = PasswordHash::new(stored.unwrap_or(&self.missing_role));
        let verified =
            parsed.is_ok_and(|parsed| Argon2::default().verify_password(password, &parsed).is_ok());
        let Some(stored) = stored.filter(|_| verified) else {
            return false;
        };
        let mark = self.mark(stored, password);
        let mut verified_cache = self.verified_cache();
        if verified_cache.all.insert(mark) {
            verified_cache.oldest.push_back(mark);
        }
        if verified_cache.oldest.len() > CACHE_ENTRIES
            && let Some(oldest) = verified_cache.oldest.pop_front()
        {
            verified_cache.all.remove(&oldest);
        }
        true
    }

    fn mark(&self, stored: &str, password: &[u8]) -> [u8; 32] {
        let mut mac = Blake2sMac256::new(&self.key.into());
        // The separator is unambiguous: a PHC string has no zero byte.
        mac.update(stored.as_bytes());
        mac.update(&[0]);
        mac.update(password);
        mac.finalize().into_bytes().into()
    }

    fn verified_cache(&self) -> std::sync::MutexGuard<'_, VerifiedCache> {
        self.verified_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verified_password_is_cached_for_its_hash_only() {
        let passwords = Passwords::new();
        let [first, second] = [(); 2].map(|()| hash("geheim").unwrap());
        assert_ne!(first, second, "each has its salt");
        assert!(is_hash(&first));
        assert!(!passwords.verify(Some(&first), b"Geheim"));
        assert!(!passwords.is_cached(&first, b"Geheim"));
        assert!(passwords.verify(Some(&first), b"geheim"));
        assert!(passwords.is_cached(&first, b"geheim"));
        assert!(!passwords.is_cached(&first, b"Geheim"));
        assert!(!passwords.is_cached(&second, b"geheim"));
        assert!(!passwords.verify(None, b"geheim"));
        assert!(!passwords.verify(None, b""), "nobody has the empty one");
    }

    #[test]
    fn the_cache_of_verified_passwords_is_bounded() {
        let passwords = Passwords::new();
        let stored = hash("x").unwrap();
        for number in 0..CACHE_ENTRIES + 2 {
            let mark = passwords.mark(&stored, &number.to_be_bytes());
            let mut verified_cache = passwords.verified_cache();
            verified_cache.all.insert(mark);
            verified_cache.oldest.push_back(mark);
        }
        passwords.verify(Some(&stored), b"x");
        let verified_cache = passwords.verified_cache();
        assert_eq!(verified_cache.all.len(), verified_cache.oldest.len());
        assert!(
            !verified_cache
                .all
                .contains(&passwords.mark(&stored, &0_usize.to_be_bytes()))
        );
    }

    #[test]
    fn malformed_and_too_costly_hashes_are_rejected() {
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
