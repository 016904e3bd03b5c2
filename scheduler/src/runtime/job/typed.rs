//! Jobs over typed keys and values: a thin layer on the bytes that all other parts of the runtime
//! use.
//!
//! The bytes of encoded keys are in the order of the keys: a reduce gets numbers in numerical
//! order, and tuples by their first element, then the second. A key may have any type that
//! implements [`storekey::Encode`]: integers, floats, `bool`, `char`, strings, options, vectors and
//! tuples. A value may have any type that serde serialises. Input records and the rows that a
//! reducer emits are bytes: inputs and outputs have formats of their own.
//!
//! ```
//! use ebb_scheduler::runtime::typed::{self, Pairs, TypedValues};
//! use ebb_scheduler::runtime::{Emit, Runtime, RuntimeOptions, VecInput, VecOutput};
//! use std::sync::Arc;
//!
//! // The number of words of each length, the shortest first.
//! let input = Arc::new(VecInput::lines("a snapshot is a bookmark\nin a sequence", 2));
//! let output = VecOutput::new();
//! let job = typed::map("lengths", input, |_, line, emit: &mut Pairs<'_, u32, u64>| {
//!     for word in line.split(u8::is_ascii_whitespace) {
//!         emit.emit(&(word.len() as u32), &1)?;
//!     }
//!     Ok(())
//! })
//! .combine(|a, b| a + b)
//! .reduce(2, |length, counts: &mut TypedValues<'_, '_, u64>, emit: &mut dyn Emit| {
//!     let total: u64 = counts.sum::<Result<_, _>>()?;
//!     emit.emit(length.to_string().as_bytes(), total.to_string().as_bytes())
//! })
//! .output(Arc::new(output.clone()))
//! .globally_sorted();
//!
//! let runtime = Runtime::start(RuntimeOptions::new(2))?;
//! let _ = runtime.submit(job)?.wait();
//! let rows = output.rows().expect("it succeeded");
//! let text = |(length, n)| [length, n].map(|bytes| String::from_utf8(bytes).unwrap());
//! let rows: Vec<_> = rows.into_iter().map(text).collect();
//! assert_eq!(rows, [["1", "3"], ["2", "2"], ["8", "3"]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::functions::{Emit, Mapper, Reducer};
use super::input::Input;
use super::output::Output;
use super::spec::JobSpec;
use crate::runtime::error::TaskError;
use crate::runtime::shuffle::sorted::Values;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;
use storekey::{Decode, Encode};

/// Starts the description of a job whose maps emit keys `K` and values `V`. `mapper` is called with
/// the key and value of each record.
pub fn map<K, V, F>(name: impl Into<String>, input: Arc<dyn Input>, mapper: F) -> Mapped<K, V>
where
    K: 'static,
    V: 'static,
    F: Fn(&[u8], &[u8], &mut Pairs<'_, K, V>) -> Result<(), TaskError> + Send + Sync + 'static,
{
    Mapped {
        name: name.into(),
        input,
        mapper: Arc::new(TypedMapper {
            mapper,
            types: PhantomData::<fn(K, V)>,
        }),
        combiner: None,
        types: PhantomData,
    }
}

/// A job that has a mapper and still needs a reducer.
#[must_use]
pub struct Mapped<K, V> {
    name: String,
    input: Arc<dyn Input>,
    mapper: Arc<dyn Mapper>,
    combiner: Option<Arc<dyn Reducer>>,
    types: PhantomData<fn(K, V)>,
}

impl<K, V> Mapped<K, V>
where
    K: Decode + 'static,
    V: Serialize + DeserializeOwned + 'static,
{
    /// Combines two values of a key into one, wherever they meet before the reduce. The result must
    /// not depend on the grouping or the order of the values.
    pub fn combine(mut self, combine: impl Fn(V, V) -> V + Send + Sync + 'static) -> Self {
        let combiner = move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
            let mut values = TypedValues::new(values);
            let mut combined: Option<V> = None;
            while let Some(value) = values.next().transpose()? {
                combined = Some(match combined {
                    Some(before) => combine(before, value),
                    None => value,
                });
            }
            match combined {
                Some(value) => emit.emit(key, &encode_value(&value, Vec::new())?),
                None => Ok(()),
            }
        };
        self.combiner = Some(Arc::new(combiner));
        self
    }

    /// Adds a reducer that runs in `reduces` tasks. It is called with each key and its values, and
    /// emits rows.
    pub fn reduce<F>(self, reduces: u32, reducer: F) -> Reduced
    where
        F: Fn(K, &mut TypedValues<'_, '_, V>, &mut dyn Emit) -> Result<(), TaskError>
            + Send
            + Sync
            + 'static,
    {
        let reducer = move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
            reducer(decode_key(key)?, &mut TypedValues::new(values), emit)
        };
        Reduced {
            name: self.name,
            input: self.input,
            mapper: self.mapper,
            combiner: self.combiner,
            reducer: Arc::new(reducer),
            reduces,
        }
    }
}

/// A job that still needs an output.
#[must_use]
pub struct Reduced {
    name: String,
    input: Arc<dyn Input>,
    mapper: Arc<dyn Mapper>,
    combiner: Option<Arc<dyn Reducer>>,
    reducer: Arc<dyn Reducer>,
    reduces: u32,
}

impl Reduced {
    /// Adds the output and returns the job.
    #[must_use]
    pub fn output(self, output: Arc<dyn Output>) -> JobSpec {
        let spec = JobSpec::new(self.name, self.input, self.mapper, output);
        JobSpec {
            combiner: self.combiner,
            ..spec.reducer(self.reducer, self.reduces)
        }
    }
}

