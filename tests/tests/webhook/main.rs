//! The webhook client against receivers that misbehave, names that lie and calls that must not start.
//!
//! Every call here ends by its own timeouts: [`call`] adds nothing but a generous bound around them.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod headers;
mod hostile;
mod names;
mod receiver;
mod row;
mod server;
mod start;
mod tls;

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_adapters::webhook::{HttpWebhook, WebhookConfig};
use punctual_core::clock::Now;
use punctual_core::outcome::{CallResult, Class, Failure, classify};
use punctual_core::ports::{Request, Webhook};
use punctual_core::reason::Reason;
use punctual_core::rule::Rule;
use punctual_core::time::Timestamp;

/// How much later than its total timeout a call may end on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

fn config(allow_local: bool) -> WebhookConfig {
    WebhookConfig { allow_local, user_agent: "punctual/test".into(), ..WebhookConfig::default() }
}

fn local() -> HttpWebhook {
    HttpWebhook::new(config(true)).expect("a client")
}

fn request(url: impl Into<String>, connect_ms: u64, total_ms: u64) -> Request {
    Request {
        url: url.into(),
        headers: vec![("content-type", "application/json".into()), ("x-test", "1".into())],
        body: b"{\"a\":1}".to_vec(),
        connect_timeout: Duration::from_millis(connect_ms),
        total_timeout: Duration::from_millis(total_ms),
    }
}

/// A call that may start, with timeouts that only a fault reaches.
async fn call(webhook: &HttpWebhook, url: &str) -> CallResult {
    bounded(webhook, &request(url, 5_000, 10_000), &|| true).await
}

/// A call that must run into its total timeout, or end before.
async fn call_briefly(webhook: &HttpWebhook, url: &str) -> CallResult {
    bounded(webhook, &request(url, 500, 600), &|| true).await
}

async fn bounded(webhook: &HttpWebhook, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
    let call = webhook.call(request, may_start);
    tokio::time::timeout(request.total_timeout + SLACK, call).await.expect("the call outlived its timeout")
}

/// Refused by the rule with this word, and by the reason that goes with it.
fn refused(rule: &str) -> CallResult {
    let rule: Rule = rule.parse().expect("a rule");
    let result = CallResult::Failed(Failure::Refused(rule));
    let reason = if rule.code().starts_with("certificate-") { Reason::CertificateRefused } else { Reason::AddressRefused };
    let class = classify(&result, &BTreeMap::new(), Now::exactly(Timestamp::from_millis(0)));
    assert_eq!(class, Class::Retry { reason, floor: None, unknown: false }, "{rule}");
    result
}

fn answered(status: u16) -> CallResult {
    CallResult::Answered { status, retry_after: None }
}
