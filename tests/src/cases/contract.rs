//! I judge a destination's contract: what the product makes of each answer of its receiver.
//!
//! The destination is read as `operate` reads one and checked by a production stage's rules. An answer is classified and
//! then recorded as an attempt's outcome, by the core's own functions, far from any deadline and with attempts left: so
//! what counts is the answer alone, `on_unknown` included.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::destination::{FieldError, OnUnknown, Spec, StageRules};
use punctual_core::id::{Content, Correlation, DeliveryId, IdempotencyKey, Owner, Reference};
use punctual_core::outcome::{CallResult, Called, Class, Failure, StatusClass, classify};
use punctual_core::rule::Rule;
use punctual_core::settings::RetryMode;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{QUEUE_REACH, Stamp, Terms, finished};
use punctual_flows::input::strict;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::entry::{Cases, Mismatch, quoted};
use super::format::Format;
use super::report::Outcome;

/// Where a production stage's secrets live, unless the file says otherwise.
const SECRET_PREFIX: &str = "punctual/prod/";
/// The time of a file that names none, in milliseconds: 2026-12-01T09:00:00Z.
const NOW: i64 = 1_796_115_600_000;
/// Farther away than any policy's delay.
const WINDOW: Duration = Duration::from_secs(365 * 86_400);

/// Calls that end without a status, by the words of a file.
pub const FAILURES: [(&str, Failure); 6] = [
    ("timeout", Failure::Timeout),
    ("cut", Failure::Cut),
    ("connect", Failure::Connect),
    ("dns", Failure::Dns),
    ("tls", Failure::Tls),
    ("address_refused", Failure::Refused(Rule::Private)),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contract {
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    secret_prefix: Option<String>,
    #[serde(default)]
    now: Option<Timestamp>,
    destination: Box<RawValue>,
    answers: Vec<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    failure: Option<String>,
    class: StatusClass,
    #[serde(default)]
    reason: Option<String>,
    /// Outside: whether it is stated; inside: whether there is one.
    #[serde(default, deserialize_with = "stated")]
    floor_s: Option<Option<u64>>,
    #[serde(default)]
    pauses: Option<bool>,
}

fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// What the product makes of an answer.
struct Meaning {
    class: StatusClass,
    reason: String,
    floor_s: Option<u64>,
    pauses: bool,
}

pub(super) fn judge(text: &str) -> Result<Outcome, String> {
    let raw: Box<RawValue> = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    let contract: Contract = strict(&raw, "").map_err(|e| format!("{}: {}", e.field, e.message))?;
    if contract.answers.is_empty() {
        return Err("answers: expected at least one".to_owned());
    }
    let mut cases = Cases::default();
    let spec: Spec = match strict(&contract.destination, "destination") {
        Ok(spec) => spec,
        Err(FieldError { field, message, .. }) => {
            cases.take(field, Err(Mismatch(format!("{message}; {} answers are not judged", contract.answers.len()))));
            return Ok(cases.outcome(Format::Contract));
        }
    };
    let secret_prefix = contract.secret_prefix.unwrap_or_else(|| SECRET_PREFIX.to_owned());
    let problems = spec.problems(&StageRules { allow_local: false, secret_prefix });
    if problems.is_empty() {
        cases.take("destination".to_owned(), Ok(()));
    }
    for FieldError { field, message, .. } in problems {
        cases.take(format!("destination.{field}"), Err(Mismatch(message)));
    }
    let now = Now::exactly(contract.now.unwrap_or_else(|| Timestamp::from_millis(NOW)));
    for (i, raw) in contract.answers.iter().enumerate() {
        match strict::<Answer>(raw, &format!("answers[{i}]")) {
            Ok(answer) => cases.take(named(i, &answer), one(&spec, &answer, now)),
            Err(FieldError { field, message, .. }) => cases.take(field, Err(Mismatch(message))),
        }
    }
    Ok(cases.outcome(Format::Contract))
}

fn named(i: usize, answer: &Answer) -> String {
    match (answer.status, &answer.failure) {
        (Some(status), _) => format!("answers[{i}] status {status}"),
        (None, Some(failure)) => format!("answers[{i}] failure {}", quoted(failure)),
        (None, None) => format!("answers[{i}]"),
    }
}

fn one(spec: &Spec, answer: &Answer, now: Now) -> Result<(), Mismatch> {
    let meaning = meaning(spec, result(answer)?, now).map_err(|why| Mismatch::new("an outcome", why))?;
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    let mut compare = |name: &str, expected: String, got: String| {
        if expected != got {
            wanted.push(format!("{name} {expected}"));
            found.push(got);
        }
    };
    let seconds = |floor: Option<u64>| floor.map_or("none".to_owned(), |seconds| seconds.to_string());
    compare("class", word(answer.class).to_owned(), word(meaning.class).to_owned());
    if let Some(reason) = &answer.reason {
        compare("reason", reason.clone(), meaning.reason);
    }
    if let Some(floor_s) = answer.floor_s {
        compare("floor_s", seconds(floor_s), seconds(meaning.floor_s));
    }
    if let Some(pauses) = answer.pauses {
        compare("pauses", pauses.to_string(), meaning.pauses.to_string());
    }
    if wanted.is_empty() { Ok(()) } else { Err(Mismatch::new(wanted.join(", "), found.join(", "))) }
}

fn word(class: StatusClass) -> &'static str {
    match class {
        StatusClass::Delivered => "delivered",
        StatusClass::Retry => "retry",
        StatusClass::Dead => "dead",
    }
}

