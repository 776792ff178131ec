//! I am a destination: where a tenant's reminders go, under which contract, and at which rate.
//!
//! Strict: an unknown field, a number out of bounds, a URL that must not be called are errors that name the field.
//! Names are judged here as far as text goes; the address that a name resolves to is judged at connect time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::address;
use crate::admission::Capacity;
use crate::breaker::{self, BreakerPolicy, FIRST_IN_FLIGHT, LONGEST_PROBE, Reach};
use crate::delivery::Lane;
use crate::id::DestinationId;
use crate::limiter::Limit;
use crate::outcome::StatusClass;
use crate::rejections::{MOST_RESULTS, PauseAfter};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// What a receiver without an idempotency contract wants after a lost answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// Call again with the same key.
    #[default]
    Retry,
    /// No automatic second call: a person looks.
    Review,
}

/// How the `idempotency-key` header is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyForm {
    /// As it is.
    #[default]
    Bare,
    /// In double quotes: the structured-field form of the header's draft.
    Quoted,
}

/// Whether a destination's receiver is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its receiver is called.
    #[default]
    Live,
    /// What falls due is posted to the shadow sink instead; promotion makes it live, and nothing makes it shadow again.
    Shadow,
}

/// What an operator registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name; 1 to 32 characters.
    pub id: DestinationId,
    /// `https://` with a host, port 443 or 8443 unless listed; at most 512 characters.
    pub url: String,
    /// Names of signing secrets below the stage's own path, active ones first; 1 to 3.
    pub secrets: Vec<String>,
    /// For the connection, in milliseconds; 100 to 10,000.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// For the whole call, in milliseconds; the connect timeout to 20,000.
    #[serde(default = "total_timeout_ms")]
    pub total_timeout_ms: u64,
    /// Calls per second over all consumers; 1 to 1,000.
    #[serde(default = "rate_per_second")]
    pub rate_per_second: u32,
    /// Calls that a second may have beyond the rate; a tenth of the rate (rounded up) to 10,000. Without it, a fifth of the
    /// rate, and at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The most deliveries out of the ledger at a time; 1 to 10,000.
    #[serde(default = "max_in_flight")]
    pub max_in_flight: u32,
    /// Lanes in the wake index; 1 to 64; may only grow.
    #[serde(default = "shards")]
    pub shards: u16,
    /// When and how often failed attempts are repeated.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// After how many rejections the destination is paused by itself.
    #[serde(default)]
    pub pause_after: PauseAfter,
    /// When calls to a receiver that does not answer stop by themselves, and how soon it is probed.
    #[serde(default)]
    pub breaker: BreakerPolicy,
    /// The receiver's contract where it differs: status to class.
    #[serde(default)]
    pub classes: BTreeMap<u16, StatusClass>,
    /// What to do after a lost answer.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// How the key is written.
    #[serde(default)]
    pub key_form: KeyForm,
    /// Ports allowed besides 443 and 8443; at most 8.
    #[serde(default)]
    pub allowed_ports: Vec<u16>,
    /// Live, or shadow until it is promoted.
    #[serde(default)]
    pub mode: Mode,
}

fn connect_timeout_ms() -> u64 {
    3_000
}

fn total_timeout_ms() -> u64 {
    10_000
}

fn rate_per_second() -> u32 {
    50
}

fn max_in_flight() -> u32 {
    1_000
}

fn shards() -> u16 {
    2
}

/// A pause: nothing is claimed for the destination until it is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Since when.
    pub since: Timestamp,
    /// Who says to have done it.
    pub by: String,
    /// Why.
    pub why: String,
}

/// Who changed a destination last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// Who says to have done it.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A registered destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// What was registered.
    pub spec: Spec,
    /// Counts the writes; recorded with every attempt.
    pub version: u64,
    /// The pause, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The last change.
    pub changed: Change,
}

/// What a stage allows destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRules {
    /// Plain HTTP and local addresses, for the local stack; a production stage refuses to start with it.
    pub allow_local: bool,
    /// The path below which signing secrets live, like `punctual/prod/`.
    pub secret_prefix: String,
}

/// One thing that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// A stable word.
    pub code: &'static str,
    /// The field's path, like `reminders[3].deliver_by`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl FieldError {
    /// A new error.
    #[must_use]
    pub fn new(code: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: field.into(), message: message.into() }
    }
}

