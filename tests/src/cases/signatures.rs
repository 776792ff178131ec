//! I judge signatures, in both schemes. A line names ids and signatures, never a secret.

use punctual_core::signature::{Secret, body_signature, webhook_signature};
use serde_json::Value;

use super::entry::{Cases, Mismatch, integer, list, quoted, text};
use super::format::Format;
use super::report::Outcome;

pub(super) fn judge(file: &Value) -> Result<Outcome, String> {
    let mut cases = Cases::default();
    for (i, case) in list(file, "cases")?.iter().enumerate() {
        let which = match text(case, "webhook_id") {
            Ok(id) => format!("cases[{i}] {}", quoted(id)),
            Err(_) => format!("cases[{i}]"),
        };
        cases.take(which, one(case));
    }
    Ok(cases.outcome(Format::Signatures))
}

fn one(case: &Value) -> Result<(), Mismatch> {
    let (id, body) = (text(case, "webhook_id")?, text(case, "body")?.as_bytes());
    let timestamp = integer(case, "webhook_timestamp")?;
    let expected = [("webhook_signature", text(case, "webhook_signature")?), ("x_signature_256", text(case, "x_signature_256")?)];
    let secret = Secret::parse("case", text(case, "secret")?).map_err(|e| Mismatch::new("a signing secret", e.to_string()))?;
    let got = [webhook_signature(std::slice::from_ref(&secret), id, timestamp, body), body_signature(&secret, body)];
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    for ((name, expected), got) in expected.into_iter().zip(&got) {
        if expected != got {
            wanted.push(format!("{name} {}", quoted(expected)));
            found.push(quoted(got));
        }
    }
    if wanted.is_empty() { Ok(()) } else { Err(Mismatch::new(wanted.join(", "), found.join(", "))) }
}
