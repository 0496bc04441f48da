//! Jain's index of fairness.

/// (Σx)²/(n·Σx²): 1 if all are equal, 1/n if one has everything (Jain, Chiu, Hawe 1984); `None` if nobody has anything.
#[must_use]
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_1_among_equals_and_1_nth_if_one_has_everything() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }
}
