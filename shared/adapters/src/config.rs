//! I am a function's configuration: one struct each, built from a lookup, every error at once, each naming its variable.
//!
//! Nothing that names a resource has a default. I am the one place that reads the environment.

use std::fmt;
use std::time::Duration;

use punctual_core::destination::StageRules;

/// A variable that holds whole seconds, and how many it may hold. The template's parameters have the same bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds {
    /// The variable's name.
    pub variable: &'static str,
    /// The least, inclusive.
    pub min: u64,
    /// The most, inclusive.
    pub max: u64,
}

/// From one start of dispatch to the next.
pub const TICK: Seconds = Seconds { variable: "TICK_SECONDS", min: 60, max: 300 };
/// How far ahead dispatch looks, within the queue's largest delay. Never less than two ticks, so that a missed one costs
/// nothing.
pub const HORIZON: Seconds = Seconds { variable: "HORIZON_SECONDS", min: 120, max: 840 };
/// The stage's safety margin before a deadline.
pub const SAFETY_MARGIN: Seconds = Seconds { variable: "SAFETY_MARGIN_SECONDS", min: 1, max: 600 };
/// How long a dispatch run holds a row.
pub const DISPATCH_LEASE: Seconds = Seconds { variable: "DISPATCH_LEASE_SECONDS", min: 10, max: 300 };
/// When a message that nobody took counts as overdue.
pub const HANDOFF_THRESHOLD: Seconds = Seconds { variable: "HANDOFF_THRESHOLD_SECONDS", min: 10, max: 3_600 };
/// From one slice of a redrive run to the next.
pub const SLICE: Seconds = Seconds { variable: "SLICE_SECONDS", min: 10, max: 300 };

/// Every variable that holds seconds.
pub const SECONDS: [Seconds; 6] = [TICK, HORIZON, SAFETY_MARGIN, DISPATCH_LEASE, HANDOFF_THRESHOLD, SLICE];

/// What is wrong with the environment: one line for each variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad configuration: {}", self.0.join("; "))
    }
}

/// The process's own environment, as a lookup.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the configuration is where the environment is read")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads variables and gathers what is wrong.
struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    errors: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, errors: Vec::new() }
    }

    fn text(&mut self, name: &str) -> String {
        match (self.lookup)(name) {
            Some(value) if !value.trim().is_empty() => value,
            _ => {
                self.errors.push(format!("{name} is not set"));
                String::new()
            }
        }
    }

    fn seconds(&mut self, Seconds { variable: name, min, max }: Seconds) -> Duration {
        let text = self.text(name);
        if text.is_empty() {
            return Duration::ZERO;
        }
        match text.parse::<u64>() {
            Ok(n) if (min..=max).contains(&n) => Duration::from_secs(n),
            _ => {
                self.errors.push(format!("{name} must be {min} to {max} (seconds), not {text:?}"));
                Duration::ZERO
            }
        }
    }

    fn flag(&mut self, name: &str) -> bool {
        match self.text(name).as_str() {
            "true" => true,
            "false" | "" => false,
            other => {
                self.errors.push(format!("{name} must be true or false, not {other:?}"));
                false
            }
        }
    }

    fn done<T>(self, value: T) -> Result<T, ConfigError> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigError(self.errors)) }
    }
}

/// What every function knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The stage's name.
    pub name: String,
    /// The ledger table.
    pub ledger_table: String,
    /// The control table.
    pub control_table: String,
}

/// The queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queues {
    /// Of deliveries.
    pub queue_url: String,
    /// Of dead letters.
    pub dead_letter_queue_url: String,
}

/// How rows are released: the same for dispatch and for schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// From one start of dispatch to the next: within [`TICK`].
    pub tick: Duration,
    /// How far ahead dispatch looks: within [`HORIZON`], and two ticks or more.
    pub horizon: Duration,
    /// The stage's safety margin before a deadline: within [`SAFETY_MARGIN`].
    pub margin: Duration,
    /// How long a dispatch run holds a row: within [`DISPATCH_LEASE`].
    pub lease: Duration,
}