/// The call's result as an entry describes it.
fn result(answer: &Answer) -> Result<CallResult, Mismatch> {
    match (answer.status, answer.failure.as_deref()) {
        (Some(status @ 100..=599), None) => {
            let header = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
            Ok(CallResult::Answered { status, retry_after: header.map(|(_, value)| value.clone()) })
        }
        (Some(status), None) => Err(Mismatch::new("a status from 100 to 599", status.to_string())),
        (None, Some(_)) if !answer.headers.is_empty() => Err(Mismatch::new("no headers without a status", "headers")),
        (None, Some(word)) => {
            let words = || FAILURES.map(|(word, _)| word).join(", ");
            let known = FAILURES.into_iter().find(|(known, _)| *known == word);
            known.map(|(_, failure)| failure.into()).ok_or_else(|| Mismatch::new(format!("one of {}", words()), quoted(word)))
        }
        (Some(_), Some(_)) => Err(Mismatch::new("status or failure", "both")),
        (None, None) => Err(Mismatch::new("status or failure", "neither")),
    }
}

fn meaning(spec: &Spec, result: CallResult, now: Now) -> Result<Meaning, String> {
    let class = classify(&result, &spec.classes, now);
    let (floor_s, pauses) = match class {
        Class::Retry { floor, .. } => (floor.map(|floor| floor.as_secs()), false),
        Class::Dead { pause, .. } => (None, pause),
        Class::Delivered | Class::Shadowed => (None, false),
    };
    // How long the receiver wants to be left alone decides when, not whether.
    let mut timeless = class;
    if let Class::Retry { floor, .. } = &mut timeless {
        *floor = None;
    }
    let terms = Terms {
        policy: &spec.retry,
        destination_version: 1,
        review_unknown: spec.on_unknown == OnUnknown::Review,
        margin: Duration::from_millis(spec.total_timeout_ms),
        measured: Duration::ZERO,
        retry_mode: RetryMode::Retry,
        queue_reach: QUEUE_REACH,
    };
    let by = Correlation::new("contract").map_err(|e| e.to_string())?;
    let row = in_flight(spec, now.lo).map_err(|e| e.to_string())?;
    let called = Called { result, started_at: now.lo, took: Duration::ZERO, key_ids: "-".to_owned() };
    let after =
        finished(&row, &called, timeless, &terms, 0.0, &Stamp { now, by }).map_err(|refusal| format!("{refusal:?}"))?.after;
    let class = match after.state {
        State::Delivered => StatusClass::Delivered,
        State::Deferred | State::Scheduled => StatusClass::Retry,
        State::Dead => StatusClass::Dead,
        other => return Err(format!("a row that is {other}")),
    };
    let reason = after.reason.map_or("none".to_owned(), |reason| reason.code().to_owned());
    Ok(Meaning { class, reason, floor_s, pauses })
}

/// A delivery whose first attempt is under way, with time and attempts to spare.
fn in_flight(spec: &Spec, now: Timestamp) -> Result<Delivery, punctual_core::id::NameError> {
    let id = DeliveryId::new("contract")?;
    Ok(Delivery {
        state: State::Delivering,
        lease_owner: Some(Owner::new("contract")?),
        lease_until: Some(now.plus(WINDOW)),
        granted: u32::MAX,
        ..Delivery::new(
            NewDelivery {
                idempotency_key: IdempotencyKey::from(&id),
                reference: Reference::new("contract")?,
                destination: spec.id.clone(),
                shard: 0,
                content: Content::of(&[]),
                deliver_after: now,
                deliver_by: now.plus(WINDOW),
                id,
            },
            now,
            Correlation::new("contract")?,
        )
    })
}
