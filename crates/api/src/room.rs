//! When a table is shrunk: after a burst of objects, but not if its size varies only a little.

/// Smaller tables are not shrunk.
const WORTH_IT: usize = 64;

/// The capacity to which a table should be shrunk, if most of it is empty.
pub fn to_keep(length: usize, capacity: usize) -> Option<usize> {
    (capacity > WORTH_IT && length < capacity / 8).then_some(length * 2)
}

#[cfg(test)]
mod tests {
    use super::to_keep;

    #[test]
    fn only_a_large_table_that_is_nearly_empty_shrinks() {
        for (length, capacity, kept) in [
            (0, 64, None),
            (0, 65, Some(0)),
            (9, 80, Some(18)),
            (10, 80, None),
            (80, 80, None),
            (1_000, 100_000, Some(2_000)),
        ] {
            assert_eq!(to_keep(length, capacity), kept, "{length} of {capacity}");
        }
    }
}
