//! I send a canary through the stack that `make up` started, as an operator does it in the console: the very events, a
//! destination of its own, and a receiver that answers 200.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use punctual_adapters::clock::machine_time;
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::stack::detached::{self, Note};
use crate::stack::http::Api;
use crate::stack::{root, sdk_config};

/// The signing secret of the canary's destination.
const SECRET: &str = "whsec_cHVuY3R1YWwtY2FuYXJ5LXNlY3JldC0yMDI3LTAx";
/// Its name below the stage's path.
const SECRET_NAME: &str = "punctual/local/canary";
/// How often it is asked for.
const POLL: Duration = Duration::from_secs(1);

/// One of the console's test events.
fn event(file: &str) -> Result<Value> {
    let path = root().join(Path::new("events")).join(file);
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}

/// A console on the running stack.
struct Console {
    api: Api,
    note: Note,
}

impl Console {
    async fn send(&self, function: &str, event: &Value) -> Result<Value> {
        let output = format!(
            "{}FunctionName",
            function.get(..1).unwrap_or_default().to_ascii_uppercase() + function.get(1..).unwrap_or_default()
        );
        let name = self.note.outputs.get(&output).with_context(|| format!("the stack has no {output}"))?;
        let invocation = self.api.invoke(name, event.to_string()).await?;
        if let Some(error) = invocation.function_error {
            bail!("{function} failed ({error}): {}", invocation.payload);
        }
        ensure!(part(&invocation.payload, "/ok") == true, "{function} refused: {}", invocation.payload);
        Ok(invocation.payload)
    }

    /// Stores the secret, unless it is there.
    async fn secret(&self) -> Result<()> {
        let client = aws_sdk_secretsmanager::Client::new(&sdk_config(&self.note.endpoint).await);
        match client.create_secret().name(SECRET_NAME).secret_string(SECRET).send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_resource_exists_exception()) => Ok(()),
            Err(error) => Err(error).context("the canary's secret cannot be stored"),
        }
    }
}

/// A part of an answer; null if it has none.
fn part<'v>(answer: &'v Value, pointer: &str) -> &'v Value {
    answer.pointer(pointer).unwrap_or(&Value::Null)
}

/// Puts something else into an event.
fn put(event: &mut Value, pointer: &str, value: Value) -> Result<()> {
    *event.pointer_mut(pointer).with_context(|| format!("the event has no {pointer}"))? = value;
    Ok(())
}

/// Sends a canary and follows it until it has passed, or a stage of its way is broken; says whether it has passed.
///
/// # Errors
/// If no stack runs, or a function refuses what it must take.
pub async fn play() -> Result<bool> {
    let note = detached::running()?;
    let console = Console { api: Api::new(&note.endpoint)?, note };
    let receiver = Receiver::start(&[SECRET]).await?;
    console.secret().await?;
    let mut destination = event("operate.put-destination-canary.json")?;
    put(&mut destination, "/destination/url", receiver.url("healthy/canary").into())?;
    put(&mut destination, "/destination/secrets", json!([SECRET_NAME]))?;
    console.send("operate", &destination).await?;

    let mut canary = event("schedule.canary.json")?;
    put(&mut canary, "/run", json!(machine_time()))?;
    let sent = console.send("schedule", &canary).await?;
    let id = part(&sent, "/results/0/delivery_id").as_str().unwrap_or_default();
    println!("A canary is on its way ({id}); dispatch takes it at its next tick.\n");
    let ask = part(&sent, "/canary/ask_inspect");
    let mut told = 1;
    loop {
        let answer = console.send("inspect", ask).await?;
        let lines: Vec<&str> = part(&answer, "/text").as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let passed = part(&answer, "/canary/stages").as_array().map_or(0, Vec::len);
        // The verdict comes first, and last here; between them one line for each stage.
        lines.iter().take(passed + 1).skip(told).for_each(|line| println!("    {line}"));
        told = told.max(passed + 1);
        let verdict = part(&answer, "/canary/verdict");
        if verdict != "waiting" {
            lines.iter().skip(passed + 1).for_each(|line| println!("    {line}"));
            println!("\n{}", lines.first().copied().unwrap_or_default());
            receiver.stop().await?;
            return Ok(verdict == "passed");
        }
        tokio::time::sleep(POLL).await;
    }
}
