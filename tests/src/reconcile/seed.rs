//! I make rows and lines, each by its number.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference};
use punctual_core::reason::Reason;
use punctual_core::reconcile::{Kind, Why};
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use super::period;

/// Ids are scattered by it: odd, so that every number has another one.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

/// What became of a delivery, on either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Delivered, and once in the export.
    Fine,
    /// Delivered at its second attempt, and once in the export.
    Retried,
    /// Delivered, and not in the export.
    Missing,
    /// Delivered, and twice in the export.
    Twice,
    /// Delivered, and three times in the export.
    Thrice,
    /// Never called, and in the export.
    NeverCalled,
    /// Its answer was lost, and it is in the export.
    LostAnswer,
    /// Refused by its receiver, and not in the export.
    Refused,
    /// Delivered the day before, and in the export.
    Earlier,
    /// Delivered the day before, and not in the export.
    EarlierOnly,
    /// Another destination's, and in the export.
    Elsewhere,
    /// In the export only.
    Unknown,
    /// In the export only, at another time.
    UnknownEarlier,
}

impl Fate {
    /// How it deviates.
    #[must_use]
    pub fn deviates(self) -> Option<(Kind, Option<Why>)> {
        match self {
            Fate::Fine | Fate::Retried | Fate::Refused | Fate::EarlierOnly | Fate::UnknownEarlier => None,
            Fate::Missing => Some((Kind::Missing, None)),
            Fate::Twice | Fate::Thrice => Some((Kind::Duplicate, None)),
            Fate::NeverCalled => Some((Kind::Unexpected, Some(Why::NeverCalled))),
            Fate::LostAnswer => Some((Kind::Unexpected, Some(Why::NotAccepted))),
            Fate::Earlier => Some((Kind::Unexpected, Some(Why::AcceptedOutside))),
            Fate::Elsewhere => Some((Kind::Unexpected, Some(Why::OtherDestination))),
            Fate::Unknown => Some((Kind::Unexpected, Some(Why::Unknown))),
        }
    }

    /// Whether both sides have it, once.
    #[must_use]
    pub fn matches(self) -> bool {
        matches!(self, Fate::Fine | Fate::Retried)
    }

    /// How many lines the export has of it.
    #[must_use]
    pub fn lines(self) -> u32 {
        match self {
            Fate::Missing | Fate::Refused | Fate::EarlierOnly => 0,
            Fate::Twice => 2,
            Fate::Thrice => 3,
            _ => 1,
        }
    }
}

/// So many deliveries; of each thousand eleven deviate, or look as if they did.
#[derive(Debug, Clone, Copy)]
pub struct Seed {
    /// How many.
    pub deliveries: u64,
}

impl Seed {
    /// What becomes of the n-th.
    #[must_use]
    pub fn fate(&self, n: u64) -> Fate {
        match n % 1_000 {
            7 => Fate::Missing,
            107 => Fate::Twice,
            207 => Fate::Thrice,
            307 => Fate::NeverCalled,
            407 => Fate::LostAnswer,
            507 => Fate::Refused,
            607 => Fate::Earlier,
            657 => Fate::EarlierOnly,
            707 => Fate::Elsewhere,
            807 => Fate::Unknown,
            907 => Fate::UnknownEarlier,
            other if other.is_multiple_of(5) => Fate::Retried,
            _ => Fate::Fine,
        }
    }

    /// The id of the n-th; ids are in no order.
    ///
    /// # Errors
    /// None: the text is an id.
    pub fn id(&self, n: u64) -> Result<DeliveryId> {
        Ok(DeliveryId::new(format!("dlv_{:020}", n.wrapping_mul(SCATTER)))?)
    }

