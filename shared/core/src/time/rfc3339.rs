//! I read `date-time` of RFC 3339, section 5.6, and nothing beside it: `2026-12-01T09:00:00Z`, `2026-12-01T10:00:00.250+01:00`.
//!
//! `t` and `z` may be small, as the RFC says. A space instead of the `T`, a time without seconds, an offset without minutes or
//! colon, a comma, and a zone in brackets are other formats. A leap second (`:60`) is refused: an instant counts none, so that
//! it could only be taken for another second.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

use super::TimestampError;

/// The instant, in milliseconds since the Unix epoch.
///
/// # Errors
/// `Format` if it is none; `TooFine` if it has more than nine fraction digits, or another one than `0` after the third;
/// `OutOfRange` if no instant can be so far away.
pub(super) fn milliseconds(text: &str) -> Result<i64, TimestampError> {
    let (date_time, rest) = date_time(text.as_bytes()).ok_or(TimestampError::Format)?;
    let (fraction, rest) = fraction(rest).ok_or(TimestampError::Format)?;
    let offset = offset(rest).ok_or(TimestampError::Format)?;
    let finer = fraction.get(3..).unwrap_or_default();
    if fraction.len() > 9 || finer.iter().any(|digit| *digit != b'0') {
        return Err(TimestampError::TooFine);
    }
    let thousandths = fraction.iter().zip([100, 10, 1]).map(|(digit, weight)| i64::from(digit - b'0') * weight);
    let instant = offset.to_timestamp(date_time).map_err(|_| TimestampError::OutOfRange)?;
    Ok(instant.as_millisecond() + thousandths.sum::<i64>())
}

/// `2026-12-01T09:00:00`, and what follows it.
fn date_time(text: &[u8]) -> Option<(DateTime, &[u8])> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T' | b't', h1, h2, b':', n1, n2, b':', s1, s2, rest @ ..] = text else {
        return None;
    };
    let (century, year) = (two([y1, y2])?, two([y3, y4])?);
    let date = Date::new(i16::from(century) * 100 + i16::from(year), two([m1, m2])?, two([d1, d2])?).ok()?;
    let time = Time::new(two([h1, h2])?, two([n1, n2])?, two([s1, s2])?, 0).ok()?;
    Some((date.to_datetime(time), rest))
}

/// The digits of `.250`, and what follows; none if there is no fraction.
fn fraction(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else { return Some((&[], text)) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.split_at_checked(digits).filter(|(digits, _)| !digits.is_empty())
}

/// `Z`, or `+01:00`. `-00:00` is UTC whose place is unknown.
fn offset(text: &[u8]) -> Option<Offset> {
    match text {
        b"Z" | b"z" => Some(Offset::UTC),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two([h1, h2])?, two([m1, m2])?);
            let seconds = (i32::from(hours) * 60 + i32::from(minutes)) * 60;
            let offset = Offset::from_seconds(if *sign == b'-' { -seconds } else { seconds });
            offset.ok().filter(|_| hours <= 23 && minutes <= 59)
        }
        _ => None,
    }
}

/// Two digits.
fn two(digits: [&u8; 2]) -> Option<i8> {
    let [ten, one] = digits.map(|digit| digit.is_ascii_digit().then(|| digit - b'0'));
    i8::try_from(ten? * 10 + one?).ok()
}
