//! The distribution of files to threads, and the part of each file that is read.

use super::walk::TextFile;

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) file: &'a TextFile,
    /// The index of the file in the order of the request.
    pub(super) place: u32,
    /// The number of bytes of text after which no further row of the file is read; `u64::MAX` if the
    /// whole file is read.
    pub(super) budget: u64,
}

/// Returns a task for each file to read. The limit `max_bytes` is applied to the sizes of the files
/// beforehand, so that it selects the same rows with any number of threads.
pub(super) fn tasks(files: &[TextFile], max_bytes: Option<u64>) -> Vec<Task<'_>> {
    let mut left = max_bytes.unwrap_or(u64::MAX);
    let mut tasks = Vec::new();
    for (place, file) in (0..).zip(files) {
        if left == 0 {
            break;
        }
        // Without a limit, a file that grew since the walk is loaded to its new end.
        let budget = match max_bytes {
            Some(_) if file.bytes >= left => left,
            _ => u64::MAX,
        };
        left -= file.bytes.min(left);
        tasks.push(Task {
            file,
            place,
            budget,
        });
    }
    tasks
}

/// Sorts tasks so that the keys of lines (the file's name, then the line's number) ascend from file
/// to file. Returns false if no order of whole files achieves that, because two files have the same
/// key prefix, or the prefix of one is the beginning of that of another.
pub(super) fn sort_by_line_keys(tasks: &mut [Task<'_>]) -> bool {
    tasks.sort_by_cached_key(|task| task.file.key_prefix());
    tasks.windows(2).all(|pair| {
        let (before, after) = (pair[0].file.key_prefix(), pair[1].file.key_prefix());
        before != after && !after.starts_with(&before)
    })
}

/// Splits tasks into at most `parts` groups of consecutive tasks with about equal numbers of bytes:
/// at least `bytes_min` in each group but the last.
pub(super) fn parts<'t, 'f>(
    tasks: &'t [Task<'f>],
    parts: usize,
    bytes_min: u64,
) -> Vec<&'t [Task<'f>]> {
    let total: u64 = tasks.iter().map(|task| task.file.bytes).sum();
    let goal = (total / parts.max(1) as u64).max(bytes_min);
    let (mut cut, mut rest) = (Vec::new(), tasks);
    while !rest.is_empty() {
        let mut bytes = 0;
        let is_last = cut.len() + 1 >= parts;
        let taken = rest.iter().position(|task| {
            bytes += task.file.bytes;
            !is_last && bytes >= goal
        });
        let (part, after) = rest.split_at(taken.map_or(rest.len(), |at| at + 1));
        cut.push(part);
        rest = after;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, u64)]) -> Vec<TextFile> {
        let file = |&(name, bytes): &(&str, u64)| TextFile::new(name.into(), bytes);
        files.iter().map(file).collect()
    }

    #[test]
    fn line_keys_ascend_also_where_names_do_not() {
        // ':' is above '.': the keys of "a" come after the keys of "a.b".
        let some = files(&[("a", 1), ("a.b", 1), ("Z", 1)]);
        let mut tasks = tasks(&some, None);
        assert!(sort_by_line_keys(&mut tasks));
        let names = tasks.iter().map(|task| task.file.path.to_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["Z", "a.b", "a"]);
        let within = files(&[("a", 1), ("a:000000000001", 1)]);
        assert!(!sort_by_line_keys(&mut super::tasks(&within, None)));
    }

    #[test]
    fn parts_are_about_as_large_and_none_is_empty() {
        let some = files(&[("a", 10), ("b", 1), ("c", 1), ("d", 8), ("e", 0)]);
        let tasks = tasks(&some, None);
        let lengths = |n| {
            parts(&tasks, n, 0)
                .iter()
                .map(|p| p.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(1), [5]);
        assert_eq!(lengths(2), [1, 4]);
        assert_eq!(lengths(3), [1, 3, 1]);
        assert_eq!(lengths(99), [1, 1, 1, 1, 1]);
        assert_eq!(parts(&tasks, 99, 11).len(), 2);
        assert!(parts(&[], 3, 0).is_empty());
    }

    #[test]
    fn a_limit_takes_the_first_files_and_a_part_of_the_last() {
        let some = files(&[("a", 10), ("b", 10), ("c", 10)]);
        let budgets = |max| {
            let tasks = tasks(&some, Some(max));
            tasks.iter().map(|task| task.budget).collect::<Vec<_>>()
        };
        assert_eq!(budgets(15), [u64::MAX, 5]);
        assert_eq!(budgets(10), [10]);
        assert_eq!(budgets(99), [u64::MAX; 3]);
    }
}
