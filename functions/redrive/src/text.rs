//! I say things in words, for a person.

use std::collections::BTreeMap;

/// "held 3, changed 1".
pub(crate) fn counts<K: Copy>(counts: &BTreeMap<K, u32>, code: impl Fn(K) -> &'static str) -> String {
    counts.iter().map(|(what, n)| format!("{} {n}", code(*what))).collect::<Vec<_>>().join(", ")
}

/// A length of time as a person says it.
pub(crate) fn seconds(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, (seconds % 3_600) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_short() {
        let said = [5, 119, 120, 121, 7_199, 7_200, 86_399].map(seconds);
        assert_eq!(said, ["5 s", "119 s", "2 min", "3 min", "120 min", "2 h 0 min", "23 h 59 min"]);
    }
}
