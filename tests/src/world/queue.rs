//! I am a standard queue: at least once, in no order, with receipts that go stale.

use punctual_core::id::MessageId;
use punctual_core::ports::Outgoing;

/// A message, deleted ones included: a deleted message can still be received.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) id: MessageId,
    pub(super) body: String,
    pub(super) sent: i64,
    pub(super) visible_at: i64,
    pub(super) receives: u32,
    pub(super) first_received: Option<i64>,
    pub(super) gone: bool,
}

/// What a receive gives.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) id: String,
    pub(super) receipt: String,
    pub(super) body: String,
    pub(super) sent: i64,
    pub(super) receives: u32,
    pub(super) first_received: i64,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct SimQueue {
    messages: Vec<Stored>,
}

impl SimQueue {
    pub(super) fn publish(&mut self, outgoing: &Outgoing, now: i64) -> Option<MessageId> {
        self.put(outgoing.message.body(), now, now + i64::from(outgoing.delay_seconds) * 1_000)
    }

    /// A message with any text, accepted at `sent`.
    pub(super) fn put(&mut self, body: String, sent: i64, visible_at: i64) -> Option<MessageId> {
        let id = MessageId::new(format!("m{}", self.messages.len())).ok()?;
        self.messages.push(Stored { id: id.clone(), body, sent, visible_at, receives: 0, first_received: None, gone: false });
        Some(id)
    }

    /// Messages that can be received now.
    pub(super) fn visible(&self, now: i64) -> usize {
        self.messages.iter().filter(|m| !m.gone && m.visible_at <= now).count()
    }

    /// When the next message can be received.
    pub(super) fn next_visible(&self) -> Option<i64> {
        self.messages.iter().filter(|m| !m.gone).map(|m| m.visible_at).min()
    }

    pub(super) fn left(&self) -> usize {
        self.messages.iter().filter(|m| !m.gone).count()
    }

    pub(super) fn receive(&mut self, most: usize, skip: usize, visibility: i64, now: i64) -> Vec<Received> {
        let visible = self.visible(now);
        let skip = if visible == 0 { 0 } else { skip % visible };
        let found = self.messages.iter_mut().enumerate().filter(|(_, m)| !m.gone && m.visible_at <= now).skip(skip).take(most);
        found
            .map(|(at, m)| {
                m.visible_at = now + visibility;
                m.receives += 1;
                Received {
                    id: m.id.to_string(),
                    receipt: format!("{at}.{}", m.receives),
                    body: m.body.clone(),
                    sent: m.sent,
                    receives: m.receives,
                    first_received: *m.first_received.get_or_insert(now),
                }
            })
            .collect()
    }

    /// A stale receipt succeeds without an effect.
    pub(super) fn delete(&mut self, receipt: &str) {
        if let Some(m) = self.holding(receipt) {
            m.gone = true;
        }
    }

    /// False if there is nothing to hide.
    pub(super) fn hide(&mut self, receipt: &str, seconds: u32, now: i64) -> bool {
        match self.holding(receipt) {
            Some(m) if !m.gone && m.visible_at > now => {
                m.visible_at = now + i64::from(seconds) * 1_000;
                true
            }
            _ => false,
        }
    }

    fn holding(&mut self, receipt: &str) -> Option<&mut Stored> {
        let (at, receives) = receipt.split_once('.')?;
        let found = self.messages.get_mut(at.parse::<usize>().ok()?)?;
        (receives.parse() == Ok(found.receives)).then_some(found)
    }

    fn nth(&mut self, n: u8, with_gone: bool) -> Option<&mut Stored> {
        let count = self.messages.iter().filter(|m| with_gone || !m.gone).count();
        let n = usize::from(n).checked_rem(count)?;
        self.messages.iter_mut().filter(|m| with_gone || !m.gone).nth(n)
    }

    pub(super) fn lose(&mut self, n: u8) -> Option<MessageId> {
        let m = self.nth(n, false)?;
        m.gone = true;
        Some(m.id.clone())
    }

    /// A second copy under the same id, visible now.
    pub(super) fn duplicate(&mut self, n: u8, now: i64) -> Option<MessageId> {
        let copy = Stored { visible_at: now, gone: false, ..self.nth(n, true)?.clone() };
        let id = copy.id.clone();
        self.messages.push(copy);
        Some(id)
    }

    pub(super) fn delay(&mut self, n: u8, seconds: u16) -> Option<MessageId> {
        let m = self.nth(n, false)?;
        m.visible_at += i64::from(seconds) * 1_000;
        Some(m.id.clone())
    }
}
