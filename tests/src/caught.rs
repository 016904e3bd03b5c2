//! Catching panics, so that a case that panics is a failure and the other cases still run.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether this thread runs a case in [`caught`], so that the hook stores the message of a
    /// panic and does not print it.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// The message and place of the last panic inside [`caught`]; `None` once [`caught`] has
    /// returned them.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs a case. A panic of this thread becomes an error with the panic's message and place; panics
/// of other threads are printed as usual.
pub fn caught<T>(case: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    HOOK.call_once(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHES.get() {
                MESSAGE.set(Some(info.to_string().replace('\n', " ")));
            } else {
                default(info);
            }
        }));
    });
    let outer = CATCHES.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(case));
    CATCHES.set(outer);
    outcome.unwrap_or_else(|_| {
        let message = MESSAGE.take().unwrap_or_else(|| "panicked".into());
        Err(anyhow::anyhow!("{message}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_place() {
        let error = caught::<()>(|| panic!("five is {}", 6)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("five is 6"), "{error}");
        assert!(error.contains("caught.rs"), "{error}");
        assert_eq!(caught(|| Ok(5)).unwrap(), 5);
    }
}
