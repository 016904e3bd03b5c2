//! Shrinking of failing lists: delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
//! failure-inducing input", 2002), with removals only.

/// Shortens a list for which `fails` returns true. Removes a piece if `fails` also returns true for
/// the list without that piece; the first pieces are halves of the list, the last ones single
/// items. Returns the shortest failing list that was found. Calls `fails` at most `tries_max`
/// times.
pub fn shrink<T: Clone>(
    list: &[T],
    tries_max: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut list = list.to_vec();
    let mut tries = 0;
    let mut piece = list.len().div_ceil(2);
    while piece > 0 && tries < tries_max {
        let mut removed = false;
        let mut at = 0;
        while at < list.len() && tries < tries_max {
            let end = (at + piece).min(list.len());
            let shorter: Vec<T> = list[..at].iter().chain(&list[end..]).cloned().collect();
            tries += 1;
            if fails(&shorter) {
                list = shorter;
                removed = true;
            } else {
                at = end;
            }
        }
        // Repeats with single items until none can be removed; otherwise goes on with smaller
        // pieces.
        piece = match piece {
            1 if removed => 1,
            1 => 0,
            _ => piece.div_ceil(2),
        };
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_leaves_what_the_failure_needs() {
        let list: Vec<u32> = (0..1000).collect();
        let needs = |list: &[u32]| [17, 400, 999].iter().all(|n| list.contains(n));
        assert_eq!(shrink(&list, 10_000, needs), [17, 400, 999]);
    }

    #[test]
    fn shrinking_stops_at_the_limit_with_what_is_left() {
        let list: Vec<u32> = (0..1000).collect();
        let mut tries = 0;
        let short = shrink(&list, 5, |list| {
            tries += 1;
            list.contains(&0)
        });
        assert_eq!(tries, 5);
        assert!(short.contains(&0) && short.len() < 1000);
    }
}
