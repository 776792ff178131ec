//! I am how a line and a standing are kept in a sorted run.

use std::cmp::Ordering;

use punctual_core::id::DeliveryId;
use punctual_core::reconcile::{Line, Place, Span, Standing, Success};
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use super::sorter::Entry;

/// Takes numbers from the front of some bytes.
struct Taker<'a>(&'a [u8]);

impl Taker<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        head.try_into().ok()
    }

    fn instant(&mut self) -> Option<Timestamp> {
        Some(Timestamp::from_millis(i64::from_le_bytes(self.bytes()?)))
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes()?))
    }

    fn span(&mut self) -> Option<Span> {
        Some(Span { from: self.instant()?, until: self.instant()? })
    }

    /// What a flag says to be there.
    fn optional<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        let [there] = self.bytes()?;
        if there == 0 { Some(None) } else { take(self).map(Some) }
    }

    /// The rest is an id.
    fn id(self) -> Option<DeliveryId> {
        DeliveryId::new(std::str::from_utf8(self.0).ok()?).ok()
    }
}

fn instant(out: &mut Vec<u8>, at: Timestamp) {
    out.extend_from_slice(&at.as_millis().to_le_bytes());
}

fn span(out: &mut Vec<u8>, span: Span) {
    instant(out, span.from);
    instant(out, span.until);
}

impl Entry for Line {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.place.file.to_le_bytes());
        out.extend_from_slice(&self.place.line.to_le_bytes());
        instant(out, self.at);
        out.extend_from_slice(self.id.as_str().as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Taker(bytes);
        let place = Place { file: u16::from_le_bytes(from.bytes()?), line: u64::from_le_bytes(from.bytes()?) };
        let at = from.instant()?;
        Some(Self { id: from.id()?, place, at })
    }
}

impl Entry for Standing {
    fn order(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let state = State::ALL.iter().position(|state| *state == self.state).and_then(|at| u8::try_from(at).ok());
        out.extend_from_slice(&[state.unwrap_or(u8::MAX), u8::from(self.here)]);
        instant(out, self.deliver_after);
        instant(out, self.deliver_by);
        out.extend_from_slice(&self.calls.to_le_bytes());
        out.push(u8::from(self.called.is_some()));
        if let Some(called) = self.called {
            span(out, called);
        }
        out.push(u8::from(self.success.is_some()));
        if let Some(success) = self.success {
            out.extend_from_slice(&success.attempt.to_le_bytes());
            span(out, success.span);
        }
        out.extend_from_slice(self.id.as_str().as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Taker(bytes);
        let [state, here] = from.bytes()?;
        Some(Self {
            state: State::ALL.get(usize::from(state)).copied()?,
            here: here != 0,
            deliver_after: from.instant()?,
            deliver_by: from.instant()?,
            calls: from.number()?,
            called: from.optional(Taker::span)?,
            success: from.optional(|from| Some(Success { attempt: from.number()?, span: from.span()? }))?,
            id: from.id()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + ms)
    }

    fn again<T: Entry>(entry: &T) -> Option<T> {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        T::decode(&bytes)
    }

    #[test]
    fn entries_read_as_written() {
        let id = DeliveryId::new("x".repeat(DeliveryId::MAX)).expect("an id");
        let line = Line { id: id.clone(), place: Place { file: 999, line: u64::MAX }, at: at(1) };
        assert_eq!(again(&line), Some(line));
        let span = Span { from: at(2), until: at(3) };
        for (called, success) in [
            (None, None),
            (Some(span), None),
            (Some(span), Some(Success { attempt: 7, span })),
            (None, Some(Success { attempt: 0, span })),
        ] {
            for state in State::ALL {
                let (deliver_after, deliver_by) = (at(4), at(5));
                let here = state.is_terminal();
                let standing = Standing { id: id.clone(), here, state, deliver_after, deliver_by, calls: 9, called, success };
                assert_eq!(again(&standing), Some(standing));
            }
        }
        assert_eq!(Line::decode(&[1, 2, 3]), None);
        assert_eq!(Standing::decode(&[255; 60]), None);
    }
}
