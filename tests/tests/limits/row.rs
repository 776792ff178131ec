//! I am the reach row as the model sees it: the core's [`Reach`] with its instants as ticks from the present, so that time
//! goes on for ever in finitely many states. I ask the shipped core, with the row as it would be stored.
//!
//! A tick is the first probe's patience. What is longer ago than a tick is not told apart, and a probe's patience grows no
//! more once it is at its longest. A version is told apart by who has read it, not by its number: the number must grow by
//! one with every change, and I check that it does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use punctual_core::breaker::{BreakerPolicy, Gate, Heard, LONGEST_PROBE, Open, Probe, Reach, Rules};
use punctual_core::clock::Now;
use punctual_core::id::{Correlation, Owner};
use punctual_core::time::Timestamp;

/// One tick.
const TICK: Duration = Duration::from_secs(15);

/// The default policy: its first patience is the tick.
pub fn rules() -> Rules {
    Rules { breaker: BreakerPolicy::default(), max_in_flight: MAX_IN_FLIGHT }
}
/// The present.
const ORIGIN_MS: i64 = 1_796_115_600_000;
/// The destination's own cap.
pub const MAX_IN_FLIGHT: u32 = 20;

/// An open breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opened {
    /// The next probe, in ticks from the present; -1: it is longer ago.
    pub probe_at: i8,
    pub probes: u8,
    /// Whose probe, and the end of its lease.
    pub probe: Option<(u8, i8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    pub silent: u8,
    pub in_flight: u8,
    pub open: Option<Opened>,
}

fn at(ticks: i8) -> Timestamp {
    let ms = i64::try_from(TICK.as_millis()).expect("short") * i64::from(ticks);
    Timestamp::from_millis(ORIGIN_MS + ms)
}

fn ticks(at: Timestamp) -> i8 {
    let ms = at.as_millis() - ORIGIN_MS;
    let tick = i64::try_from(TICK.as_millis()).expect("short");
    assert_eq!(ms % tick, 0, "whole ticks");
    i8::try_from((ms / tick).max(-1)).expect("soon")
}

/// What an actor knows of the time: exactly, or up to a tick either way.
pub fn now(wide: bool) -> Now {
    if wide { Now { lo: at(-1), hi: at(1) } } else { Now::exactly(at(0)) }
}

fn by() -> Correlation {
    Correlation::new("d").expect("a token")
}

pub fn owner(who: u8) -> Owner {
    Owner::new(if who == 0 { "first" } else { "second" }).expect("a name")
}

/// From so many failed probes on the patience is the same.
fn most_probes() -> u32 {
    (0..10).find(|n| rules().patience(*n) == LONGEST_PROBE).expect("it ends")
}

impl Row {
    pub fn unproven() -> Self {
        thread_local!(static KNOWN: Row = Row::of(&Reach::unproven(by())));
        KNOWN.with(|row| *row)
    }

    fn of(reach: &Reach) -> Self {
        let open = |open: &Open| Opened {
            probe_at: ticks(open.probe_at),
            probes: u8::try_from(open.probes.min(most_probes())).expect("few"),
            probe: open.probe.as_ref().map(|probe| (u8::from(probe.owner == owner(1)), ticks(probe.until))),
        };
        let in_flight = u8::try_from(reach.in_flight).expect("few");
        Self { silent: u8::try_from(reach.silent).expect("few"), in_flight, open: reach.open.as_ref().map(open) }
    }

    fn reach(&self) -> Reach {
        let open = |open: &Opened| Open {
            since: at(-1),
            probe_at: at(open.probe_at),
            probes: open.probes.into(),
            probe: open.probe.map(|(who, until)| Probe { owner: owner(who), until: at(until) }),
        };
        Reach {
            version: 7,
            silent: self.silent.into(),
            in_flight: self.in_flight.into(),
            open: self.open.as_ref().map(open),
            by: by(),
        }
    }

    /// The present goes on by a tick.
    pub fn age(&mut self) {
        if let Some(open) = &mut self.open {
            open.probe_at = (open.probe_at - 1).max(-1);
            open.probe = open.probe.map(|(who, until)| (who, (until - 1).max(-1)));
        }
    }

    pub fn gate(&self, wide: bool) -> Gate {
        thread_local!(static KNOWN: RefCell<HashMap<(Row, bool), Gate>> = RefCell::default());
        KNOWN.with_borrow_mut(|known| *known.entry((*self, wide)).or_insert_with(|| self.reach().gate(now(wide))))
    }

    pub fn room(&self) -> u32 {
        thread_local!(static KNOWN: RefCell<HashMap<Row, u32>> = RefCell::default());
        KNOWN.with_borrow_mut(|known| *known.entry(*self).or_insert_with(|| self.reach().room(MAX_IN_FLIGHT)))
    }

    pub fn probing(&self, who: u8, lease: i8, wide: bool) -> Option<Self> {
        let until = at(lease + i8::from(wide));
        self.reach().probing(owner(who), until, now(wide), &by()).map(|after| Self::next(&after))
    }

    pub fn heard(&self, call: Heard, probe: Option<u8>, wide: bool) -> Option<Self> {
        type Asked = (Row, Heard, Option<u8>, bool);
        thread_local!(static KNOWN: RefCell<HashMap<Asked, Option<Row>>> = RefCell::default());
        let ask = || {
            let probe = probe.map(owner);
            self.reach().heard(&[call], probe.as_ref(), rules(), now(wide), &by()).map(|after| Self::next(&after))
        };
        KNOWN.with_borrow_mut(|known| *known.entry((*self, call, probe, wide)).or_insert_with(ask))
    }

    fn next(after: &Reach) -> Self {
        assert_eq!(after.version, 8, "every change counts");
        Self::of(after)
    }
}
