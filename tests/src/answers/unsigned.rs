//! A secret is missing or malformed: nothing is sent, above all nothing unsigned, and everything once it is put right.

use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_adapters::telemetry::metric;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use serde_json::{Value, json};

use super::ground::{BOUND, Ground, SECRET, field, until};
use super::report::{DELIVERED, Drill, Wanted};

/// Destination, and the value of its secret; none for one that is not there.
const BAD: [(&str, Option<&str>); 5] = [
    ("secret-missing", None),
    ("secret-bare", Some("marker4bare4cHVuY3R1YWwtbm90LWEtc2VjcmV0")),
    ("secret-base64", Some("whsec_marker4base64!!cHVuY3R1YWw*bm90LWEtc2VjcmV0")),
    ("secret-short", Some("whsec_bWFya2VyNHNob3J0")),
    // Beside a good one, as in a rotation that went wrong: half signed is not signed.
    ("secret-second", Some("whsec_bWFya2VyNHNlY29uZA==")),
];
const GOOD: &str = "punctual/local/answers-good";
/// A failure to get a secret is kept for two seconds.
const NOTICED: Duration = Duration::from_secs(20);

/// No call, a reason, a metric, no word of the secret; then it is delivered.
pub(super) async fn without_a_good_secret(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("secret missing or malformed: no call until it is put right");
    ground.console.create_secret(GOOD, SECRET).await?;
    let mut ids: Vec<DeliveryId> = Vec::new();
    for (destination, value) in BAD {
        let name = secret(destination);
        if let Some(value) = value {
            ground.console.create_secret(&name, value).await?;
        }
        let secrets = if destination == "secret-second" { vec![GOOD, &name] } else { vec![name.as_str()] };
        let retry = json!({"base_ms": 1_000, "cap_ms": 1_000, "attempts": 20});
        ground.destination(destination, "healthy/unsigned", json!({"secrets": secrets, "retry": retry})).await?;
        ids.extend(ground.now(destination, 1).await?);
    }
    // Twice, so that no one attempt is special.
    let tried = |row: &Delivery| row.attempts.len() >= 2;
    for row in ground.until_rows("two attempts of each", BOUND, &ids, tried).await? {
        let unsent = row.attempts.iter().all(|a| a.reason == Reason::SecretUnavailable && a.key_ids == "-");
        drill.expect(unsent, || format!("{}: {:?}", row.id, row.attempts));
        let deferred = row
            .history
            .iter()
            .filter(|line| line.state == State::Deferred)
            .all(|line| line.reason == Some(Reason::SecretUnavailable));
        drill.expect(deferred && row.reason == Some(Reason::SecretUnavailable), || format!("{}: {:?}", row.id, row.history));
        let calls = ground.calls(&row.id).len();
        drill.expect(calls == 0, || format!("{}: {calls} calls without a good secret", row.id));
    }
    let told = match ids.first() {
        Some(id) => ground.explained(id).await?,
        None => String::new(),
    };
    drill.expect(told.contains(Reason::SecretUnavailable.meaning()), || format!("inspect says {told}"));
    let counted = until("the metric", BOUND, async || Ok(counted(&log(ground)?).ok_or_else(|| "none yet".to_owned()))).await?;
    drill.note(format!("metric {} {counted} in one batch of deliver", metric::SECRET_UNAVAILABLE));

    for (destination, value) in BAD {
        let name = secret(destination);
        if value.is_none() {
            ground.console.create_secret(&name, SECRET).await?;
        } else {
            let secrets = ground.stack.secrets().await;
            secrets.put_secret_value().secret_id(&name).secret_string(SECRET).send().await.context("mend the secret")?;
        }
    }
    let ended = |row: &Delivery| row.state.is_terminal();
    for row in ground.until_rows("the delivery of each", NOTICED, &ids, ended).await? {
        let keys = row.attempts.last().map_or("", |attempt| attempt.key_ids.as_str());
        let wanted = match row.destination.as_str() {
            "secret-second" => "answers-good,secret-second",
            alone => alone,
        };
        drill.expect(keys == wanted, || format!("{}: signed by {keys}, not {wanted}", row.id));
        drill.row(&row.id, Wanted { calls: Some(1), ..DELIVERED });
    }
    let log = log(ground)?;
    for value in BAD.iter().filter_map(|(_, value)| *value).chain([SECRET]) {
        let core = value.strip_prefix("whsec_").unwrap_or(value);
        drill.expect(!log.contains(core), || "a secret's text is in the log".to_owned());
    }
    Ok(drill)
}

/// The name of a destination's own secret.
fn secret(destination: &str) -> String {
    format!("punctual/local/{destination}")
}

/// Everything that the functions wrote so far.
fn log(ground: &Ground<'_>) -> Result<String> {
    let path = ground.stack.log();
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The largest count of attempts without a secret in one of deliver's metric lines, if there is one.
fn counted(log: &str) -> Option<u64> {
    let lines = log.lines().filter(|line| line.starts_with('{')).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_deliver = lines.filter(|line| line.get("_aws").is_some() && field(line, "Function") == "deliver");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of a batch")]
    let counts = of_deliver.filter_map(|line| field(&line, metric::SECRET_UNAVAILABLE).as_f64()).map(|count| count as u64);
    counts.max().filter(|count| *count > 0)
}
