//! I am how long before the renewal date a notice is due: an ISO 8601 date duration, or business days.
//!
//! `P1Y`, `P3M`, `P2W`, `P30D` and their sums (`P1M10D`) are civil arithmetic: first years and months, where a day that the
//! month does not have becomes its last one (31 March minus `P1M` is 28 or 29 February), then weeks and days. `10BD` is the
//! tenth business day before; business days are no ISO 8601 duration, and do not look like one.

use std::fmt;
use std::str::FromStr;

use jiff::Span;
use jiff::civil::Date;

/// The longest notice in years and months together, in months.
pub const MOST_MONTHS: u16 = 120;
/// The longest notice in weeks and days together, in days.
pub const MOST_DAYS: u16 = 3_660;
/// The longest notice in business days.
pub const MOST_BUSINESS_DAYS: u16 = 1_000;

/// How long before the renewal date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// An ISO 8601 date duration, each part as it is written.
    Civil {
        /// Years.
        years: u16,
        /// Months; with the years at most 120.
        months: u16,
        /// Weeks.
        weeks: u16,
        /// Days; with the weeks at most 3,660.
        days: u16,
    },
    /// Business days; at most 1,000.
    BusinessDays(u16),
}

/// Why a text is no [`Notice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// Another form.
    #[error("an ISO 8601 duration of whole days or more, like P1M, P2W or P30D, or business days, like 10BD")]
    Form,
    /// Too long.
    #[error("at most {MOST_MONTHS} months, {MOST_DAYS} days or {MOST_BUSINESS_DAYS} business days")]
    TooLong,
}

/// A date, and whether its day is not the one that was meant, because the month does not have that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The date.
    pub date: Date,
    /// Whether years and months led to a day that the month does not have.
    pub clamped: bool,
}

impl FromStr for Notice {
    type Err = NoticeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(digits) = text.strip_suffix("BD") {
            let count = number(digits).ok_or(NoticeError::Form)?;
            return small(count, MOST_BUSINESS_DAYS).map(Self::BusinessDays);
        }
        let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(NoticeError::Form)?;
        let mut part = |unit: char| match rest.split_once(unit) {
            Some((digits, after)) => {
                rest = after;
                number(digits).ok_or(NoticeError::Form)
            }
            None => Ok(0),
        };
        let (years, months, weeks, days) = (part('Y')?, part('M')?, part('W')?, part('D')?);
        if !rest.is_empty() {
            return Err(NoticeError::Form);
        }
        small(years.saturating_mul(12).saturating_add(months), MOST_MONTHS)?;
        small(weeks.saturating_mul(7).saturating_add(days), MOST_DAYS)?;
        Ok(Self::Civil {
            years: small(years, MOST_MONTHS)?,
            months: small(months, MOST_MONTHS)?,
            weeks: small(weeks, MOST_DAYS)?,
            days: small(days, MOST_DAYS)?,
        })
    }
}

/// Digits alone; a number that is too large for any notice stays so.
fn number(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(u32::MAX))
}

fn small(number: u32, most: u16) -> Result<u16, NoticeError> {
    u16::try_from(number).ok().filter(|number| *number <= most).ok_or(NoticeError::TooLong)
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BusinessDays(count) => write!(f, "{count}BD"),
            Self::Civil { years: 0, months: 0, weeks: 0, days: 0 } => f.write_str("P0D"),
            Self::Civil { years, months, weeks, days } => {
                f.write_str("P")?;
                let parts = [(years, 'Y'), (months, 'M'), (weeks, 'W'), (days, 'D')];
                parts.into_iter().filter(|(number, _)| *number > 0).try_for_each(|(number, unit)| write!(f, "{number}{unit}"))
            }
        }
    }
}

/// A date minus years and months, then minus weeks and days; none before the year 2000.
pub(super) fn civil(date: Date, [years, months, weeks, days]: [u16; 4]) -> Option<Counted> {
    let month = date.checked_sub(Span::new().years(years).months(months)).ok()?;
    let counted = month.checked_sub(Span::new().weeks(weeks).days(days)).ok()?;
    (counted.year() >= 2000).then_some(Counted { date: counted, clamped: month.day() != date.day() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["P0D", "P1D", "P30D", "P2W", "P1M", "P1Y", "P10Y", "P120M", "P3660D", "P1Y2M3W4D", "0BD", "10BD", "1000BD"] {
            assert_eq!(text.parse::<Notice>().map(|notice| notice.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("P0Y0D".parse::<Notice>(), "P0D".parse());
        assert_eq!("P01M".parse::<Notice>(), "P1M".parse());
    }

    #[test]
    fn refuses_other_forms_and_lengths() {
        for text in [
            "", "P", "p1m", "1M", "P1", "PD", "-P1D", "P-1D", "P+1D", "P1D2M", "P1M1M", "P1.5D", "P1,5D", "PT1H", "P1DT1H",
            "P1S", " P1D", "P1D ", "1 month", "BD", "-1BD", "P10BD", "10bd", "P1D10BD", "P١D",
        ] {
            assert_eq!(text.parse::<Notice>(), Err(NoticeError::Form), "{text:?}");
        }
        for text in ["P11Y", "P10Y1M", "P121M", "P3661D", "P523W", "P522W7D", "P99999999999999999999D", "1001BD", "70000BD"] {
            assert_eq!(text.parse::<Notice>(), Err(NoticeError::TooLong), "{text:?}");
        }
    }

    #[test]
    fn months_come_first_and_end_where_the_month_ends() {
        for (date, parts, expected, clamped) in [
            ("2027-03-31", [0, 1, 0, 0], "2027-02-28", true),
            ("2028-03-31", [0, 1, 0, 0], "2028-02-29", true),
            ("2028-02-29", [1, 0, 0, 0], "2027-02-28", true),
            ("2027-03-28", [0, 1, 0, 0], "2027-02-28", false),
            ("2027-03-31", [0, 1, 0, 1], "2027-02-27", true),
            ("2027-01-31", [1, 2, 1, 1], "2025-11-22", true),
            ("2027-01-15", [0, 0, 2, 0], "2027-01-01", false),
        ] {
            let counted = civil(date.parse().expect("a date"), parts);
            assert_eq!(counted, Some(Counted { date: expected.parse().expect("a date"), clamped }), "{date} {parts:?}");
        }
        assert_eq!(civil("2000-01-01".parse().expect("a date"), [0, 0, 0, 1]), None);
    }
}
