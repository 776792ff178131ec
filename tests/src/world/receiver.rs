//! I am the receivers: what they process, and what they answer.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::id::DeliveryId;
use punctual_core::outcome::{CallResult, Failure};

use super::op::Behaviour;

/// One request as it left.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) call: usize,
    pub(super) destination: usize,
    pub(super) id: DeliveryId,
    pub(super) key: String,
}

/// What comes back, and from when on.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) result: Option<CallResult>,
    pub(super) ready_at: i64,
}

/// One destination's receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) behaviour: Behaviour,
    /// The keys under which a delivery was processed: each is an effect.
    pub(super) effects: BTreeMap<DeliveryId, BTreeSet<String>>,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { behaviour: Behaviour::Healthy, effects: BTreeMap::new() }
    }

    /// A connection is asked for.
    pub(super) fn connect(&self) -> Option<Failure> {
        (self.behaviour == Behaviour::Down).then_some(Failure::Connect)
    }

    /// A request arrives.
    pub(super) fn arrive(&mut self, post: &Post, now: i64) -> Reply {
        let answer = |status: u16| Some(CallResult::Answered { status, retry_after: None });
        let (processes, result, delay) = match self.behaviour {
            // Whoever has its connection already gets no answer from a receiver that went down.
            Behaviour::Down => (false, Some(CallResult::Failed(Failure::Cut)), 0),
            Behaviour::Healthy => (true, answer(200), 0),
            Behaviour::Slow(ms) => (true, answer(200), i64::from(ms)),
            Behaviour::Status(status) => (false, answer(status), 0),
            Behaviour::TooMany(seconds) => {
                (false, Some(CallResult::Answered { status: 429, retry_after: Some(seconds.to_string()) }), 0)
            }
            Behaviour::Swallow => (true, None, 0),
            Behaviour::Cut => (true, Some(CallResult::Failed(Failure::Cut)), 0),
            Behaviour::Silent => (false, None, 0),
        };
        if processes {
            self.process(post);
        }
        Reply { result, ready_at: now + delay }
    }

    /// A request has its effect.
    pub(super) fn process(&mut self, post: &Post) {
        self.effects.entry(post.id.clone()).or_default().insert(post.key.clone());
    }
}
