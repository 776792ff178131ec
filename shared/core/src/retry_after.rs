//! I read `Retry-After` (RFC 9110 §10.2.3) in both forms: seconds and HTTP-date, the obsolete date forms included.

use std::time::{Duration, UNIX_EPOCH};

use crate::time::Timestamp;

/// The time to wait that the header asks for, counted from `now`; none if the text is neither form. A date in the
/// past is a wait of zero. A number too large to hold is the longest wait there is, not an error: it is a floor
/// beyond any deadline.
#[must_use]
pub fn floor(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX))));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let seconds = date.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let at = Timestamp::from_millis(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX));
    Some(at.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_and_ignores_the_rest() {
        let now: Timestamp = "2026-12-01T09:00:00Z".parse().expect("instant");
        for (text, seconds) in [
            ("3600", Some(3600)),
            ("0", Some(0)),
            ("00060", Some(60)),
            ("  60  ", Some(60)),
            ("99999999999999999999999", Some(u64::from(u32::MAX))),
            ("Tue, 01 Dec 2026 09:05:00 GMT", Some(300)),
            ("Tuesday, 01-Dec-26 09:02:00 GMT", Some(120)),
            ("Tue Dec  1 09:03:00 2026", Some(180)),
            ("Tue, 01 Dec 2020 09:05:00 GMT", Some(0)),
            ("-5", None),
            ("+5", None),
            ("5.5", None),
            ("", None),
            ("0x10", None),
            ("abc", None),
        ] {
            assert_eq!(floor(text, now), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
