//! Independent pieces of work on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::threads::value_of;

/// Calls `work` with each item on `threads` threads, at least one. Returns the results in the order
/// of the items.
///
/// # Errors
/// An error of `work`; if several calls fail, one of theirs.
pub fn in_parallel<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || -> Result<(), E> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return Ok(());
            };
            let made = work(item)?;
            done.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push((at, made));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| value_of(thread.join()))
    })?;
    let mut done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, made)| made).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_and_an_error_is_returned() {
        let items: Vec<u32> = (0..100).collect();
        for threads in [0, 1, 3] {
            let doubled = in_parallel(&items, threads, |item| Ok::<_, u32>(2 * item));
            assert_eq!(doubled, Ok(items.iter().map(|item| 2 * item).collect()));
            let refused = in_parallel(&items, threads, |&item| match item {
                70 => Err(item),
                _ => Ok(()),
            });
            assert_eq!(refused, Err(70));
        }
    }
}
