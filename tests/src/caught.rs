//! Cases that must not stop the others: a panic is a failure like any other.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs a case; a panic of this thread is an error that says what and where.
/// Those of other threads are printed as always.
pub fn caught<T>(case: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    HOOK.call_once(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHES.get() {
                SAID.set(Some(info.to_string().replace('\n', " ")));
            } else {
                default(info);
            }
        }));
    });
    let outer = CATCHES.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(case));
    CATCHES.set(outer);
    outcome.unwrap_or_else(|_| {
        let said = SAID.take().unwrap_or_else(|| "panicked".into());
        Err(anyhow::anyhow!("{said}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_says_where() {
        let error = caught::<()>(|| panic!("five is {}", 6)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("five is 6"), "{error}");
        assert!(error.contains("caught.rs"), "{error}");
        assert_eq!(caught(|| Ok(5)).unwrap(), 5);
    }
}