/// The sink of a mapper's pairs.
pub struct Pairs<'a, K, V> {
    emit: &'a mut dyn Emit,
    types: PhantomData<fn(K, V)>,
}

impl<K, V> Pairs<'_, K, V> {
    /// Emits a pair; either part may be borrowed, as `str` for `String`.
    ///
    /// # Errors
    /// As [`Emit::emit`], and if a part cannot be encoded; return the error to the caller.
    pub fn emit<Q, W>(&mut self, key: &Q, value: &W) -> Result<(), TaskError>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
        Q: Encode + ?Sized,
        W: Serialize + ?Sized,
    {
        let key = encode_key(key)?;
        let value = encode_value(value, Vec::new())?;
        self.emit.emit(&key, &value)
    }

    /// As [`Emit::checkpoint`].
    ///
    /// # Errors
    /// If the job is cancelled; return the error to the caller.
    pub fn checkpoint(&mut self) -> Result<(), TaskError> {
        self.emit.checkpoint()
    }
}

/// The values of one key, one at a time. An error ends the task: return it to the caller.
pub struct TypedValues<'v, 's, V> {
    values: &'v mut Values<'s>,
    types: PhantomData<fn() -> V>,
}

impl<'v, 's, V> TypedValues<'v, 's, V> {
    fn new(values: &'v mut Values<'s>) -> Self {
        Self {
            values,
            types: PhantomData,
        }
    }
}

impl<V: DeserializeOwned> Iterator for TypedValues<'_, '_, V> {
    type Item = Result<V, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.values.next_value().transpose()?;
        Some(next.and_then(decode_value))
    }
}

struct TypedMapper<F, K, V> {
    mapper: F,
    types: PhantomData<fn(K, V)>,
}

impl<F, K, V> Mapper for TypedMapper<F, K, V>
where
    F: Fn(&[u8], &[u8], &mut Pairs<'_, K, V>) -> Result<(), TaskError> + Send + Sync,
{
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let mut pairs = Pairs {
            emit,
            types: PhantomData,
        };
        (self.mapper)(key, value, &mut pairs)
    }
}

fn encode_key<K: Encode + ?Sized>(key: &K) -> Result<Vec<u8>, TaskError> {
    storekey::encode_vec(key).map_err(|e| TaskError::failed(format!("encoding a key: {e}")))
}

fn decode_key<K: Decode>(bytes: &[u8]) -> Result<K, TaskError> {
    storekey::decode(bytes)
        .map_err(|e| TaskError::failed(format!("decoding a key of {} bytes: {e}", bytes.len())))
}

fn encode_value<V: Serialize + ?Sized>(value: &V, into: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    postcard::to_extend(value, into)
        .map_err(|e| TaskError::failed(format!("encoding a value: {e}")))
}

fn decode_value<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, TaskError> {
    postcard::from_bytes(bytes)
        .map_err(|e| TaskError::failed(format!("decoding a value of {} bytes: {e}", bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::cmp::Ordering;

    type Key = (i64, String, f64, Option<u16>);

    fn random_key(rng: &mut ChaCha8Rng) -> Key {
        let chars = 0..rng.random_range(0..4);
        let text = chars.map(|_| rng.random_range('\0'..'\u{3}')).collect();
        (
            rng.random_range(-2..3),
            text,
            rng.random_range(-1.0..1.0_f64).round() * rng.random_range(0.0..2.0),
            rng.random_bool(0.5).then(|| rng.random_range(0..300)),
        )
    }

    fn compare(a: &Key, b: &Key) -> Ordering {
        (a.0.cmp(&b.0))
            .then_with(|| a.1.cmp(&b.1))
            .then_with(|| a.2.total_cmp(&b.2))
            .then_with(|| a.3.cmp(&b.3))
    }

    #[test]
    fn keys_read_back_and_their_bytes_are_in_their_order() {
        let test = "keys_read_back_and_their_bytes_are_in_their_order";
        for_seeds(test, 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let keys: Vec<Key> = (0..300).map(|_| random_key(&mut rng)).collect();
            let encoded: Vec<Vec<u8>> = keys.iter().map(|key| encode_key(key).unwrap()).collect();
            for (a, bytes_a) in keys.iter().zip(&encoded) {
                assert_eq!(decode_key::<Key>(bytes_a).unwrap(), *a);
                for (b, bytes_b) in keys.iter().zip(&encoded) {
                    assert_eq!(bytes_a.cmp(bytes_b), compare(a, b), "{a:?} and {b:?}");
                }
            }
        });
    }

    #[test]
    fn decoding_other_bytes_is_an_error_and_not_a_panic() {
        let error = decode_key::<(u64, String)>(b"short").unwrap_err();
        assert!(error.to_string().contains("decoding a key of 5 bytes"));
        let error = decode_value::<String>(&[200, 1]).unwrap_err();
        assert!(error.to_string().contains("decoding a value of 2 bytes"));
    }

    #[test]
    fn borrowed_keys_and_values_are_encoded_as_owned_ones() {
        assert_eq!(
            encode_key("wörd").unwrap(),
            encode_key(&"wörd".to_owned()).unwrap()
        );
        let value = |value: &[u32]| encode_value(value, Vec::new()).unwrap();
        assert_eq!(
            value(&[1, 2]),
            encode_value(&vec![1_u32, 2], Vec::new()).unwrap()
        );
    }
}