    /// The number of an id, if it is one of these.
    #[must_use]
    pub fn number(&self, id: &DeliveryId) -> Option<u64> {
        let scattered: u64 = id.as_str().strip_prefix("dlv_")?.parse().ok()?;
        // Newton: each round doubles the bits in which the inverse is right.
        let inverse = (0..6).fold(SCATTER, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(SCATTER.wrapping_mul(inverse))));
        Some(scattered.wrapping_mul(inverse)).filter(|n| *n < self.deliveries)
    }

    /// When its successful call starts.
    fn called_at(&self, n: u64) -> Timestamp {
        let at = period().from.plus(Duration::from_secs(3_600 + n % 75_000)).plus(Duration::from_millis(n % 997));
        match self.fate(n) {
            Fate::Earlier | Fate::EarlierOnly => at.minus(Duration::from_secs(86_400)),
            _ => at,
        }
    }

    /// The n-th row, if the ledger has it.
    #[must_use]
    pub fn row(&self, n: u64) -> Option<Delivery> {
        let fate = self.fate(n);
        let destination = match fate {
            Fate::Unknown | Fate::UnknownEarlier => return None,
            Fate::Elsewhere => "invoices",
            _ => "renewals",
        };
        let (id, at) = (self.id(n).ok()?, self.called_at(n));
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("contract-1").ok()?,
            destination: DestinationId::new(destination).ok()?,
            shard: 0,
            content: Content::new("0123456789abcdef").ok()?,
            deliver_after: at.minus(Duration::from_secs(60)),
            deliver_by: at.plus(Duration::from_secs(7_200)),
            id,
        };
        let mut row = Delivery::new(new, at.minus(Duration::from_secs(86_400)), Correlation::new("seed").ok()?);
        let (state, results): (State, &[(Reason, Answer)]) = match fate {
            Fate::NeverCalled => (State::Expired, &[]),
            Fate::LostAnswer => (State::Dead, &[(Reason::OutcomeUnknown, Answer::Unknown)]),
            Fate::Refused => (State::Dead, &[(Reason::Rejected, Answer::Status(404))]),
            Fate::Retried => {
                (State::Delivered, &[(Reason::ServerError, Answer::Status(503)), (Reason::Accepted, Answer::Status(200))])
            }
            _ => (State::Delivered, &[(Reason::Accepted, Answer::Status(200))]),
        };
        row.state = state;
        row.attempts = (1_u32..)
            .zip(results)
            .map(|(number, (reason, answer))| Attempt {
                number,
                started_at: if number == 1 && results.len() > 1 { at.minus(Duration::from_secs(30)) } else { at },
                took: Duration::from_millis(182),
                answer: *answer,
                reason: *reason,
                destination_version: 1,
                key_ids: "2026a".into(),
            })
            .collect();
        Some(row)
    }

    /// Writes the export's lines by `write`, in the order in which the calls were numbered.
    ///
    /// # Errors
    /// As `write`.
    pub fn export(&self, mut write: impl FnMut(&DeliveryId, Timestamp) -> Result<()>) -> Result<()> {
        for n in 0..self.deliveries {
            let fate = self.fate(n);
            let at = self.called_at(n).plus(Duration::from_millis(150));
            // What the ledger delivered the day before, the receiver says to have got on this one.
            let at = match fate {
                Fate::Earlier => at.plus(Duration::from_secs(86_400)),
                Fate::UnknownEarlier => at.minus(Duration::from_secs(86_400)),
                _ => at,
            };
            for again in 0..fate.lines() {
                write(&self.id(n)?, at.plus(Duration::from_secs(u64::from(again) * 5)))?;
            }
        }
        Ok(())
    }

    /// The export as CSV.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn csv(&self, into: &mut impl Write) -> Result<()> {
        writeln!(into, "webhook-id,time")?;
        self.export(|id, at| Ok(writeln!(into, "{id},{at}")?))
    }

    /// The export as JSON Lines, with more than is asked for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn json_lines(&self, into: &mut impl Write) -> Result<()> {
        self.export(|id, at| Ok(writeln!(into, "{}", serde_json::json!({"time": at, "amount": 12, "webhook-id": id}))?))
    }
}