/// Dispatch's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Which stage.
    pub stage: Stage,
    /// Which queues.
    pub queues: Queues,
    /// How rows are released.
    pub release: Release,
    /// When a message counts as overdue: within [`HANDOFF_THRESHOLD`].
    pub handoff_threshold: Duration,
}

/// Deliver's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverConfig {
    /// Which stage.
    pub stage: Stage,
    /// Which queues.
    pub queues: Queues,
    /// Which destinations and secrets are allowed.
    pub rules: StageRules,
    /// The stage's safety margin before a deadline: within [`SAFETY_MARGIN`].
    pub margin: Duration,
}

/// Schedule's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleConfig {
    /// Which stage.
    pub stage: Stage,
    /// The queue of deliveries.
    pub queue_url: String,
    /// How rows are released.
    pub release: Release,
}

/// Inspect's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectConfig {
    /// Which stage.
    pub stage: Stage,
    /// The queue of dead letters.
    pub dead_letter_queue_url: String,
    /// From one start of dispatch to the next: within [`TICK`].
    pub tick: Duration,
    /// The stage's safety margin before a deadline: within [`SAFETY_MARGIN`].
    pub margin: Duration,
}

/// Redrive's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveConfig {
    /// Which stage.
    pub stage: Stage,
    /// Which queues.
    pub queues: Queues,
    /// How rows are released.
    pub release: Release,
    /// From one slice of a run to the next: within [`SLICE`].
    pub slice: Duration,
    /// The group of the schedules that start slices.
    pub schedule_group: String,
    /// The ARN of the role that those start the function with.
    pub slice_role_arn: String,
}

/// Operate's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperateConfig {
    /// The group of dispatch's schedule.
    pub schedule_group: String,
    /// The name of dispatch's schedule.
    pub tick_schedule: String,
    /// Which stage.
    pub stage: Stage,
    /// Which destinations and secrets are allowed.
    pub rules: StageRules,
    /// The stage's safety margin before a deadline: within [`SAFETY_MARGIN`].
    pub margin: Duration,
}

/// Monitor's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorConfig {
    /// Which stage.
    pub stage: Stage,
    /// Which queues.
    pub queues: Queues,
    /// From one start of dispatch to the next: within [`TICK`].
    pub tick: Duration,
    /// The stage's safety margin before a deadline: within [`SAFETY_MARGIN`].
    pub margin: Duration,
}

fn stage(reader: &mut Reader<'_>) -> Stage {
    Stage { name: reader.text("STAGE"), ledger_table: reader.text("LEDGER_TABLE"), control_table: reader.text("CONTROL_TABLE") }
}

fn queues(reader: &mut Reader<'_>) -> Queues {
    Queues { queue_url: reader.text("QUEUE_URL"), dead_letter_queue_url: reader.text("DEAD_LETTER_QUEUE_URL") }
}

fn margin(reader: &mut Reader<'_>) -> Duration {
    reader.seconds(SAFETY_MARGIN)
}

fn handoff_threshold(reader: &mut Reader<'_>) -> Duration {
    reader.seconds(HANDOFF_THRESHOLD)
}

fn release(reader: &mut Reader<'_>) -> Release {
    let (tick, horizon) = (reader.seconds(TICK), reader.seconds(HORIZON));
    if !horizon.is_zero() && horizon < tick.saturating_mul(2) {
        let (ticks, ahead) = (tick.as_secs(), horizon.as_secs());
        reader.errors.push(format!("HORIZON_SECONDS ({ahead}) must be two ticks or more: twice TICK_SECONDS ({ticks})"));
    }
    Release { tick, horizon, margin: margin(reader), lease: reader.seconds(DISPATCH_LEASE) }
}

