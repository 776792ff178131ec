//! What a request says on the wire.

use std::sync::{Arc, Mutex};

use punctual_adapters::webhook::{HeaderInput, USER_AGENT, headers};
use punctual_core::destination::KeyForm;
use punctual_core::id::{DeliveryId, IdempotencyKey};
use punctual_core::ports::Request;
use punctual_core::signature::Secret;
use tokio::io::AsyncWriteExt;

use super::server::{Raw, read_request};
use super::{answered, bounded, local, request};

const ID: &str = "dlv_j7m64rugcqtpndphfuqwp5tjax";

fn prepared(url: String, secrets: &[Secret], seconds: i64, body: &[u8]) -> Request {
    let headers = headers(&HeaderInput {
        delivery_id: &DeliveryId::new(ID).expect("an id"),
        idempotency_key: &IdempotencyKey::new(ID).expect("a key"),
        key_form: KeyForm::Bare,
        attempt: 3,
        timestamp_seconds: seconds,
        secrets,
        body,
    });
    Request { headers, body: body.to_vec(), ..request(url, 5_000, 10_000) }
}

#[tokio::test]
async fn the_request_is_what_the_contract_says_and_nothing_more() {
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&seen);
    let server = Raw::start(move |mut stream, _| {
        let kept = Arc::clone(&kept);
        async move {
            let request = read_request(&mut stream).await.expect("a request");
            *kept.lock().expect("unpoisoned") = request;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("written");
        }
    })
    .await;
    // The first reference case of tests/cases/signatures.json.
    let secret = Secret::parse("a", "whsec_ijkalhPdPaFJX77OsDrQJa/bZd4UvPuT").expect("a secret");
    let request = prepared(server.url() + "?a=b", &[secret], 1_797_032_500, b"{\"a\":1}");
    assert_eq!(bounded(&local(), &request, &|| true).await, answered(200));
    let seen = seen.lock().expect("unpoisoned").clone();
    let (head, body) = seen.split_once("\r\n\r\n").expect("a head");
    assert_eq!(body, "{\"a\":1}", "the exact bytes");
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines.remove(0), "POST /hook?a=b HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: {}", server.address);
    let agent = format!("user-agent: {USER_AGENT}");
    let id = format!("webhook-id: {ID}");
    let key = format!("idempotency-key: {ID}");
    let mut expected = vec![
        "accept: */*",
        "content-length: 7",
        "content-type: application/json",
        &host,
        &key,
        &agent,
        &id,
        "webhook-signature: v1,PgNYPUK1Bjxlq/TkEBDcEfHKOkYJNYA1n5WPXfigtZs=",
        "webhook-timestamp: 1797032500",
        "x-delivery-attempt: 3",
        "x-signature-256: 8db258658eed0a12a0cf9a11a4ae791bd402115a9dd6f8faa168b5f5d8fe7571",
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

/// Shared with the receiver's own tests: a signed request of now.
pub(crate) fn signed(url: String, secrets: &[Secret], body: &[u8]) -> Request {
    prepared(url, secrets, now_seconds(), body)
}

#[expect(clippy::disallowed_methods, reason = "the reference implementation compares with the real time")]
fn now_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("in range")
}