impl Spec {
    /// Everything that is wrong with this input; empty if nothing is.
    #[must_use]
    pub fn problems(&self, rules: &StageRules) -> Vec<FieldError> {
        let mut problems = Vec::new();
        if let Err(problem) = check_url(&self.url, &self.allowed_ports, rules.allow_local) {
            problems.push(FieldError::new("invalid_url", "url", problem));
        }
        if self.secrets.is_empty() || self.secrets.len() > 3 {
            problems.push(FieldError::new("out_of_bounds", "secrets", "1 to 3 secret names"));
        }
        for (i, name) in self.secrets.iter().enumerate() {
            if !secret_name_is_safe(name, &rules.secret_prefix) {
                let message = format!("a name below {} made of letters, digits, _ - and /", rules.secret_prefix);
                problems.push(FieldError::new("invalid_secret", format!("secrets[{i}]"), message));
            }
        }
        let mut bounds = |field: &str, value: u64, min: u64, max: u64| {
            if !(min..=max).contains(&value) {
                problems.push(FieldError::new("out_of_bounds", field, format!("{min} to {max}; got {value}")));
            }
        };
        bounds("connect_timeout_ms", self.connect_timeout_ms, 100, 10_000);
        bounds("total_timeout_ms", self.total_timeout_ms, self.connect_timeout_ms.clamp(100, 10_000), 20_000);
        bounds("rate_per_second", u64::from(self.rate_per_second), 1, 1_000);
        // Less leaves no room for calls that start somewhat late.
        let least_burst = u64::from(self.rate_per_second.clamp(1, 1_000).div_ceil(10));
        bounds("burst", self.burst.map_or(least_burst, u64::from), least_burst, 10_000);
        bounds("max_in_flight", u64::from(self.max_in_flight), 1, 10_000);
        bounds("shards", u64::from(self.shards), 1, 64);
        bounds("retry.base_ms", self.retry.base_ms, 100, 3_600_000);
        bounds("retry.cap_ms", self.retry.cap_ms, self.retry.base_ms.clamp(100, 3_600_000), 86_400_000);
        bounds("retry.attempts", u64::from(self.retry.attempts), 1, 20);
        bounds("pause_after.of_last", u64::from(self.pause_after.of_last), 1, u64::from(MOST_RESULTS));
        let most = u64::from(self.pause_after.of_last.clamp(1, MOST_RESULTS));
        bounds("pause_after.rejected", u64::from(self.pause_after.rejected), 1, most);
        bounds("breaker.opens_after", u64::from(self.breaker.opens_after), 1, 20);
        let longest = u64::try_from(LONGEST_PROBE.as_millis()).unwrap_or(u64::MAX);
        bounds("breaker.probe_after_ms", self.breaker.probe_after_ms, 100, longest);
        for status in self.classes.keys() {
            bounds(&format!("classes.{status}"), u64::from(*status), 100, 599);
        }
        bounds("allowed_ports", u64::try_from(self.allowed_ports.len()).unwrap_or(u64::MAX), 0, 8);
        problems
    }
}

impl Destination {
    /// Its lanes.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        (0..self.spec.shards).map(|shard| Lane { destination: self.spec.id.clone(), shard })
    }

    /// What it can take, as it has been reached lately; one of which nothing is stored is unproven.
    #[must_use]
    pub fn capacity(&self, reach: Option<&Reach>) -> Capacity {
        let most = self.spec.max_in_flight;
        let max_in_flight = reach.map_or(most.min(FIRST_IN_FLIGHT), |reach| reach.room(most));
        Capacity { rate_per_second: self.spec.rate_per_second, max_in_flight }
    }

    /// What breaker and bulkhead go by.
    #[must_use]
    pub fn reach_rules(&self) -> breaker::Rules {
        breaker::Rules { breaker: self.spec.breaker, max_in_flight: self.spec.max_in_flight }
    }

    /// How often its receiver may be called.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let per_second = self.spec.rate_per_second;
        Limit { per_second, burst: self.spec.burst.unwrap_or((per_second / 5).max(1)) }
    }

    /// For the whole call.
    #[must_use]
    pub fn total_timeout(&self) -> Duration {
        Duration::from_millis(self.spec.total_timeout_ms)
    }

    /// For the connection.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.spec.connect_timeout_ms)
    }

    /// The safety margin before a deadline: the stage's, or a whole call if that takes longer.
    #[must_use]
    pub fn margin(&self, stage: Duration) -> Duration {
        stage.max(self.total_timeout())
    }
}

/// Secret references are limited to the stage's own path.
#[must_use]
pub fn secret_name_is_safe(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix).unwrap_or_default();
    !prefix.is_empty()
        && !rest.is_empty()
        && name.len() <= 128
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/'))
}

