//! I am as much of SQS as a delivery without a failure needs, below the SDK: requests in, responses out, no network.
//!
//! I exist so that the shipped SQS adapter runs and its requests can be counted. I know no time: a message is visible
//! at once, whatever its delay, and deliver waits for the row's own instant.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

/// The service.
#[derive(Debug, Clone, Default)]
pub(super) struct Sqs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    accepted: u64,
    waiting: VecDeque<Message>,
    received: BTreeMap<String, Message>,
}

#[derive(Debug, Clone)]
struct Message {
    id: String,
    body: String,
}

impl Sqs {
    /// The way to me, for an SDK client.
    pub(super) fn http_client(&self) -> SharedHttpClient {
        let connector = SharedHttpConnector::new(self.clone());
        http_client_fn(move |_: &HttpConnectorSettings, _: &RuntimeComponents| connector.clone())
    }

    /// Messages that were accepted and not deleted.
    pub(super) fn depth(&self) -> usize {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.len() + state.received.len()
    }
}

impl HttpConnector for Sqs {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
        let answer = request
            .body()
            .bytes()
            .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok())
            .and_then(|body| self.0.lock().unwrap_or_else(PoisonError::into_inner).answer(&target, &body));
        HttpConnectorFuture::ready(match answer {
            Some(answer) => status(200).map(|status| HttpResponse::new(status, SdkBody::from(answer.to_string()))),
            None => Err(ConnectorError::user(format!("{target} is not answered here").into())),
        })
    }
}

fn status(code: u16) -> Result<aws_smithy_runtime_api::http::StatusCode, ConnectorError> {
    code.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))
}

impl State {
    fn answer(&mut self, target: &str, body: &Value) -> Option<Value> {
        let entries = || body.get("Entries").and_then(Value::as_array).into_iter().flatten();
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        match target {
            "AmazonSQS.SendMessageBatch" => {
                let mut successful = Vec::new();
                for entry in entries() {
                    self.accepted += 1;
                    // As long as SQS's own.
                    let id = format!("00000000-0000-4000-8000-{:012}", self.accepted);
                    successful.push(json!({"Id": text(entry, "Id")?, "MessageId": id, "MD5OfMessageBody": ""}));
                    self.waiting.push_back(Message { id, body: text(entry, "MessageBody")? });
                }
                Some(json!({"Successful": successful, "Failed": []}))
            }
            "AmazonSQS.ReceiveMessage" => {
                let most = body.get("MaxNumberOfMessages").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok())?;
                let taken: Vec<Message> = self.waiting.drain(..most.min(self.waiting.len())).collect();
                let messages: Vec<Value> = taken
                    .iter()
                    .map(|m| json!({"MessageId": m.id, "ReceiptHandle": m.id, "Body": m.body, "MD5OfBody": ""}))
                    .collect();
                self.received.extend(taken.into_iter().map(|message| (message.id.clone(), message)));
                Some(json!({ "Messages": messages }))
            }
            "AmazonSQS.DeleteMessageBatch" => {
                let mut successful = Vec::new();
                for entry in entries() {
                    self.received.remove(&text(entry, "ReceiptHandle")?)?;
                    successful.push(json!({"Id": text(entry, "Id")?}));
                }
                Some(json!({"Successful": successful, "Failed": []}))
            }
            _ => None,
        }
    }
}
