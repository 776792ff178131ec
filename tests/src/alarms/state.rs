//! I decide an alarm's state as CloudWatch does.
//!
//! Every minute an alarm looks at the periods that end at that minute. It asks for more of them than its evaluation periods
//! ([`RANGE_BEYOND`]). If as many as its evaluation periods have data, the newest of those are judged, however old. If not, the
//! missing ones are filled as the alarm says, as few as possible, and all real ones count. With `ignore` the state stays if no
//! real one speaks against an alarm and too few speak for one. (From the documentation's "How alarm state is evaluated when data
//! is missing", whose tables are among the tests.) `missing` and percentiles are not used, and refused.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use punctual_core::time::Timestamp;

use super::math::Expression;
use super::stream::{Metric, Statistic, Stream};

/// So many periods more than its evaluation periods an alarm asks for: in the documentation's example two.
pub const RANGE_BEYOND: usize = 2;

/// An alarm's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Within its threshold.
    #[default]
    Ok,
    /// Beyond it.
    Alarm,
}

/// How a value is compared with the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Breaching is more.
    More,
    /// Breaching is as much, or more.
    AtLeast,
    /// Breaching is less.
    Less,
}

impl Comparison {
    /// The one of this name.
    ///
    /// # Errors
    /// If it is another one of CloudWatch's.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "GreaterThanThreshold" => Self::More,
            "GreaterThanOrEqualToThreshold" => Self::AtLeast,
            "LessThanThreshold" => Self::Less,
            other => bail!("comparison {other:?} is not known here"),
        })
    }
}

/// What missing data means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The threshold is breached.
    Breaching,
    /// It is not.
    NotBreaching,
    /// The state stays.
    Ignore,
}

impl Missing {
    /// The one of this name.
    ///
    /// # Errors
    /// If it is another one of CloudWatch's.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "breaching" => Self::Breaching,
            "notBreaching" => Self::NotBreaching,
            "ignore" => Self::Ignore,
            other => bail!("missing data as {other:?} is not known here"),
        })
    }
}

/// What is compared with the threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// An expression of the inputs.
    pub expression: Expression,
    /// Its metrics, by id.
    pub inputs: BTreeMap<String, (Metric, Statistic)>,
}

/// An alarm.
#[derive(Debug, Clone, PartialEq)]
pub struct Alarm {
    /// What is compared with the threshold.
    pub judged: Judged,
    /// The length of a period.
    pub period: Duration,
    /// So many periods are judged …
    pub evaluation_periods: usize,
    /// … and so many of them must breach.
    pub datapoints_to_alarm: usize,
    /// How.
    pub comparison: Comparison,
    /// With what.
    pub threshold: f64,
    /// What missing data means.
    pub missing: Missing,
}

impl Alarm {
    /// The state at a whole minute, given the one before.
    #[must_use]
    pub fn state(&self, stream: &Stream, at: Timestamp, before: State) -> State {
        let range = self.evaluation_periods + RANGE_BEYOND;
        let real: Vec<bool> = (0..range)
            .filter_map(|n| self.value(stream, at.minus(self.period * u32::try_from(n).unwrap_or(u32::MAX)), at))
            .map(|value| self.breaches(value))
            .take(self.evaluation_periods)
            .collect();
        let breaching = real.iter().filter(|breaches| **breaches).count();
        let missing = self.evaluation_periods - real.len();
        let decided = |breaching: usize| if breaching >= self.datapoints_to_alarm { State::Alarm } else { State::Ok };
        match self.missing {
            Missing::Breaching => decided(breaching + missing),
            Missing::NotBreaching => decided(breaching),
            Missing::Ignore if missing > 0 && breaching < self.datapoints_to_alarm && breaching == real.len() => before,
            Missing::Ignore => decided(breaching),
        }
    }

    /// What is judged, at `seen`, of the period that ends at `until`.
    fn value(&self, stream: &Stream, until: Timestamp, seen: Timestamp) -> Option<f64> {
        let input = |id: &str| {
            let (metric, statistic) = self.judged.inputs.get(id)?;
            stream.statistic(metric, *statistic, self.period, until, seen)
        };
        self.judged.expression.value(&input)
    }

