//! I am one stack with its drills: a receiver, a ticking dispatch, and a look at the ledger until all have converged.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use aws_sdk_sqs::types::QueueAttributeName;
use futures::future::try_join_all;
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::DynamoLedger;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::ports::Ledger as _;
use punctual_core::time::Timestamp;
use punctual_flows::fault;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

use super::cases::{Case, Until};
use super::letters;
use super::provoke::Struck;
use super::report::Outcome;
use super::{HANDOFF, TICK, VISIBILITY, WORK};
use crate::console::Console;
use crate::receiver::Receiver;
use crate::stack::{Stack, sdk_config};

const SECRET: &str = "whsec_cHVuY3R1YWwtZHJpbGwtc2VjcmV0LTIwMjYtMDE=";
const SECRET_NAME: &str = "punctual/local/drill";
/// How often the ledger is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long beyond its bound a delivery is watched, so that the table tells late from never.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stack with what a drill needs around it.
pub(super) struct Side<'a> {
    pub(super) stack: &'a Stack,
    pub(super) console: Console<'a>,
    pub(super) receiver: Receiver,
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) queue_url: String,
    /// Where orders are laid.
    pub(super) orders: PathBuf,
    /// One dispatch run at a time: the tick's, or that of a drill.
    pub(super) dispatching: Mutex<()>,
    /// One blow at a time.
    striking: Mutex<()>,
    ledger: DynamoLedger,
}

impl<'a> Side<'a> {
    pub(super) async fn start(stack: &'a Stack) -> Result<Self> {
        let console = Console::new(stack);
        console.create_secret(SECRET_NAME, SECRET).await?;
        let (sqs, queue_url) = (stack.sqs().await, stack.queue_url()?);
        let seconds = VISIBILITY.as_secs().to_string();
        let request = sqs.set_queue_attributes().queue_url(&queue_url);
        request.attributes(QueueAttributeName::VisibilityTimeout, seconds).send().await.context("set the visibility")?;
        let orders = stack.scratch().join(fault::DIRECTORY);
        std::fs::create_dir_all(&orders).with_context(|| format!("cannot create {}", orders.display()))?;
        Ok(Self {
            stack,
            console,
            receiver: Receiver::start(&[SECRET]).await?,
            sqs,
            queue_url,
            orders,
            dispatching: Mutex::default(),
            striking: Mutex::default(),
            ledger: Aws::with(sdk_config(stack.dynamodb_endpoint()).await).ledger(&stack.ledger_table()?),
        })
    }

    /// Strikes and watches all cases while dispatch ticks.
    pub(super) async fn run(&self, cases: &[Case]) -> Result<Vec<Outcome>> {
        for case in cases {
            self.console.put_destination(self.destination(case)).await?;
        }
        tokio::select! {
            outcomes = self.converge(cases) => outcomes,
            stopped = self.tick() => stopped.map(|()| Vec::new()),
        }
    }

    fn destination(&self, case: &Case) -> Value {
        json!({
            "id": case.id,
            "url": self.receiver.url(&case.path()),
            "secrets": [SECRET_NAME],
            "connect_timeout_ms": 500,
            "total_timeout_ms": 20_000,
            "rate_per_second": 100,
            "retry": {"base_ms": 1_000, "cap_ms": 10_000, "attempts": 6},
        })
    }

    /// Runs dispatch for ever, as the schedule would.
    async fn tick(&self) -> Result<()> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let _mine = self.dispatching.lock().await;
            self.console.dispatch().await?;
        }
    }

    async fn converge(&self, cases: &[Case]) -> Result<Vec<Outcome>> {
        let watched = try_join_all(cases.iter().map(|case| self.watch(case))).await?;
        self.wait_for_an_empty_queue().await?;
        let letters = letters::read(self.stack).await?;
        let mut outcomes = Vec::new();
        for (case, (struck, took, bound)) in cases.iter().zip(watched) {
            let row = self.row(&struck.id).await?;
            let explained = self.console.explain(struck.id.as_str()).await?;
            outcomes.push(Outcome {
                case: *case,
                calls: self.receiver.calls_for(row.idempotency_key.as_str()),
                effects: self.receiver.effects().iter().filter(|e| e.key == row.idempotency_key.as_str()).count(),
                letters: letters.get(struck.id.as_str()).cloned().unwrap_or_default(),
                explained: explained.get("text").map(Value::to_string).unwrap_or_default(),
                problems: struck.problems,
                row,
                took,
                bound,
            });
        }
        Ok(outcomes)
    }

    /// Strikes one case when it is its turn, and watches its delivery: how long it took, if it came to its end.
    async fn watch(&self, case: &Case) -> Result<(Struck, Option<Duration>, Duration)> {
        let struck = {
            let _turn = self.striking.lock().await;
            self.strike(case).await.with_context(|| case.what)?
        };
        let wait = match case.until {
            Until::Now => Duration::ZERO,
            Until::LeaseEnds => struck.lease_left,
            Until::MessageOverdue => struck.not_due + HANDOFF,
        };
        let bound = wait.min(VISIBILITY) + TICK + WORK;
        loop {
            let row = self.row(&struck.id).await?;
            let took = machine_time().since(struck.at);
            if row.state.is_terminal() || (row.state.needs_operator() && !row.owes_dead_letter()) {
                return Ok((struck, Some(took), bound));
            }
            if took > bound + PATIENCE {
                return Ok((struck, None, bound));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The ledger's row.
    pub(super) async fn row(&self, id: &DeliveryId) -> Result<Delivery> {
        self.find(id).await?.with_context(|| format!("the ledger has no {id}"))
    }

    /// The ledger's row, if there is one yet.
    pub(super) async fn find(&self, id: &DeliveryId) -> Result<Option<Delivery>> {
        Ok(self.ledger.read(std::slice::from_ref(id)).await.context("read the ledger")?.into_iter().next())
    }

    /// What came back to the queue after a kill must have been received again before calls are counted.
    async fn wait_for_an_empty_queue(&self) -> Result<()> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let began = machine_time();
        loop {
            let request = self.sqs.get_queue_attributes().queue_url(&self.queue_url);
            let answer = request.set_attribute_names(Some(names.to_vec())).send().await.context("the queue's size")?;
            let counts = answer.attributes.unwrap_or_default();
            if names.iter().all(|name| counts.get(name).is_some_and(|count| count == "0")) {
                return Ok(());
            }
            if machine_time().since(began) > VISIBILITY + PATIENCE {
                bail!("the queue does not get empty: {counts:?}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The time from an instant to a later one; nothing if there is none.
pub(super) fn until(end: Option<Timestamp>, from: Timestamp) -> Duration {
    end.map_or(Duration::ZERO, |end| end.since(from))
}
