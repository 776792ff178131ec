//! I am the dead-letter queue in memory. I know no clock: a test says what time it is.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use punctual_core::dead_letter::DeadLetter;
use punctual_core::figures::Depth;
use punctual_core::id::MessageId;
use punctual_core::ports::{DeadLetters, Gauge, Letter, Letters, PortError};
use punctual_core::time::Timestamp;

use super::locked;

/// The dead-letter queue in memory.
#[derive(Debug)]
pub struct MemoryDeadLetters {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Timestamp,
    /// All that was ever sent.
    sent: Vec<DeadLetter>,
    held: BTreeMap<u64, Held>,
    /// How many messages were ever put.
    put: u64,
    receives: u64,
}

#[derive(Debug)]
struct Held {
    id: MessageId,
    body: String,
    attributes: BTreeMap<String, String>,
    sent_at: Timestamp,
    visible_at: Timestamp,
    receives: u32,
}

impl Held {
    fn letter(&self, number: u64) -> Letter {
        Letter {
            receipt: format!("{number}.{}", self.receives),
            id: self.id.clone(),
            body: self.body.clone(),
            attributes: self.attributes.clone(),
            sent_at: self.sent_at,
            receives: self.receives,
        }
    }
}

impl Default for MemoryDeadLetters {
    /// An empty queue at the first instant that there is.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(0))
    }
}

impl MemoryDeadLetters {
    /// An empty queue at this time.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { state: Mutex::new(State { now, sent: Vec::new(), held: BTreeMap::new(), put: 0, receives: 0 }) }
    }

    /// Sets what time it is; never earlier than it was.
    pub fn set_now(&self, now: Timestamp) {
        locked(&self.state).now = now;
    }

    /// All that was ever sent, oldest first, deleted or not.
    #[must_use]
    pub fn letters(&self) -> Vec<DeadLetter> {
        locked(&self.state).sent.clone()
    }

    /// Puts a message as the queue itself does when one was received too often: with its body alone.
    ///
    /// # Errors
    /// None that a test of usual length meets: the queue has run out of names.
    pub fn put_bare(&self, body: &str) -> Result<(), PortError> {
        locked(&self.state).put(body.to_owned(), BTreeMap::new())
    }

    /// All that lies here now, hidden or not, oldest first; nothing is received by this.
    #[must_use]
    pub fn there(&self) -> Vec<Letter> {
        locked(&self.state).held.iter().map(|(number, held)| held.letter(*number)).collect()
    }

    /// How many messages were received in all, repeats included.
    #[must_use]
    pub fn receives(&self) -> u64 {
        locked(&self.state).receives
    }

    /// How many are hidden now.
    #[must_use]
    pub fn hidden(&self) -> usize {
        let state = locked(&self.state);
        state.held.values().filter(|held| held.visible_at > state.now).count()
    }
}

impl State {
    fn put(&mut self, body: String, attributes: BTreeMap<String, String>) -> Result<(), PortError> {
        let (number, now) = (self.put, self.now);
        let id = MessageId::new(format!("letter-{number:08}"));
        let id = id.map_err(|e| PortError::Refused { what: "send", source: Box::new(e) })?;
        self.held.insert(number, Held { id, body, attributes, sent_at: now, visible_at: now, receives: 0 });
        self.put += 1;
        Ok(())
    }

    /// The message that this receipt still holds.
    fn holding(&self, receipt: &str) -> Option<u64> {
        let (number, receives) = receipt.split_once('.')?;
        let number: u64 = number.parse().ok()?;
        let held = self.held.get(&number)?;
        (receives.parse() == Ok(held.receives)).then_some(number)
    }
}

impl DeadLetters for MemoryDeadLetters {
    async fn send(&self, letter: &DeadLetter) -> Result<(), PortError> {
        let mut state = locked(&self.state);
        let attributes = letter.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        state.put(letter.body.clone(), attributes)?;
        state.sent.push(letter.clone());
        Ok(())
    }
}

impl Letters for MemoryDeadLetters {
    async fn receive(&self, most: u32, hide_seconds: u32) -> Result<Vec<Letter>, PortError> {
        let mut state = locked(&self.state);
        let (now, most) = (state.now, usize::try_from(most).unwrap_or(usize::MAX));
        let until = now.plus(Duration::from_secs(hide_seconds.into()));
        let mut letters = Vec::new();
        for (number, held) in state.held.iter_mut().filter(|(_, held)| held.visible_at <= now).take(most) {
            held.visible_at = until;
            held.receives = held.receives.saturating_add(1);
            letters.push(held.letter(*number));
        }
        state.receives = state.receives.saturating_add(u64::try_from(letters.len()).unwrap_or(0));
        Ok(letters)
    }

    /// A receipt of an earlier receive succeeds without an effect, as at SQS.
    async fn delete(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        let mut state = locked(&self.state);
        let delete = |receipt: &String| {
            if let Some(number) = state.holding(receipt) {
                state.held.remove(&number);
            }
            Ok(())
        };
        receipts.iter().map(delete).collect()
    }

    async fn release(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        let mut state = locked(&self.state);
        let now = state.now;
        let release = |receipt: &String| {
            let held = state.holding(receipt).and_then(|number| state.held.get_mut(&number));
            let held =
                held.ok_or_else(|| PortError::Refused { what: "release", source: "the message is not in flight".into() })?;
            held.visible_at = now;
            Ok(())
        };
        receipts.iter().map(release).collect()
    }
}

impl Gauge for MemoryDeadLetters {
    async fn fill(&self) -> Result<Depth, PortError> {
        let state = locked(&self.state);
        let visible = state.held.values().filter(|held| held.visible_at <= state.now).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Ok(Depth { visible: count(visible), in_flight: count(state.held.len() - visible), delayed: 0 })
    }
}
