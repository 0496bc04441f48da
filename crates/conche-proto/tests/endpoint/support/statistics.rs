//! Two goodness-of-fit tests for requirements on randomness.

/// Returns the p-value of the Kolmogorov-Smirnov test that `samples`, scaled to [0, 1], are
/// uniform.
///
/// Uses Kolmogorov's limit distribution, which is accurate enough for thousands of samples.
pub fn uniform_ks_p(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let distance = samples.iter().zip(0u32..).fold(0.0_f64, |distance, (&sample, below)| {
        let below = f64::from(below);
        distance.max((below + 1.0) / n - sample).max(sample - below / n)
    });
    let lambda = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    let term = |k: i32| f64::from(1 - 2 * ((k - 1) % 2)) * (-2.0 * f64::from(k * k) * lambda * lambda).exp();
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Returns Pearson's statistic of `counts` against equal expectations, in standard deviations above
/// its mean: for a uniform source below 3.1 in 999 of 1000 cases (Wilson and Hilferty's
/// approximation).
pub fn uniform_chi_square_z(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    assert!(expected >= 5.0, "too few samples for Pearson's test");
    let statistic: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

#[test]
fn the_tests_tell_uniform_from_not() {
    let even: Vec<f64> = (0..1000).map(|n| (f64::from(n) + 0.5) / 1000.0).collect();
    assert!(uniform_ks_p(even.clone()) > 0.99);
    assert!(uniform_ks_p(even.iter().map(|x| x * 0.9).collect()) < 0.001);
    assert!(uniform_chi_square_z(&[100, 95, 105, 99, 101]) < 3.1);
    assert!(uniform_chi_square_z(&[100, 50, 150, 99, 101]) > 3.1);
}
