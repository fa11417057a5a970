//! Medians and spreads.

use std::time::Duration;

/// The value below which `part` of the samples lie.
pub fn percentile(samples: &mut [f64], part: f64) -> f64 {
    if samples.is_empty() {
        return f64::NAN;
    }
    samples.sort_by(f64::total_cmp);
    let last = samples.len() - 1;
    let at = (part * last as f64).round() as usize;
    samples[at.min(last)]
}

pub fn median(samples: &[f64]) -> f64 {
    percentile(&mut samples.to_vec(), 0.5)
}

/// Smallest and largest.
pub fn spread(samples: &[f64]) -> (f64, f64) {
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 0.5), 51.0);
        assert_eq!(percentile(&mut samples, 0.99), 100.0);
        assert_eq!(percentile(&mut samples, 1.0), 101.0);
        assert!(percentile(&mut [], 0.5).is_nan());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 3.0));
    }
}
