//! What happens on the wire and no emulator does by itself: lost answers, keys left unprocessed, conflicting
//! transactions, throttling.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use punctual_adapters::dynamodb::{DynamoControl, DynamoLedger};
use punctual_core::id::{DeliveryId, IdempotencyKey};
use punctual_core::ports::{Acquired, Control as _, Created, Ledger as _, PortError, Stored, Written};
use punctual_core::transition;
use serde_json::{Value, json};

use crate::rows::{MARGIN, hold, payload, row, stamp};
use crate::worlds::{self, World as _, client};
use crate::{claims, servers};

/// Serves on a free port for as long as the test's runtime lives.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    endpoint
}

/// Answers with these texts in turn, the last one for ever, and keeps the requests.
#[derive(Clone)]
pub(crate) struct Script {
    answers: Arc<Vec<(u16, Value)>>,
    requests: Arc<Mutex<Vec<Value>>>,
}

async fn scripted(answers: Vec<(u16, Value)>) -> (DynamoLedger, Script) {
    let (endpoint, script) = scripted_http(answers).await;
    (DynamoLedger::new(client(&endpoint), "table"), script)
}

/// The address of a service that answers so.
pub(crate) async fn scripted_http(answers: Vec<(u16, Value)>) -> (String, Script) {
    let script = Script { answers: Arc::new(answers), requests: Arc::default() };
    let answer = |State(script): State<Script>, body: Bytes| async move {
        let mut requests = script.requests.lock().expect("no test failed");
        let (status, answer) = script.answers[requests.len().min(script.answers.len() - 1)].clone();
        let body: &[u8] = if body.is_empty() { b"null" } else { &body };
        requests.push(serde_json::from_slice(body).expect("JSON"));
        (StatusCode::from_u16(status).expect("a status"), answer.to_string()).into_response()
    };
    (serve(Router::new().fallback(answer).with_state(script.clone())).await, script)
}

impl Script {
    fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("no test failed").clone()
    }
}

fn migrated() -> punctual_core::delivery::Delivery {
    let mut row = row(1);
    row.id = DeliveryId::new("old-1").expect("an id");
    row.idempotency_key = IdempotencyKey::new("old-key").expect("a key");
    row
}

fn unprocessed(ids: &[&str]) -> Value {
    let keys: Vec<Value> = ids.iter().map(|id| json!({"delivery_id": {"S": id}, "item": {"S": "delivery"}})).collect();
    json!({"Responses": {}, "UnprocessedKeys": {"table": {"Keys": keys, "ConsistentRead": true}}})
}

#[tokio::test]
async fn keys_left_unprocessed_are_asked_for_again() {
    let done = json!({"Responses": {"table": []}, "UnprocessedKeys": {}});
    let (ledger, script) = scripted(vec![(200, unprocessed(&["a", "b"])), (200, unprocessed(&["b"])), (200, done)]).await;
    let ids = ["a", "b", "c"].map(|id| DeliveryId::new(id).expect("an id"));
    assert_eq!(ledger.read(&ids).await.unwrap(), []);
    let asked: Vec<usize> =
        script.requests().iter().map(|r| r["RequestItems"]["table"]["Keys"].as_array().expect("keys").len()).collect();
    assert_eq!(asked, [3, 2, 1]);
    assert!(script.requests().iter().all(|r| r["RequestItems"]["table"]["ConsistentRead"] == true));
}

#[tokio::test]
async fn keys_that_stay_unprocessed_are_unavailable() {
    let (ledger, script) = scripted(vec![(200, unprocessed(&["a"]))]).await;
    let result = ledger.read(&[DeliveryId::new("a").expect("an id")]).await;
    assert!(matches!(result, Err(PortError::Unavailable { what: "read", .. })), "{result:?}");
    assert_eq!(script.requests().len(), 6);
}

#[tokio::test]
async fn throttling_is_unavailable_and_a_missing_permission_is_refused() {
    for (code, unavailable) in [("ThrottlingException", true), ("AccessDeniedException", false)] {
        let answer = json!({"__type": format!("com.amazon.coral.service#{code}"), "message": "said"});
        let (ledger, _) = scripted(vec![(400, answer)]).await;
        let error = ledger.acquire(&claims::for_dispatch(&row(1), "owner")).await.expect_err("an error");
        assert_eq!(matches!(error, PortError::Unavailable { .. }), unavailable, "{error:?}");
    }
}

