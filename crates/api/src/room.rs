//! When a table gives memory back: what a wave of objects has taken goes with the wave, and a table whose size
//! swings a little is left alone.

/// Below this a table is too small to be worth copying.
const WORTH_IT: usize = 64;

/// The room that a table of this length and capacity should shrink to, if most of it is empty.
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
