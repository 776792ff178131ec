//! I keep metrics as they were emitted, and give a statistic of one over a stretch of time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use punctual_adapters::telemetry::{DIMENSIONS, NAMESPACE};
use punctual_core::time::Timestamp;

/// Which metric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its dimensions, in their order.
    pub dimensions: Vec<(String, String)>,
}

impl Metric {
    /// One that a function emits.
    #[must_use]
    pub fn of_function(stage: &str, function: &str, name: &str) -> Self {
        let dimensions = DIMENSIONS.into_iter().zip([stage, function]).map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { namespace: NAMESPACE.to_owned(), name: name.to_owned(), dimensions: dimensions.collect() }
    }
}

/// What is made of the values of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Their sum.
    Sum,
    /// The largest.
    Maximum,
    /// The smallest.
    Minimum,
}

impl Statistic {
    /// The one of this name.
    ///
    /// # Errors
    /// If it is another one of CloudWatch's.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "Sum" => Self::Sum,
            "Maximum" => Self::Maximum,
            "Minimum" => Self::Minimum,
            other => bail!("statistic {other:?} is not known here"),
        })
    }

    fn of(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        values.reduce(match self {
            Self::Sum => |a, b| a + b,
            Self::Maximum => f64::max,
            Self::Minimum => f64::min,
        })
    }
}

/// What was emitted.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// So long after it was emitted a value can be read.
    pub delay: Duration,
    values: BTreeMap<Metric, Vec<(Timestamp, f64)>>,
}

impl Stream {
    /// Notes a value.
    pub fn note(&mut self, metric: Metric, at: Timestamp, value: f64) {
        self.values.entry(metric).or_default().push((at, value));
    }

    /// Notes what a function emitted at the end of an invocation.
    pub fn note_all(&mut self, stage: &str, function: &str, at: Timestamp, values: &[(&'static str, f64)]) {
        values.iter().for_each(|(name, value)| self.note(Metric::of_function(stage, function, name), at, *value));
    }

    /// The statistic over the period that ends at `until`, exclusive, as it can be read at `seen`; none if there is no value in it.
    #[must_use]
    pub fn statistic(
        &self,
        metric: &Metric,
        statistic: Statistic,
        period: Duration,
        until: Timestamp,
        seen: Timestamp,
    ) -> Option<f64> {
        let from = until.minus(period);
        let readable = |at: &Timestamp| (from..until).contains(at) && at.plus(self.delay) <= seen;
        let within = self.values.get(metric).into_iter().flatten().filter(|(at, _)| readable(at));
        statistic.of(within.map(|(_, value)| *value))
    }
}
