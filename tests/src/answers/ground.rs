//! I am what every drill stands on: a stack, receivers, a ledger to look into, and waiting with a bound.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::{DynamoControl, DynamoLedger};
use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, DestinationId, IdentityParts};
use punctual_core::ports::{Control as _, Ledger as _};
use punctual_core::time::Timestamp;
use serde_json::{Value, json};

use crate::console::Console;
use crate::receiver::{Call, Receiver, ReceiverOptions};
use crate::stack::{Stack, sdk_config};

/// The signing secret of all destinations but those whose drill is about secrets.
pub(crate) const SECRET: &str = "whsec_cHVuY3R1YWwtYW5zd2VyLXNlY3JldC0yMDI2LTAx";
const SECRET_NAME: &str = "punctual/local/answers";
/// The longest that anything without a bound of its own may take.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The window of every reminder: far enough for a `Retry-After` of 900 s.
const WINDOW: Duration = Duration::from_secs(7_200);
/// `/late` answers its first call for a key so late: later than any destination here waits.
const LATE: Duration = Duration::from_secs(3);

/// A stack with what the drills need around it.
pub(crate) struct Ground<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) console: Console<'a>,
    pub(crate) receiver: Receiver,
    /// The receiver that changes its secrets.
    pub(crate) rotating: Receiver,
    ledger: DynamoLedger,
    control: DynamoControl,
}

impl<'a> Ground<'a> {
    pub(crate) async fn start(stack: &'a Stack) -> Result<Self> {
        let console = Console::new(stack);
        console.create_secret(SECRET_NAME, SECRET).await?;
        let options = ReceiverOptions { answer_after: LATE, ..ReceiverOptions::default() };
        let aws = Aws::with(sdk_config(stack.dynamodb_endpoint()).await);
        Ok(Self {
            stack,
            console,
            receiver: Receiver::start_with(&[SECRET], options).await?,
            rotating: Receiver::start(&[SECRET]).await?,
            ledger: aws.ledger(&stack.ledger_table()?),
            control: aws.control(&stack.control_table()?),
        })
    }

    /// Registers a destination for a path of the receiver: fast, and repeating soon. `change` overrides single fields.
    pub(crate) async fn destination(&self, id: &str, path: &str, change: Value) -> Result<()> {
        let mut spec = json!({
            "id": id,
            "url": self.receiver.url(path),
            "secrets": [SECRET_NAME],
            "connect_timeout_ms": 500,
            "total_timeout_ms": 2_000,
            "rate_per_second": 1_000,
            "retry": {"base_ms": 100, "cap_ms": 1_000, "attempts": 6},
        });
        let changes = change.as_object().cloned().unwrap_or_default();
        spec.as_object_mut().context("a destination")?.extend(changes);
        self.console.put_destination(spec).await?;
        Ok(())
    }

    /// The stored version of a destination; every attempt tells which one it was made with.
    pub(crate) async fn version(&self, id: &str) -> Result<u64> {
        let id = DestinationId::new(id).context("a destination's id")?;
        let (destinations, _) = self.control.lookup(std::slice::from_ref(&id)).await.context("read the destination")?;
        Ok(destinations.first().with_context(|| format!("{id} is not registered"))?.version)
    }

    /// Schedules the reminders `numbers` of a destination, due at `due`.
    pub(crate) async fn schedule(
        &self,
        destination: &str,
        numbers: impl IntoIterator<Item = usize>,
        due: Timestamp,
    ) -> Result<Vec<DeliveryId>> {
        let reminders: Vec<Value> = numbers.into_iter().map(|n| reminder(destination, n, due)).collect();
        let answer = self.console.schedule(&reminders).await?;
        let results = answer.get("results").and_then(Value::as_array).cloned().unwrap_or_default();
        ensure!(results.len() == reminders.len() && results.iter().all(|one| field(one, "answer") == "created"), "{answer}");
        let id = |one: &Value| DeliveryId::new(field(one, "delivery_id").as_str().unwrap_or_default()).context("an id");
        results.iter().map(id).collect()
    }

    /// As [`Ground::schedule`], due now.
    pub(crate) async fn now(&self, destination: &str, count: usize) -> Result<Vec<DeliveryId>> {
        self.schedule(destination, 0..count, machine_time()).await
    }