#[tokio::test]
async fn a_cancelled_transaction_is_read_by_its_reasons() {
    let cancelled = |reasons: [Value; 3]| {
        let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
        vec![(200, json!({})), (400, json!({"__type": kind, "Message": "said", "CancellationReasons": reasons}))]
    };
    let none = || json!({"Code": "None"});
    let conflict = || json!({"Code": "TransactionConflict", "Message": "said"});
    let (ledger, _) = scripted(cancelled([none(), conflict(), none()])).await;
    let result = ledger.create(&migrated(), &payload(1, "{}")).await;
    assert!(matches!(result, Err(PortError::Unavailable { what: "create", .. })), "{result:?}");
    // A failed condition decides, whatever else was in the way.
    let lock = json!({"Code": "ConditionalCheckFailed", "Item": {"delivery_id": {"S": "key.old-key"}, "holder": {"S": "old-9"}}});
    let (ledger, script) = scripted(cancelled([conflict(), lock, none()])).await;
    let holder = DeliveryId::new("old-9").expect("an id");
    assert_eq!(ledger.create(&migrated(), &payload(1, "{}")).await.unwrap(), Created::Taken(holder));
    let token = &script.requests()[1]["ClientRequestToken"];
    assert!(token.is_string(), "the service recognises a repeat by its token: {token}");
}

/// A dynoxide that does what it is told, but whose every second answer is a failure: each call is made twice.
async fn lossy() -> String {
    #[derive(Clone)]
    struct Proxy {
        http: reqwest::Client,
        target: String,
        lose: Arc<Mutex<bool>>,
    }
    let forward = |State(proxy): State<Proxy>, headers: HeaderMap, body: Bytes| async move {
        let mut request = proxy.http.post(&proxy.target).body(body);
        for name in ["x-amz-target", "content-type", "authorization", "x-amz-date"] {
            request = request.header(name, headers.get(name).cloned().expect("a header of the SDK"));
        }
        let answer = request.send().await.expect("dynoxide answers");
        let (status, body) = (answer.status(), answer.bytes().await.expect("a body"));
        let mut lose = proxy.lose.lock().expect("no test failed");
        *lose = !*lose;
        let lost = || (StatusCode::INTERNAL_SERVER_ERROR, "{}").into_response();
        let shown = |status: u16| (StatusCode::from_u16(status).expect("a status"), body).into_response();
        let response: Response = if *lose { lost() } else { shown(status.as_u16()) };
        response
    };
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let proxy = Proxy { http, target: servers::dynoxide_endpoint(), lose: Arc::default() };
    serve(Router::new().fallback(forward).with_state(proxy)).await
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_has_one_effect() {
    let world = worlds::dynoxide("lossy").await;
    let client = client(&lossy().await);
    let ledger = DynamoLedger::new(client.clone(), &world.ledger_table);
    let stored = async |id| world.ledger().partition(id).await.unwrap().expect("a partition").row;

    let row = row(1);
    // The second time it is there already, as it should be.
    assert_eq!(ledger.create(&row, &payload(1, "{}")).await.unwrap(), Created::Exists(Box::new(row.clone())));
    let acquire = claims::for_dispatch(&row, "owner");
    let expected = acquire.claim.apply(&row);
    assert_eq!(ledger.acquire(&acquire).await.unwrap(), Acquired::Won(Box::new(expected.clone())));
    let held = transition::held(&expected, hold(), MARGIN, &stamp(4, "operator")).expect("held");
    assert_eq!(ledger.write(&held).await.unwrap(), Written::Done);
    assert_eq!(stored(&row.id).await, held.after);
    let expired = transition::expired(&held.after, &stamp(5, "dispatch")).expect("expired");
    assert_eq!(ledger.write(&expired).await.unwrap(), Written::Done);
    assert_eq!(stored(&row.id).await, expired.after);

    let created = ledger.create(&migrated(), &payload(2, "{}")).await.unwrap();
    assert!(matches!(created, Created::New | Created::Exists(_)), "not taken by itself: {created:?}");
    assert_eq!(stored(&migrated().id).await, migrated());

    let control = DynamoControl::new(client, &world.control_table);
    let destination = crate::control::destination("acme", 1);
    assert_eq!(control.put_destination(&destination, 0).await.unwrap(), Stored::Done);
    assert_eq!(world.control().destinations().await.unwrap(), [destination]);
}
