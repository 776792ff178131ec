//! What a person does in the console, as code: test events to the deployed functions, and their answers.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::stack::Stack;

/// A console on a running stack.
#[derive(Debug, Clone, Copy)]
pub struct Console<'a> {
    stack: &'a Stack,
}

impl<'a> Console<'a> {
    /// A console on this stack.
    #[must_use]
    pub fn new(stack: &'a Stack) -> Self {
        Self { stack }
    }

    /// Sends an event and gives the answer.
    ///
    /// # Errors
    /// If the function failed; the error holds what it said.
    pub async fn send(&self, function: &str, event: &Value) -> Result<Value> {
        let invocation = self.stack.invoke(function, event).await.with_context(|| format!("{function} could not be invoked"))?;
        if let Some(error) = &invocation.function_error {
            bail!("{function} failed ({error}): {}", invocation.payload);
        }
        Ok(invocation.payload)
    }

    /// Sends an event and expects `ok`.
    ///
    /// # Errors
    /// If the function failed or refused; the error holds what it said.
    pub async fn do_it(&self, function: &str, event: &Value) -> Result<Value> {
        let answer = self.send(function, event).await?;
        if answer.get("ok").and_then(Value::as_bool) != Some(true) {
            bail!("{function} refused: {answer}");
        }
        Ok(answer)
    }

    /// Stores a signing secret.
    ///
    /// # Errors
    /// If the store refuses it.
    pub async fn create_secret(&self, name: &str, value: &str) -> Result<()> {
        self.stack.secrets().await.create_secret().name(name).secret_string(value).send().await.context("create the secret")?;
        Ok(())
    }

    /// Registers or replaces a destination.
    ///
    /// # Errors
    /// If operate refuses it.
    pub async fn put_destination(&self, destination: Value) -> Result<Value> {
        let event = json!({"action": "put_destination", "by": "ops", "why": "local stack", "evidence": "a test", "destination": destination});
        self.do_it("operate", &event).await
    }

    /// `pause` or `resume` a destination.
    ///
    /// # Errors
    /// If operate refuses it.
    pub async fn on_destination(&self, action: &str, destination_id: &str) -> Result<Value> {
        let event =
            json!({"action": action, "by": "ops", "why": "local stack", "evidence": "a test", "destination_id": destination_id});
        self.do_it("operate", &event).await
    }

    /// `hold`, `release` or `cancel` a delivery.
    ///
    /// # Errors
    /// If operate refuses it.
    pub async fn on_delivery(&self, action: &str, delivery_id: &str) -> Result<Value> {
        let event =
            json!({"action": action, "by": "ops", "why": "local stack", "evidence": "a test", "delivery_id": delivery_id});
        self.do_it("operate", &event).await
    }

    /// Schedules reminders and gives the whole answer, refusals included.
    ///
    /// # Errors
    /// If the function failed.
    pub async fn schedule(&self, reminders: &[Value]) -> Result<Value> {
        self.send("schedule", &json!({"action": "schedule", "reminders": reminders})).await
    }

    /// Runs dispatch once and gives its summary.
    ///
    /// # Errors
    /// If the function failed.
    pub async fn dispatch(&self) -> Result<Value> {
        self.send("dispatch", &json!({"tick": {}})).await
    }

    /// Explains a delivery.
    ///
    /// # Errors
    /// If inspect refuses it.
    pub async fn explain(&self, delivery_id: &str) -> Result<Value> {
        self.do_it("inspect", &json!({"action": "explain", "delivery_id": delivery_id})).await
    }
}