    /// Rows in the order of their ids in `ids`.
    pub(crate) async fn rows(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
        let rows = self.ledger.read(ids).await.context("read the ledger")?;
        let mut rows: BTreeMap<DeliveryId, Delivery> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
        ids.iter().map(|id| rows.remove(id).with_context(|| format!("the ledger has no {id}"))).collect()
    }

    pub(crate) async fn row(&self, id: &DeliveryId) -> Result<Delivery> {
        let rows = self.ledger.read(std::slice::from_ref(id)).await.context("read the ledger")?;
        rows.into_iter().next().with_context(|| format!("the ledger has no {id}"))
    }

    /// Waits until every row is as wanted.
    pub(crate) async fn until_rows(
        &self,
        what: &str,
        bound: Duration,
        ids: &[DeliveryId],
        wanted: impl Fn(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>> {
        until(what, bound, async || {
            let rows = self.rows(ids).await?;
            Ok(match rows.iter().find(|row| !wanted(row)) {
                Some(row) => Err(format!("{} {:?}", row.id, row.history.last().map(ToString::to_string))),
                None => Ok(rows),
            })
        })
        .await
    }

    /// Waits until every row has come to its end.
    pub(crate) async fn ended(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
        self.until_rows("the end of every delivery", BOUND, ids, ended).await
    }

    /// The calls for a delivery, at whichever receiver.
    pub(crate) fn calls(&self, id: &DeliveryId) -> Vec<Call> {
        [&self.receiver, &self.rotating].into_iter().flat_map(|receiver| receiver.calls_for(id.as_str())).collect()
    }

    /// The effects for a delivery, at whichever receiver.
    pub(crate) fn effects(&self, id: &DeliveryId) -> usize {
        let count = |receiver: &Receiver| receiver.effects().iter().filter(|effect| effect.key == id.as_str()).count();
        count(&self.receiver) + count(&self.rotating)
    }

    /// What inspect says of a delivery, as a person reads it.
    pub(crate) async fn explained(&self, id: &DeliveryId) -> Result<String> {
        let answer = self.console.explain(id.as_str()).await?;
        let lines = answer.get("text").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"))
    }
}

/// Whether nothing happens to a row any more by itself.
pub(crate) fn ended(row: &Delivery) -> bool {
    row.state.is_terminal() || (row.state.needs_operator() && !row.owes_dead_letter())
}

fn parts(destination: &str, n: usize) -> IdentityParts {
    IdentityParts {
        tenant: "drill".to_owned(),
        subscriber: format!("subscriber-{n}"),
        renewal_period: "2027".to_owned(),
        reminder_kind: destination.to_owned(),
    }
}

/// The id that a reminder will have.
pub(crate) fn id(destination: &str, n: usize) -> DeliveryId {
    DeliveryId::derive(&parts(destination, n))
}

fn reminder(destination: &str, n: usize, due: Timestamp) -> Value {
    let parts = parts(destination, n);
    json!({
        "tenant": parts.tenant,
        "subscriber": parts.subscriber,
        "renewal_period": parts.renewal_period,
        "reminder_kind": parts.reminder_kind,
        "destination_id": destination,
        "reference": format!("drill-{destination}-{n}"),
        "deliver_after": due,
        "deliver_by": due.plus(WINDOW),
        "payload": {"drill": destination, "due": due},
    })
}

/// A field of an answer; null if there is none.
pub(crate) fn field<'v>(answer: &'v Value, name: &str) -> &'v Value {
    answer.get(name).unwrap_or(&Value::Null)
}

/// Looks until there is an answer, within a bound; a refusal says what is still missing.
pub(crate) async fn until<T>(
    what: &str,
    bound: Duration,
    mut look: impl AsyncFnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let began = machine_time();
    loop {
        let missing = match look().await? {
            Ok(answer) => return Ok(answer),
            Err(missing) => missing,
        };
        if machine_time().since(began) > bound {
            bail!("{what} did not come within {} s: {missing}", bound.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the machine's clock has passed an instant.
pub(crate) async fn until_after(at: Timestamp, bound: Duration) -> Result<()> {
    until("an instant", bound, async || Ok(if machine_time() > at { Ok(()) } else { Err(at.to_string()) })).await
}
