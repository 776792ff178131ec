//! I am the queue of deliveries in memory. I know no clock: a test says what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use punctual_core::figures::Depth;
use punctual_core::id::MessageId;
use punctual_core::ports::{Gauge, Outgoing, PortError, Queue};
use punctual_core::time::Timestamp;

use super::locked;

/// The queue of deliveries in memory.
#[derive(Debug)]
pub struct MemoryQueue {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Timestamp,
    published: u64,
    messages: BTreeMap<u64, Held>,
    /// Messages by the instant until which they are hidden; each message is here or in `visible`.
    hidden: BTreeSet<(Timestamp, u64)>,
    /// Messages whose instant has come.
    visible: BTreeSet<u64>,
}

#[derive(Debug)]
struct Held {
    id: MessageId,
    body: String,
    visible_at: Timestamp,
    receives: u32,
    first_received_at: Option<Timestamp>,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The queue's name for it.
    pub id: MessageId,
    /// Names this receive; for [`Queue::hide`] and [`MemoryQueue::delete`].
    pub receipt: String,
    /// What it says.
    pub body: String,
    /// How often it was received, this time included.
    pub receives: u32,
    /// When it was first received.
    pub first_received_at: Timestamp,
}

impl MemoryQueue {
    /// An empty queue at this time.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            state: Mutex::new(State {
                now,
                published: 0,
                messages: BTreeMap::new(),
                hidden: BTreeSet::new(),
                visible: BTreeSet::new(),
            }),
        }
    }

    /// Sets what time it is; never earlier than it was.
    pub fn set_now(&self, now: Timestamp) {
        locked(&self.state).now = now;
    }

    /// Receives up to `most` visible messages, oldest first, and hides them for `visibility`.
    #[must_use]
    pub fn receive(&self, most: usize, visibility: Duration) -> Vec<Received> {
        let mut state = locked(&self.state);
        let now = state.now;
        while let Some((at, number)) = state.hidden.pop_first() {
            if at > now {
                state.hidden.insert((at, number));
                break;
            }
            state.visible.insert(number);
        }
        let mut received = Vec::new();
        while received.len() < most {
            let Some(number) = state.visible.first().copied() else { break };
            let until = now.plus(visibility);
            state.hide(number, until);
            let Some(held) = state.messages.get_mut(&number) else { continue };
            held.receives = held.receives.saturating_add(1);
            received.push(Received {
                id: held.id.clone(),
                receipt: format!("{number}.{}", held.receives),
                body: held.body.clone(),
                receives: held.receives,
                first_received_at: *held.first_received_at.get_or_insert(now),
            });
        }
        received
    }

    /// Deletes a message. A receipt of an earlier receive succeeds without an effect, as at SQS.
    pub fn delete(&self, receipt: &str) {
        let mut state = locked(&self.state);
        let number = state.holding(receipt);
        if let Some((number, held)) = number.and_then(|number| Some((number, state.messages.remove(&number)?))) {
            state.hidden.remove(&(held.visible_at, number));
            state.visible.remove(&number);
        }
    }

    /// How many messages there are, and when the next one is visible.
    #[must_use]
    pub fn depth(&self) -> (usize, Option<Timestamp>) {
        let state = locked(&self.state);
        (state.messages.len(), state.messages.values().map(|held| held.visible_at).min())
    }
}

impl State {
    /// Hides a message until this instant, wherever it was.
    fn hide(&mut self, number: u64, until: Timestamp) {
        self.visible.remove(&number);
        if let Some(held) = self.messages.get_mut(&number) {
            self.hidden.remove(&(held.visible_at, number));
            held.visible_at = until;
            self.hidden.insert((until, number));
        }
    }

    /// The message that this receipt still holds.
    fn holding(&self, receipt: &str) -> Option<u64> {
        let (number, receives) = receipt.split_once('.')?;
        let number: u64 = number.parse().ok()?;
        let held = self.messages.get(&number)?;
        (receives.parse() == Ok(held.receives)).then_some(number)
    }
}

impl Queue for MemoryQueue {
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        let mut state = locked(&self.state);
        let mut results = Vec::with_capacity(messages.len());
        for outgoing in messages {
            let number = state.published;
            let id = MessageId::new(format!("message-{number:08}"));
            if let Ok(id) = &id {
                let visible_at = state.now.plus(Duration::from_secs(outgoing.delay_seconds.into()));
                let body = outgoing.message.body();
                let held = Held { id: id.clone(), body, visible_at, receives: 0, first_received_at: None };
                state.messages.insert(number, held);
                state.hidden.insert((visible_at, number));
                state.published += 1;
            }
            results.push(id.map_err(|e| PortError::Refused { what: "publish", source: Box::new(e) }));
        }
        results
    }

    async fn hide(&self, receipt: &str, seconds: u32) -> Result<(), PortError> {
        let mut state = locked(&self.state);
        let until = state.now.plus(Duration::from_secs(seconds.into()));
        let number = state.holding(receipt);
        let number = number.ok_or_else(|| PortError::Refused { what: "hide", source: "the message is not in flight".into() })?;
        state.hide(number, until);
        Ok(())
    }
}

impl Gauge for MemoryQueue {
    async fn fill(&self) -> Result<Depth, PortError> {
        let state = locked(&self.state);
        let mut depth = Depth::default();
        for held in state.messages.values() {
            match held {
                held if held.visible_at <= state.now => depth.visible += 1,
                held if held.receives > 0 => depth.in_flight += 1,
                _ => depth.delayed += 1,
            }
        }
        Ok(depth)
    }
}
