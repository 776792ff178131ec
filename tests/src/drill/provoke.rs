//! I strike: one delivery, brought to one boundary, and the blow there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use punctual_adapters::clock::machine_time;
use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, IdentityParts};
use punctual_core::message::Message;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_flows::fault::{self, Point};
use serde_json::{Value, json};

use super::cases::{Blow, Case, Until};
use super::side::{Side, until};
use super::{CLOCK_BOUND, DELIVER_TIMEOUT, DISPATCH_LEASE};
use crate::receiver::Step;

/// How often it is looked whether the boundary is reached.
const LOOK: Duration = Duration::from_millis(10);
/// Within this a delivery reaches its boundary.
const REACHED: Duration = Duration::from_secs(30);
/// The call of a worker that is killed in the middle of it lasts so long.
const LONG_CALL: Duration = Duration::from_secs(15);

/// A blow that was struck.
pub(super) struct Struck {
    /// At whose way.
    pub(super) id: DeliveryId,
    /// When.
    pub(super) at: Timestamp,
    /// What was left of the row's lease then.
    pub(super) lease_left: Duration,
    /// How long it was not due then.
    pub(super) not_due: Duration,
    /// What was not as it must be at that moment.
    pub(super) problems: Vec<String>,
}

impl Side<'_> {
    /// Brings a case's delivery to its boundary and strikes there.
    pub(super) async fn strike(&self, case: &Case) -> Result<Struck> {
        let parts = IdentityParts {
            tenant: "drill".to_owned(),
            subscriber: case.id.to_owned(),
            renewal_period: "2026".to_owned(),
            reminder_kind: "notice".to_owned(),
        };
        let id = DeliveryId::derive(&parts);
        let reminder = reminder(case, &parts);
        let mut problems = Vec::new();
        let at = match case.blow {
            Blow::Dispatch(point) => self.strike_dispatch(case, point, &id, &reminder).await?,
            Blow::Schedule(point) => self.strike_schedule(point, &id, &reminder, &mut problems).await?,
            Blow::Deliver(point) => {
                let order = self.order(point, &id)?;
                self.schedule(&reminder).await?;
                obeyed(&order).await?
            }
            Blow::WorkerInMidCall => {
                self.receiver.program(id.as_str(), [Step::status(200).after(LONG_CALL)])?;
                self.schedule(&reminder).await?;
                reached("the call", async || Ok(!self.receiver.calls_for(id.as_str()).is_empty())).await?;
                ensure!(self.stack.kill_workers("deliver")? > 0, "deliver has no worker");
                machine_time()
            }
            Blow::MessageLost => {
                let row = self.queued(&id, &reminder).await?;
                self.lose_message(&row).await?;
                let at = machine_time();
                self.stack.set_delivering(true).await?;
                at
            }
            Blow::MessageTripled => {
                let body = Message::of(&self.queued(&id, &reminder).await?).body();
                for _ in 0..2 {
                    let request = self.sqs.send_message().queue_url(&self.queue_url).message_body(&body);
                    request.send().await.context("send a copy")?;
                }
                let at = machine_time();
                self.stack.set_delivering(true).await?;
                at
            }
        };
        let row = self.row(&id).await?;
        let (lease_left, not_due) = (until(row.lease_end(), at), row.deliver_after.since(at));
        if case.until == Until::LeaseEnds {
            let most = match case.blow {
                Blow::Dispatch(_) | Blow::Schedule(_) => DISPATCH_LEASE + CLOCK_BOUND,
                _ => DELIVER_TIMEOUT + CLOCK_BOUND + CLOCK_BOUND,
            };
            if lease_left.is_zero() || lease_left > most {
                problems.push(format!("the row was left under a lease of {lease_left:?}, not of at most {most:?}"));
            }
        }
        Ok(Struck { id, at, lease_left, not_due, problems })
    }

    /// While its destination is paused the row waits in the ledger: a dispatch run, not schedule, releases it.
    async fn strike_dispatch(&self, case: &Case, point: Point, id: &DeliveryId, reminder: &Value) -> Result<Timestamp> {
        self.console.on_destination("pause", case.id).await?;
        self.schedule(reminder).await?;
        let order = self.order(point, id)?;
        let _mine = self.dispatching.lock().await;
        self.console.on_destination("resume", case.id).await?;
        let (run, at) = tokio::join!(self.console.dispatch(), obeyed(&order));
        let at = at?;
        ensure!(run.is_err(), "the dispatch run lives on");
        Ok(at)
    }

    /// The application, which has no answer, asks again: the reminder is stored.
    async fn strike_schedule(
        &self,
        point: Point,
        id: &DeliveryId,
        reminder: &Value,
        problems: &mut Vec<String>,
    ) -> Result<Timestamp> {
        let order = self.order(point, id)?;
        let reminders = std::slice::from_ref(reminder);
        let (answer, at) = tokio::join!(self.console.schedule(reminders), obeyed(&order));
        let at = at?;
        ensure!(answer.is_err(), "schedule lives on");
        let again = answered(&self.console.schedule(reminders).await?);
        if again != "unchanged" {
            problems.push(format!("scheduled again it is {again}, not unchanged"));
        }
        Ok(at)
    }

    async fn schedule(&self, reminder: &Value) -> Result<()> {
        let answer = self.console.schedule(std::slice::from_ref(reminder)).await?;
        ensure!(answered(&answer) == "created", "the reminder was not created: {answer}");
        Ok(())
    }

    /// Lays an order for a process that passes this point with this delivery.
    fn order(&self, point: Point, id: &DeliveryId) -> Result<PathBuf> {
        let path = self.orders.join(fault::order(point, id));
        std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Schedules while nobody takes messages, until the row is marked `queued`.
    async fn queued(&self, id: &DeliveryId, reminder: &Value) -> Result<Delivery> {
        self.stack.set_delivering(false).await?;
        self.schedule(reminder).await?;
        let queued = async || Ok(self.find(id).await?.is_some_and(|row| row.state == State::Queued));
        reached("queued", queued).await?;
        self.row(id).await
    }

    /// Takes a row's message out of the queue, and no other.
    async fn lose_message(&self, row: &Delivery) -> Result<()> {
        let lost = async || {
            let request = self.sqs.receive_message().queue_url(&self.queue_url).max_number_of_messages(1).visibility_timeout(1);
            let Some(message) = request.send().await.context("receive")?.messages.unwrap_or_default().pop() else {
                return Ok(false);
            };
            let body = message.body.unwrap_or_default();
            if !Message::parse(&body).is_ok_and(|message| message.delivery_id == row.id) {
                return Ok(false);
            }
            let request = self.sqs.delete_message().queue_url(&self.queue_url);
            request.set_receipt_handle(message.receipt_handle).send().await.context("delete")?;
            Ok(true)
        };
        reached("its message", lost).await
    }
}

/// Comes back when an order was taken away, which is the last that its process did.
async fn obeyed(order: &std::path::Path) -> Result<Timestamp> {
    reached("the fault point", async || Ok(!order.exists())).await?;
    Ok(machine_time())
}

/// Looks until something is the case, within a bound.
async fn reached(what: &str, mut look: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let began = machine_time();
    while !look().await? {
        if machine_time().since(began) > REACHED {
            bail!("{what} was not reached within {} s", REACHED.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Due in a second; the body says so, and the receiver checks it.
fn reminder(case: &Case, parts: &IdentityParts) -> Value {
    let due = machine_time().plus(Duration::from_secs(1));
    json!({
        "tenant": parts.tenant,
        "subscriber": parts.subscriber,
        "renewal_period": parts.renewal_period,
        "reminder_kind": parts.reminder_kind,
        "destination_id": case.id,
        "reference": format!("drill-{}", case.id),
        "deliver_after": due,
        "deliver_by": due.plus(Duration::from_secs(1_800)),
        "payload": {"drill": case.id, "due": due},
    })
}

fn answered(answer: &Value) -> String {
    answer.pointer("/results/0/answer").and_then(Value::as_str).unwrap_or("not answered").to_owned()
}
