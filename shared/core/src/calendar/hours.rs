//! I am the opening hours of a day, by the clock on the wall: half open, in order and apart.

use std::fmt;

use jiff::civil::Time;

/// The most intervals of one day.
pub const MOST_INTERVALS: usize = 8;

/// When an interval closes: at a time of the day, or with the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Close {
    At(Time),
    EndOfDay,
}

/// One opening interval: its opening minute belongs to it, its closing minute does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub(super) opens: Time,
    pub(super) closes: Close,
}

impl Interval {
    /// The first time of the day, not before `time`, at which it is open.
    pub(super) fn open_from(self, time: Time) -> Option<Time> {
        (Close::At(time) < self.closes).then_some(self.opens.max(time))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opens = self.opens.strftime("%H:%M");
        match self.closes {
            Close::At(closes) => write!(f, "{opens} to {}", closes.strftime("%H:%M")),
            Close::EndOfDay => write!(f, "{opens} to 24:00"),
        }
    }
}

/// Reads the intervals of one day.
///
/// # Errors
/// What would be right instead.
pub(super) fn read(intervals: &[[String; 2]]) -> Result<Vec<Interval>, String> {
    if intervals.len() > MOST_INTERVALS {
        return Err(format!("at most {MOST_INTERVALS} intervals"));
    }
    let mut read: Vec<Interval> = Vec::new();
    for [open, close] in intervals {
        let opens = minute(open).ok_or_else(|| format!("an opening time HH:MM; got {open:?}"))?;
        let closes = close_at(close).ok_or_else(|| format!("a closing time HH:MM or 24:00; got {close:?}"))?;
        if closes <= Close::At(opens) {
            let right = "a closing time after the opening time; over midnight it is two intervals, until 24:00 and from 00:00";
            return Err(format!("{right}; got {open} to {close}"));
        }
        if read.last().is_some_and(|before| before.closes > Close::At(opens)) {
            return Err(format!("intervals in order and apart; {open} is not after the one before it"));
        }
        read.push(Interval { opens, closes });
    }
    Ok(read)
}

/// A time at which something can end: `HH:MM`, or `24:00` for the end of the day.
pub(super) fn close_at(text: &str) -> Option<Close> {
    if text == "24:00" { Some(Close::EndOfDay) } else { minute(text).map(Close::At) }
}

/// `HH:MM`, nothing else.
pub(super) fn minute(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two =
        |digits: &str| digits.parse::<i8>().ok().filter(|_| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()));
    Time::new(two(hour)?, two(minute)?, 0, 0).ok()
}
