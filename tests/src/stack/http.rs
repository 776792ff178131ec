//! The few AWS calls that deploy and drive the stack, as plain HTTP: two more SDKs would cost minutes of build time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use data_encoding::BASE64;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use url::form_urlencoded;

use super::REGION;

/// Longer than any function's timeout.
const CALL_BOUND: Duration = Duration::from_secs(120);
const STACK_POLL: Duration = Duration::from_millis(50);

/// What a function answered.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The function's answer, or the description of its error.
    pub payload: Value,
    /// `Handled` or `Unhandled` if the function failed.
    pub function_error: Option<String>,
    /// The last 4 KB of what the function logged.
    pub log_tail: String,
}

impl Invocation {
    /// The payload of a function that did not fail.
    ///
    /// # Errors
    ///
    /// If the function failed, with its error and the end of its log.
    pub fn ok(self) -> Result<Value> {
        match self.function_error {
            None => Ok(self.payload),
            Some(kind) => bail!("the function failed ({kind}): {}\n{}", self.payload, self.log_tail),
        }
    }
}

/// The emulator's endpoints.
#[derive(Debug)]
pub(crate) struct Api {
    client: reqwest::Client,
    endpoint: String,
}

impl Api {
    pub(crate) fn new(endpoint: &str) -> Result<Self> {
        let client = reqwest::Client::builder().no_proxy().timeout(CALL_BOUND).build().context("cannot make an HTTP client")?;
        Ok(Self { client, endpoint: endpoint.to_owned() })
    }

    /// A request that the emulator routes to a service. It reads the scope and checks no signature.
    fn request(&self, method: Method, service: &str, path: &str) -> RequestBuilder {
        let scope = format!("test/20260101/{REGION}/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none");
        self.client.request(method, format!("{}{path}", self.endpoint)).header("authorization", authorization)
    }

    pub(super) async fn create_bucket(&self, bucket: &str) -> Result<()> {
        text(self.request(Method::PUT, "s3", &format!("/{bucket}")), "creating the bucket").await.map(drop)
    }

    pub(super) async fn put_object(&self, bucket: &str, key: &str, content: Vec<u8>) -> Result<()> {
        let request = self.request(Method::PUT, "s3", &format!("/{bucket}/{key}")).body(content);
        text(request, &format!("uploading {key}")).await.map(drop)
    }

