//! I am what a scripted receiver writes into `Retry-After`, and until when it then wants to be left alone. I write every
//! form by hand, so that the reader under test is not its own measure.

use punctual_core::time::Timestamp;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A `Retry-After`.
#[derive(Debug, Clone)]
pub enum Wish {
    /// No header.
    None,
    /// Whole seconds.
    Seconds(u64),
    /// Whole seconds with leading zeros and blanks around.
    Padded(u64),
    /// More digits than a number holds.
    Endless(usize),
    /// The date in so many seconds, as IMF-fixdate.
    Imf(i64),
    /// The date in so many seconds, as RFC 850 wrote it.
    Rfc850(i64),
    /// The date in so many seconds, as asctime writes it.
    Asctime(i64),
    /// A text that is none of these.
    Nonsense(String),
}

impl Wish {
    /// The header's text, written at `now`; in milliseconds, as all instants here.
    #[must_use]
    pub(super) fn text(&self, now: i64) -> Option<String> {
        match self {
            Self::None => None,
            Self::Seconds(seconds) => Some(seconds.to_string()),
            Self::Padded(seconds) => Some(format!(" \t{seconds:012}  ")),
            Self::Endless(digits) => Some("9".repeat(digits + 21)),
            Self::Imf(in_s) => {
                Some(date(now, *in_s, |d| format!("{}, {} {} {} {} GMT", d.short(), d.day, d.month, d.year, d.time)))
            }
            Self::Rfc850(in_s) => Some(date(now, *in_s, |d| {
                format!("{}, {}-{}-{} {} GMT", d.weekday, d.day, d.month, d.year.get(2..).unwrap_or_default(), d.time)
            })),
            Self::Asctime(in_s) => Some(date(now, *in_s, |d| {
                let day = d.day.strip_prefix('0').map_or(d.day.to_owned(), |digit| format!(" {digit}"));
                format!("{} {} {day} {} {}", d.short(), d.month, d.time, d.year)
            })),
            Self::Nonsense(text) => Some(text.clone()),
        }
    }

    /// Until when the receiver wants to be left alone, if it was written at `written` and read at `read`.
    #[must_use]
    pub(super) fn floor(&self, written: i64, read: i64) -> Option<i64> {
        match self {
            Self::None | Self::Nonsense(_) => None,
            // 136 years: past any deadline.
            Self::Seconds(seconds) | Self::Padded(seconds) => {
                Some(read + i64::try_from(*seconds).unwrap_or(i64::MAX).min(i64::from(u32::MAX)) * 1_000)
            }
            Self::Endless(_) => Some(read + i64::from(u32::MAX) * 1_000),
            Self::Imf(in_s) | Self::Rfc850(in_s) | Self::Asctime(in_s) => Some(second(written, *in_s) * 1_000),
        }
    }
}

struct Date<'a> {
    weekday: &'a str,
    year: &'a str,
    month: &'a str,
    day: &'a str,
    time: &'a str,
}

impl Date<'_> {
    fn short(&self) -> &str {
        self.weekday.get(..3).unwrap_or_default()
    }
}

/// The whole second that is `in_s` seconds after `now`.
fn second(now: i64, in_s: i64) -> i64 {
    now.div_euclid(1_000) + in_s
}

fn date(now: i64, in_s: i64, write: impl FnOnce(Date<'_>) -> String) -> String {
    let second = second(now, in_s);
    let text = Timestamp::from_millis(second * 1_000).to_string();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    // 1970-01-01 was a Thursday.
    let weekday = usize::try_from((second.div_euclid(86_400) + 4).rem_euclid(7)).ok().and_then(|day| DAYS.get(day));
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    write(Date {
        weekday: weekday.copied().unwrap_or_default(),
        year: part(0, 4),
        month: month.copied().unwrap_or_default(),
        day: part(8, 10),
        time: part(11, 19),
    })
}