/// Checks a URL as text: scheme, host, port, no credentials, no address that must not be called.
///
/// # Errors
/// Says what would be right.
pub fn check_url(text: &str, allowed_ports: &[u16], allow_local: bool) -> Result<Url, String> {
    if text.len() > 512 || text.bytes().any(|b| !b.is_ascii_graphic()) {
        return Err("at most 512 visible ASCII characters, without spaces".into());
    }
    let url = Url::parse(text).map_err(|e| format!("an absolute https URL; {e}"))?;
    if url.scheme() != "https" && !(allow_local && url.scheme() == "http") {
        return Err(format!("https only; got {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("no user name or password in a URL: requests are signed instead".into());
    }
    if url.fragment().is_some() {
        return Err("no fragment".into());
    }
    let address = match url.host() {
        None => return Err("a host".into()),
        Some(Host::Domain(name)) if allow_local || !is_local_name(name) => None,
        Some(Host::Domain(_)) => return Err("a public host name".into()),
        Some(Host::Ipv4(v4)) => Some(IpAddr::V4(v4)),
        Some(Host::Ipv6(v6)) => Some(IpAddr::V6(v6)),
    };
    if let (Some(address), false) = (address, allow_local)
        && let Some(rule) = address::refused(address)
    {
        return Err(format!("a public address; this one is refused by rule {rule}"));
    }
    let port = url.port_or_known_default().unwrap_or(0);
    if !allow_local && port != 443 && port != 8443 && !allowed_ports.contains(&port) {
        return Err(format!("port 443 or 8443, or one listed in allowed_ports; got {port}"));
    }
    Ok(url)
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.ends_with(".local") || name.ends_with(".internal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Result<Spec, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    fn rules() -> StageRules {
        StageRules { allow_local: false, secret_prefix: "punctual/prod/".into() }
    }

    #[test]
    fn defaults_are_within_bounds() {
        let spec = spec(r#"{"id":"acme","url":"https://hooks.example.com/r","secrets":["punctual/prod/acme"]}"#).expect("a spec");
        assert_eq!(spec.problems(&rules()), []);
        assert_eq!(spec.retry, RetryPolicy { base_ms: 30_000, cap_ms: 3_600_000, attempts: 10 });
    }

    #[test]
    fn problems_name_the_field() {
        let spec = spec(
            r#"{"id":"acme","url":"http://x/","secrets":["other/x"],"total_timeout_ms":1,"rate_per_second":0,
                "shards":99,"retry":{"attempts":0},"pause_after":{"rejected":65,"of_last":70},
                "breaker":{"opens_after":0,"probe_after_ms":240001},"classes":{"99":"retry"}}"#,
        )
        .expect("a spec");
        let fields: Vec<String> = spec.problems(&rules()).into_iter().map(|p| p.field).collect();
        assert_eq!(
            fields,
            [
                "url",
                "secrets[0]",
                "total_timeout_ms",
                "rate_per_second",
                "shards",
                "retry.attempts",
                "pause_after.of_last",
                "pause_after.rejected",
                "breaker.opens_after",
                "breaker.probe_after_ms",
                "classes.99"
            ]
        );
    }

    #[test]
    fn a_burst_is_a_fifth_unless_named_and_at_least_a_tenth() {
        let text = r#"{"id":"acme","url":"https://hooks.example.com/r","secrets":["punctual/prod/acme"]"#;
        for (rest, burst, problems) in [
            ("}", 10, vec![]),
            (r#","rate_per_second":1}"#, 1, vec![]),
            (r#","rate_per_second":11}"#, 2, vec![]),
            (r#","rate_per_second":11,"burst":2}"#, 2, vec![]),
            (r#","rate_per_second":11,"burst":1}"#, 1, vec!["burst"]),
            (r#","burst":10000}"#, 10_000, vec![]),
            (r#","burst":10001}"#, 10_001, vec!["burst"]),
        ] {
            let spec = spec(&format!("{text}{rest}")).expect("a spec");
            let fields: Vec<String> = spec.problems(&rules()).into_iter().map(|p| p.field).collect();
            assert_eq!(fields, problems, "{rest}");
            let changed = Change { at: Timestamp::from_millis(0), by: String::new(), why: String::new() };
            assert_eq!(Destination { spec, version: 1, paused: None, changed }.limit().burst, burst, "{rest}");
        }
    }

    #[test]
    fn unknown_fields_are_errors() {
        let error = spec(r#"{"id":"a","url":"https://x/","secrets":[],"ttl":1}"#).expect_err("strict");
        assert!(error.contains("ttl"), "{error}");
        let error = spec(r#"{"id":"a","url":"https://x/","secrets":[],"pause_after":{"window":1}}"#).expect_err("strict");
        assert!(error.contains("window"), "{error}");
        let error = spec(r#"{"id":"a","url":"https://x/","secrets":[],"breaker":{"open":1}}"#).expect_err("strict");
        assert!(error.contains("open"), "{error}");
    }

    #[test]
    fn secrets_stay_below_the_stage() {
        for (name, good) in [
            ("punctual/prod/acme", true),
            ("punctual/prod/acme/2026a", true),
            ("punctual/prod/", false),
            ("punctual/dev/acme", false),
            ("punctual/prod/../dev/x", false),
            ("punctual/prod/a b", false),
        ] {
            assert_eq!(secret_name_is_safe(name, "punctual/prod/"), good, "{name}");
        }
    }

    #[test]
    fn urls() {
        for (url, good) in [
            ("https://hooks.example.com/r?x=1", true),
            ("https://hooks.example.com:8443/r", true),
            ("https://hooks.example.com:9000/r", true),
            ("https://hooks.example.com:22/r", false),
            ("https://user:pw@hooks.example.com/", false),
            ("https://hooks.example.com/#x", false),
            ("https://localhost/", false),
            ("https://metadata.google.internal/", false),
            ("https://10.0.0.1/", false),
            ("https://8.8.8.8/", true),
            ("ftp://example.com/", false),
        ] {
            assert_eq!(check_url(url, &[9000], false).is_ok(), good, "{url}");
        }
        assert!(check_url("http://127.0.0.1:8080/x", &[], true).is_ok());
    }
}