    fn breaches(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::More => value > self.threshold,
            Comparison::AtLeast => value >= self.threshold,
            Comparison::Less => value < self.threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter past nine, and so many minutes.
    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(1_796_116_500_000 + minutes * 60_000)
    }

    fn metric() -> Metric {
        Metric::of_function("dev", "monitor", "Due")
    }

    fn alarm(evaluation_periods: usize, datapoints_to_alarm: usize, missing: Missing) -> Alarm {
        let inputs = BTreeMap::from([("it".to_owned(), (metric(), Statistic::Maximum))]);
        let judged = Judged { expression: Expression::Metric("it".to_owned()), inputs };
        let (comparison, threshold) = (Comparison::More, 0.5);
        let period = Duration::from_secs(60);
        Alarm { judged, period, evaluation_periods, datapoints_to_alarm, comparison, threshold, missing }
    }

    /// One letter a minute: `0` and `X` are values, `-` is none.
    fn stream(letters: &str) -> Stream {
        let mut stream = Stream::default();
        for (n, letter) in letters.chars().enumerate().filter(|(_, letter)| *letter != '-') {
            let second = at(i64::try_from(n).expect("small")).plus(Duration::from_secs(30));
            stream.note(metric(), second, f64::from(u8::from(letter == 'X')));
        }
        stream
    }

    /// The documentation's own table, for 3 out of 3 with a range of 5.
    #[test]
    fn three_of_three_as_documented() {
        let (o, x, retained) = (Some(State::Ok), Some(State::Alarm), None);
        for (letters, ignore, breaching, not_breaching) in [
            ("0-X-X", o, o, o),
            ("0----", o, o, o),
            ("-----", retained, x, o),
            ("0XX-X", x, x, x),
            ("----X", retained, x, o),
            ("X----", retained, x, o),
        ] {
            for (missing, expected) in
                [(Missing::Ignore, ignore), (Missing::Breaching, breaching), (Missing::NotBreaching, not_breaching)]
            {
                for before in [State::Ok, State::Alarm] {
                    let state = alarm(3, 3, missing).state(&stream(letters), at(5), before);
                    assert_eq!(state, expected.unwrap_or(before), "{letters} {missing:?} {before:?}");
                }
            }
        }
    }

    /// The documentation's own table, for 2 out of 3.
    #[test]
    fn two_of_three_as_documented() {
        let (o, x, retained) = (Some(State::Ok), Some(State::Alarm), None);
        for (letters, ignore, breaching, not_breaching) in
            [("0-X-X", x, x, x), ("00X0X", x, x, x), ("0-X--", o, x, o), ("----0", o, x, o), ("----X", retained, x, o)]
        {
            for (missing, expected) in
                [(Missing::Ignore, ignore), (Missing::Breaching, breaching), (Missing::NotBreaching, not_breaching)]
            {
                for before in [State::Ok, State::Alarm] {
                    let state = alarm(3, 2, missing).state(&stream(letters), at(5), before);
                    assert_eq!(state, expected.unwrap_or(before), "{letters} {missing:?} {before:?}");
                }
            }
        }
    }

    #[test]
    fn a_gap_is_noticed_late_unless_it_is_filled() {
        let plain = alarm(2, 2, Missing::Breaching);
        let judged = Judged { expression: Expression::parse("FILL(it, 0)").expect("one"), inputs: plain.judged.inputs.clone() };
        let beat = |alarm: Alarm| Alarm { comparison: Comparison::Less, threshold: 1.0, ..alarm };
        let stream = stream("XXXXX----------");
        let first = |alarm: &Alarm| (0..15).find(|n| alarm.state(&stream, at(*n), State::Ok) == State::Alarm && *n >= 5);
        assert_eq!(first(&beat(Alarm { judged, ..plain.clone() })), Some(7), "after two missing minutes");
        assert_eq!(first(&beat(plain)), Some(9), "after all data has left the range");
    }
}
