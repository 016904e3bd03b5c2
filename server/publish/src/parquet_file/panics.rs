//! Panics of the library for Parquet, which some damaged files cause.
//!
//! A panic becomes the error of its file, whose other rows are not read. The library decodes on the thread that
//! reads, so that thread alone has to be watched.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// True while the thread is inside of [`caught`].
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
    /// The place and the message of the last panic inside of [`caught`], until the error with them is
    /// returned.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs a step of reading a file. If the step panics, nothing is printed. Instead, the error is a
/// sentence about the file with the place of the panic, which shows whether the Parquet library or
/// ebb has the fault. After an error, the caller must not use values that the step has changed.
///
/// Panics of other threads, and panics outside of this function, go to the previous panic hook.
pub(crate) fn caught<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_CATCHING.get() {
                PANIC.set(Some(info.to_string().replace('\n', " ")));
            } else {
                before(info);
            }
        }));
    });
    let outer = IS_CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(step));
    IS_CATCHING.set(outer);
    result.map_err(|_| {
        let found = PANIC.take().unwrap_or_else(|| "a panic".to_owned());
        format!("it cannot be read, and is probably damaged: {found}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_sentence_with_its_place_and_its_message() {
        assert_eq!(caught(|| 5), Ok(5));
        let five = 5;
        let inner = caught(|| caught::<()>(|| panic!("{five} is odd"))).unwrap();
        let outer = caught::<()>(|| {
            assert_eq!(caught(|| 5), Ok(5));
            panic!("{five} is odd")
        });
        for error in [inner.unwrap_err(), outer.unwrap_err()] {
            assert!(error.contains("panics.rs:"), "{error}");
            assert!(error.ends_with(" 5 is odd"), "{error}");
        }
        assert!(!IS_CATCHING.get());
    }
}
