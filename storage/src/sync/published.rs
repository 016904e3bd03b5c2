//! A value that is replaced as a whole while others read it.

use std::sync::Arc;

/// A shared value that readers load and writers replace.
#[cfg(not(any(loom, shuttle)))]
pub(crate) type Published<T> = arc_swap::ArcSwap<T>;

/// A loaded value, which a reader holds for the length of a look-up.
#[cfg(not(any(loom, shuttle)))]
pub(crate) type PublishedGuard<T> = arc_swap::Guard<Arc<T>>;

/// [`Published`] for the checkers of concurrency (loom, shuttle), which can switch to another
/// thread before each load and each swap.
#[cfg(any(loom, shuttle))]
#[derive(Debug)]
pub(crate) struct Published<T>(super::Mutex<Arc<T>>);

/// A loaded value, which a reader holds for the length of a look-up.
#[cfg(any(loom, shuttle))]
pub(crate) type PublishedGuard<T> = Arc<T>;

#[cfg(any(loom, shuttle))]
impl<T> Published<T> {
    pub(crate) fn from_pointee(value: T) -> Self {
        Self(super::Mutex::new(Arc::new(value)))
    }

    pub(crate) fn load(&self) -> PublishedGuard<T> {
        self.load_full()
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn store(&self, next: Arc<T>) {
        self.swap(next);
    }

    pub(crate) fn swap(&self, next: Arc<T>) -> Arc<T> {
        std::mem::replace(&mut *self.0.lock().unwrap(), next)
    }
}
