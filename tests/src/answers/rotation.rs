//! A signing secret is rotated while deliveries are on their way, as a careful customer does it: the receiver accepts
//! the new one before it is used, both sign together, and the old one goes once nothing is signed with it alone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use punctual_adapters::clock::machine_time;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use serde_json::json;

use super::ground::{BOUND, Ground};
use super::report::{DELIVERED, Drill, Wanted};

const NAME: &str = "rotated";
const OLD: (&str, &str) = ("punctual/local/rotated/2026a", "whsec_cHVuY3R1YWwtcm90YXRlZC1zZWNyZXQtMjAyNi1h");
const NEW: (&str, &str) = ("punctual/local/rotated/2026b", "whsec_cHVuY3R1YWwtcm90YXRlZC1zZWNyZXQtMjAyNi1i");
/// Deliveries that wait for a retry through the whole rotation, and as many new ones at each step.
const ROWS: usize = 4;

/// One step: what the receiver accepts, then what the destination signs with.
struct Step {
    accepts: &'static [&'static str],
    signs: &'static [&'static str],
    key_ids: &'static str,
}

const STEPS: [Step; 4] = [
    Step { accepts: &[OLD.1], signs: &[OLD.0], key_ids: "2026a" },
    Step { accepts: &[OLD.1, NEW.1], signs: &[NEW.0, OLD.0], key_ids: "2026b,2026a" },
    Step { accepts: &[NEW.1], signs: &[NEW.0, OLD.0], key_ids: "2026b,2026a" },
    Step { accepts: &[NEW.1], signs: &[NEW.0], key_ids: "2026b" },
];

/// Every call verifies, at every step; in the overlap both signatures are in the one header.
pub(super) async fn rotated(ground: &Ground<'_>) -> Result<Drill> {
    let mut drill = Drill::new("secret rotated in mid-flight: [a], then [b, a], then [b]");
    for (name, value) in [OLD, NEW] {
        ground.console.create_secret(name, value).await?;
    }
    let mut ids: Vec<DeliveryId> = Vec::new();
    // What each version of the destination signs with; where only the receiver changes, the version stays.
    let mut signed_by = BTreeMap::new();
    for (n, step) in STEPS.iter().enumerate() {
        ground.rotating.accept(step.accepts)?;
        ground.destination(NAME, "", spec(ground, step.signs)).await?;
        let version = ground.version(NAME).await?;
        signed_by.insert(version, step.key_ids);
        let numbers = n * ROWS..(n + 1) * ROWS;
        ids.extend(ground.schedule(NAME, numbers, machine_time()).await?);
        // An attempt with this version: whatever was in flight with an older one has ended.
        let current = |row: &Delivery| row.attempts.last().is_some_and(|attempt| attempt.destination_version >= version);
        ground.until_rows(&format!("an attempt of each signed by {}", step.key_ids), BOUND, &ids, current).await?;
    }
    ground.rotating.heal(true);
    let rows = ground.ended(&ids).await?;

    let (mut overlapping, mut seen) = (0, BTreeSet::new());
    for row in &rows {
        for attempt in &row.attempts {
            let wanted = signed_by.get(&attempt.destination_version).copied().unwrap_or_default();
            drill.expect(attempt.key_ids == wanted, || format!("{}: {attempt} is not signed by {wanted}", row.id));
            seen.insert(attempt.key_ids.as_str());
            let calls = ground.calls(&row.id);
            let Some(call) = calls.iter().find(|call| call.attempt == Some(attempt.number)) else { continue };
            let signatures = wanted.split(',').count();
            drill.expect(call.signatures == signatures, || format!("{attempt}: {} signatures in the header", call.signatures));
            // While the receiver accepts both, it finds both; then the new one.
            if attempt.destination_version == 2 {
                drill.expect(call.good_signatures >= 1, || format!("{attempt}: no good signature"));
                overlapping += usize::from(call.good_signatures == 2);
            }
        }
        drill.row(&row.id, Wanted { calls: Some(row.attempts.len()), ..DELIVERED });
    }
    drill.expect(seen == BTreeSet::from(["2026a", "2026b,2026a", "2026b"]), || format!("signed by {seen:?}"));
    drill.expect(overlapping >= 2 * ROWS, || format!("both signatures were good in {overlapping} calls only"));
    let calls = ground.rotating.calls();
    let bad = ground.rotating.badly_signed().len();
    drill.expect(bad == 0, || format!("{bad} of {} calls did not verify", calls.len()));
    drill.note(format!(
        "{} calls, {} by both secrets, all verified",
        calls.len(),
        calls.iter().filter(|c| c.signatures == 2).count()
    ));
    Ok(drill)
}

fn spec(ground: &Ground<'_>, secrets: &[&str]) -> serde_json::Value {
    json!({
        "url": ground.rotating.url("recovering/rotated"),
        "secrets": secrets,
        "retry": {"base_ms": 100, "cap_ms": 200, "attempts": 20},
    })
}