    async fn cloudformation(&self, action: &str, fields: &[(String, String)]) -> Result<String> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", "2010-05-15").extend_pairs(fields);
        let request = self
            .request(Method::POST, "cloudformation", "/")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form.finish());
        text(request, action).await
    }

    pub(super) async fn create_stack(&self, name: &str, template: &str, parameters: &BTreeMap<String, String>) -> Result<()> {
        let mut fields = vec![
            ("StackName".to_owned(), name.to_owned()),
            ("TemplateBody".to_owned(), template.to_owned()),
            ("Capabilities.member.1".to_owned(), "CAPABILITY_IAM".to_owned()),
            ("Capabilities.member.2".to_owned(), "CAPABILITY_AUTO_EXPAND".to_owned()),
        ];
        for (number, (key, value)) in parameters.iter().enumerate() {
            let member = format!("Parameters.member.{}", number + 1);
            fields.push((format!("{member}.ParameterKey"), key.clone()));
            fields.push((format!("{member}.ParameterValue"), value.clone()));
        }
        self.cloudformation("CreateStack", &fields).await.map(drop)
    }

    /// Waits for the end of the creation; answers with the outputs. The caller sets the bound.
    pub(super) async fn stack_created(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let fields = [("StackName".to_owned(), name.to_owned())];
        loop {
            let answer = self.cloudformation("DescribeStacks", &fields).await?;
            match element(&answer, "StackStatus") {
                Some("CREATE_COMPLETE") => {
                    return Ok(elements(&answer, "member")
                        .filter_map(|output| {
                            Some((unescape(element(output, "OutputKey")?), unescape(element(output, "OutputValue")?)))
                        })
                        .collect());
                }
                Some("CREATE_IN_PROGRESS" | "REVIEW_IN_PROGRESS") => tokio::time::sleep(STACK_POLL).await,
                status => {
                    let status = status.unwrap_or("unknown").to_owned();
                    let events = self.cloudformation("DescribeStackEvents", &fields).await?;
                    bail!("the template was not deployed ({status}): {}", failures(&events));
                }
            }
        }
    }

    /// The event is sent as it is written: a payload's bytes are the producer's.
    pub(crate) async fn invoke(&self, function: &str, event: String) -> Result<Invocation> {
        let answer = self
            .request(Method::POST, "lambda", &format!("/2015-03-31/functions/{function}/invocations"))
            .header("x-amz-log-type", "Tail")
            .body(event)
            .send()
            .await
            .with_context(|| format!("invoking {function}"))?;
        let status = answer.status();
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let function_error = header("x-amz-function-error");
        let log_tail = header("x-amz-log-result")
            .and_then(|tail| BASE64.decode(tail.as_bytes()).ok())
            .map(|tail| String::from_utf8_lossy(&tail).into_owned())
            .unwrap_or_default();
        let body = answer.text().await.with_context(|| format!("reading the answer of {function}"))?;
        if status != StatusCode::OK {
            bail!("invoking {function}: {status}: {body}");
        }
        let payload = serde_json::from_str(&body).with_context(|| format!("{function} answered no JSON: {body}"))?;
        Ok(Invocation { payload, function_error, log_tail })
    }

    pub(super) async fn invoke_async(&self, function: &str, event: &Value) -> Result<()> {
        let request = self
            .request(Method::POST, "lambda", &format!("/2015-03-31/functions/{function}/invocations"))
            .header("x-amz-invocation-type", "Event")
            .body(event.to_string());
        text(request, &format!("invoking {function}")).await.map(drop)
    }

    /// Switches all event source mappings of a function on or off.
    pub(super) async fn set_event_sources(&self, function: &str, enabled: bool) -> Result<()> {
        let path = "/2015-03-31/event-source-mappings";
        let list = self.request(Method::GET, "lambda", &format!("{path}/?FunctionName={function}"));
        let list: Value = serde_json::from_str(&text(list, "listing event sources").await?)?;
        let identifiers: Vec<&str> = list
            .get("EventSourceMappings")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|mapping| mapping.get("UUID")?.as_str())
            .collect();
        if identifiers.is_empty() {
            bail!("{function} has no event source");
        }
        for identifier in identifiers {
            let change = serde_json::json!({ "Enabled": enabled }).to_string();
            let request = self.request(Method::PUT, "lambda", &format!("{path}/{identifier}")).body(change);
            text(request, "changing an event source").await?;
        }
        Ok(())
    }

    /// Switches a schedule on or off and leaves the rest of it as it is.
    pub(super) async fn set_schedule(&self, group: &str, name: &str, enabled: bool) -> Result<()> {
        let path = format!("/schedules/{name}?groupName={group}");
        let current = text(self.request(Method::GET, "scheduler", &path), "reading the schedule").await?;
        let mut schedule: Value = serde_json::from_str(&current).context("the schedule is no JSON")?;
        let fields = schedule.as_object_mut().ok_or_else(|| anyhow!("the schedule is no JSON object"))?;
        for read_only in ["Arn", "CreationDate", "LastModificationDate", "Name"] {
            fields.remove(read_only);
        }
        fields.insert("State".to_owned(), Value::from(if enabled { "ENABLED" } else { "DISABLED" }));
        let request = self.request(Method::PUT, "scheduler", &format!("/schedules/{name}")).body(schedule.to_string());
        text(request, "changing the schedule").await.map(drop)
    }

    /// What stands in a log group, line by line; empty if nobody has written to it.
    pub(super) async fn log_lines(&self, group: &str) -> Result<Vec<String>> {
        let request = self
            .request(Method::POST, "logs", "/")
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .body(serde_json::json!({ "logGroupName": group }).to_string());
        let answer: Value = serde_json::from_str(&text(request, "FilterLogEvents").await?).context("no JSON")?;
        let events = answer.get("events").and_then(Value::as_array).into_iter().flatten();
        let messages = events.filter_map(|event| event.get("message")?.as_str());
        Ok(messages.flat_map(str::lines).map(str::to_owned).collect())
    }

    pub(crate) async fn dynamodb(&self, operation: &str, request: &Value) -> Result<Value> {
        let request = self
            .request(Method::POST, "dynamodb", "/")
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("x-amz-date", "20260101T000000Z")
            .body(request.to_string());
        serde_json::from_str(&text(request, operation).await?).with_context(|| format!("{operation} answered no JSON"))
    }
}

/// Sends a request; the body of a successful answer.
async fn text(request: RequestBuilder, what: &str) -> Result<String> {
    let answer = request.send().await.with_context(|| what.to_owned())?;
    let status = answer.status();
    let body = answer.text().await.with_context(|| what.to_owned())?;
    if status.is_success() {
        return Ok(body);
    }
    match element(&body, "Message") {
        Some(message) => bail!("{what}: {}", unescape(message)),
        None => bail!("{what}: {status}: {body}"),
    }
}

/// Content of the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

/// Contents of all elements of this name that hold no element of the same name before their end.
fn elements<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts: Vec<&str> = xml.split(&close).collect();
    parts.into_iter().filter_map(move |part| part.rsplit_once(&open).map(|(_, content)| content))
}

fn unescape(xml: &str) -> String {
    xml.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

/// The resources that failed and why, in one line.
fn failures(events: &str) -> String {
    let mut reasons: Vec<String> = elements(events, "member")
        .filter(|event| element(event, "ResourceStatus").is_some_and(|status| status.ends_with("_FAILED")))
        .map(|event| {
            let resource = element(event, "LogicalResourceId").unwrap_or("a resource");
            format!("{resource}: {}", unescape(element(event, "ResourceStatusReason").unwrap_or("no reason given")))
        })
        .collect();
    reasons.dedup();
    if reasons.is_empty() { "no resource says why".to_owned() } else { reasons.join("; ") }
}
