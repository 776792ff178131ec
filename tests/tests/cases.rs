//! The shared cases, run on the product's own code. Each failing case is a line.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::time::Duration;

use punctual_core::signature::{Secret, body_signature, webhook_signature};
use punctual_core::time::Timestamp;
use punctual_core::{address, destination, retry_after};
use serde_json::Value;

fn cases(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn list<'a>(cases: &'a Value, name: &str) -> &'a [Value] {
    let list = cases[name].as_array().expect("a list");
    assert!(!list.is_empty(), "no {name}");
    list
}

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().expect(name)
}

fn none_fails(failures: &[String]) {
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn addresses() {
    let cases = cases(include_str!("../cases/addresses.json"));
    let mut failures = Vec::new();
    for (name, refused) in [("refuse", true), ("allow", false)] {
        for case in list(&cases, name) {
            let text = case.as_str().expect("a text");
            let address: IpAddr = text.parse().expect("an address");
            let rule = address::refused(address);
            if rule.is_some() != refused {
                failures.push(format!("{name} {text}: {rule:?}"));
            }
        }
    }
    for case in list(&cases, "refuse_urls") {
        let url = case.as_str().expect("a text");
        if destination::check_url(url, &[], false).is_ok() {
            failures.push(format!("refuse_urls {url}: accepted"));
        }
    }
    none_fails(&failures);
}

#[test]
fn signatures() {
    let cases = cases(include_str!("../cases/signatures.json"));
    let mut failures = Vec::new();
    for case in list(&cases, "cases") {
        let (id, body) = (text(case, "webhook_id"), text(case, "body").as_bytes());
        let secret = match Secret::parse("k", text(case, "secret")) {
            Ok(secret) => secret,
            Err(error) => {
                failures.push(format!("{id}: {error}"));
                continue;
            }
        };
        let timestamp = case["webhook_timestamp"].as_i64().expect("a timestamp");
        let signature = webhook_signature(std::slice::from_ref(&secret), id, timestamp, body);
        if signature != text(case, "webhook_signature") {
            failures.push(format!("{id}: webhook-signature {signature}"));
        }
        let signature = body_signature(&secret, body);
        if signature != text(case, "x_signature_256") {
            failures.push(format!("{id}: x-signature-256 {signature}"));
        }
    }
    none_fails(&failures);
}

#[test]
fn retry_after() {
    let cases = cases(include_str!("../cases/retry_after.json"));
    let now: Timestamp = text(&cases, "now").parse().expect("an instant");
    let mut failures = Vec::new();
    for case in list(&cases, "cases") {
        let header = text(case, "retry_after");
        let floor = retry_after::floor(header, now);
        let good = match &case["floor_s"] {
            Value::Null => floor.is_none(),
            Value::Number(seconds) => floor == seconds.as_u64().map(Duration::from_secs),
            Value::String(word) if word == "either" => true,
            Value::String(word) if word == "beyond_any_deadline" => {
                floor.is_some_and(|f| f > Duration::from_secs(86_400 * 3_650))
            }
            other => panic!("an unknown expectation: {other}"),
        };
        if !good {
            failures.push(format!("{header:?}: {floor:?}, not {}", case["floor_s"]));
        }
    }
    none_fails(&failures);
}