/// Plain HTTP and local addresses need the stack parameter, and a production stage refuses it.
fn rules(reader: &mut Reader<'_>) -> StageRules {
    let production = reader.flag("PRODUCTION");
    let rules = StageRules { allow_local: reader.flag("ALLOW_LOCAL_ENDPOINTS"), secret_prefix: reader.text("SECRET_PREFIX") };
    if rules.allow_local && production {
        reader.errors.push("ALLOW_LOCAL_ENDPOINTS must be false while PRODUCTION is true".into());
    }
    if !rules.secret_prefix.is_empty() && !rules.secret_prefix.ends_with('/') {
        reader.errors.push("SECRET_PREFIX must end with /".into());
    }
    rules
}

macro_rules! from_lookup {
    ($config:ident, |$reader:ident| $body:expr) => {
        impl $config {
            /// Reads the configuration.
            ///
            /// # Errors
            /// [`ConfigError`] with one line for every variable that is missing or wrong.
            pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
                let mut reader = Reader::new(lookup);
                let $reader = &mut reader;
                let value = $body;
                reader.done(value)
            }
        }
    };
}

from_lookup!(DispatchConfig, |r| Self {
    stage: stage(r),
    queues: queues(r),
    release: release(r),
    handoff_threshold: handoff_threshold(r)
});
from_lookup!(DeliverConfig, |r| Self { stage: stage(r), queues: queues(r), rules: rules(r), margin: margin(r) });
from_lookup!(ScheduleConfig, |r| Self { stage: stage(r), queue_url: r.text("QUEUE_URL"), release: release(r) });
from_lookup!(InspectConfig, |r| Self {
    stage: stage(r),
    tick: r.seconds(TICK),
    dead_letter_queue_url: r.text("DEAD_LETTER_QUEUE_URL"),
    margin: margin(r)
});
from_lookup!(RedriveConfig, |r| Self {
    stage: stage(r),
    queues: queues(r),
    release: release(r),
    slice: r.seconds(SLICE),
    schedule_group: r.text("SCHEDULE_GROUP"),
    slice_role_arn: r.text("SLICE_ROLE_ARN"),
});
from_lookup!(MonitorConfig, |r| Self { stage: stage(r), queues: queues(r), tick: r.seconds(TICK), margin: margin(r) });
from_lookup!(OperateConfig, |r| Self {
    schedule_group: r.text("SCHEDULE_GROUP"),
    tick_schedule: r.text("TICK_SCHEDULE"),
    stage: stage(r),
    rules: rules(r),
    margin: margin(r)
});

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        let value = match name {
            "STAGE" => "dev",
            "LEDGER_TABLE" => "l",
            "CONTROL_TABLE" => "c",
            "QUEUE_URL" | "DEAD_LETTER_QUEUE_URL" => "https://queue",
            "TICK_SECONDS" => "60",
            "HORIZON_SECONDS" => "150",
            "SAFETY_MARGIN_SECONDS" => "10",
            "DISPATCH_LEASE_SECONDS" => "60",
            "HANDOFF_THRESHOLD_SECONDS" => "120",
            "SLICE_SECONDS" => "60",
            "SCHEDULE_GROUP" => "punctual-dev",
            "TICK_SCHEDULE" => "punctual-dev-tick",
            "SLICE_ROLE_ARN" => "arn:aws:iam::000000000000:role/slices",
            "SECRET_PREFIX" => "punctual/dev/",
            "PRODUCTION" => "false",
            "ALLOW_LOCAL_ENDPOINTS" => "true",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn reads_each_configuration() {
        assert_eq!(DispatchConfig::from_lookup(&lookup).map(|c| c.release.horizon), Ok(Duration::from_secs(150)));
        assert_eq!(DeliverConfig::from_lookup(&lookup).map(|c| c.rules.allow_local), Ok(true));
        assert!(ScheduleConfig::from_lookup(&lookup).is_ok());
        assert!(InspectConfig::from_lookup(&lookup).is_ok());
        assert_eq!(MonitorConfig::from_lookup(&lookup).map(|c| c.tick), Ok(Duration::from_secs(60)));
        assert!(OperateConfig::from_lookup(&lookup).is_ok());
        assert_eq!(RedriveConfig::from_lookup(&lookup).map(|c| c.slice), Ok(Duration::from_secs(60)));
    }

    #[test]
    fn names_every_variable_that_is_wrong() {
        let none = |_: &str| None;
        let error = DispatchConfig::from_lookup(&none).expect_err("nothing is set");
        for name in ["STAGE", "LEDGER_TABLE", "CONTROL_TABLE", "QUEUE_URL", "DEAD_LETTER_QUEUE_URL", "HORIZON_SECONDS"] {
            assert!(error.0.iter().any(|line| line.starts_with(name)), "{name}: {error}");
        }
        let odd = |name: &str| match name {
            "HORIZON_SECONDS" => Some("soon".to_owned()),
            "SAFETY_MARGIN_SECONDS" => Some("0".to_owned()),
            other => lookup(other),
        };
        let error = DispatchConfig::from_lookup(&odd).expect_err("two are wrong");
        assert_eq!(error.0.len(), 2, "{error}");
    }

    #[test]
    fn the_bounds_of_seconds_are_inclusive() {
        for Seconds { variable, min, max } in SECONDS {
            for (seconds, fits) in [(min - 1, false), (min, true), (max, true), (max + 1, false)] {
                let given = |name: &str| match name {
                    _ if name == variable => Some(seconds.to_string()),
                    // Far enough for every tick.
                    "HORIZON_SECONDS" => Some(HORIZON.max.to_string()),
                    other => lookup(other),
                };
                let answer = if variable == SLICE.variable {
                    RedriveConfig::from_lookup(&given).map(|_| ())
                } else {
                    DispatchConfig::from_lookup(&given).map(|_| ())
                };
                assert_eq!(answer.is_ok(), fits, "{variable}={seconds}: {answer:?}");
            }
        }
    }

    #[test]
    fn a_horizon_covers_two_ticks() {
        for (tick, horizon, fits) in [("60", "120", true), ("300", "600", true), ("61", "121", false), ("300", "599", false)] {
            let given = |name: &str| match name {
                "TICK_SECONDS" => Some(tick.to_owned()),
                "HORIZON_SECONDS" => Some(horizon.to_owned()),
                other => lookup(other),
            };
            let answers =
                [DispatchConfig::from_lookup(&given).map(|c| c.release), ScheduleConfig::from_lookup(&given).map(|c| c.release)];
            for answer in answers {
                match answer {
                    Ok(release) => assert!(fits, "{release:?}"),
                    Err(error) => {
                        assert!(!fits && error.0.len() == 1, "{error}");
                        assert!(error.0[0].contains("TICK_SECONDS") && error.0[0].contains("HORIZON_SECONDS"), "{error}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_production_stage_refuses_local_endpoints_whatever_its_name() {
        // (PRODUCTION, ALLOW_LOCAL_ENDPOINTS, the variables that the errors begin with)
        let cases: [(Option<&str>, &str, &[&str]); 6] = [
            (Some("true"), "true", &["ALLOW_LOCAL_ENDPOINTS"]),
            (Some("true"), "false", &[]),
            (Some("false"), "true", &[]),
            (Some("false"), "false", &[]),
            (None, "false", &["PRODUCTION"]),
            (Some("yes"), "true", &["PRODUCTION"]),
        ];
        for (production, local, wrong) in cases {
            let given = |name: &str| match name {
                "PRODUCTION" => production.map(str::to_owned),
                "ALLOW_LOCAL_ENDPOINTS" => Some(local.to_owned()),
                other => lookup(other),
            };
            let deliver = DeliverConfig::from_lookup(&given).map(|c| c.rules);
            assert_eq!(deliver, OperateConfig::from_lookup(&given).map(|c| c.rules));
            let errors = deliver.err().map_or_else(Vec::new, |error| error.0);
            let named: Vec<&str> = errors.iter().filter_map(|line| line.split(' ').next()).collect();
            assert_eq!(named, wrong, "{production:?} {local}");
        }
    }
}
