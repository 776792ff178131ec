//! I count and tell what became of each drill, once all have ended: from the ledger, the receivers and the dead letters.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;

use super::ground::Ground;
use crate::drill::letters::{self, Letters};
use crate::drill::report::{Columns, seconds, short, verdict};
use crate::receiver::Call;

/// What must have become of one delivery.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) ends: State,
    pub(crate) reason: Reason,
    /// Reason codes of the attempts; none where their number is not the drill's to say.
    pub(crate) attempts: Option<&'static [&'static str]>,
    /// The history without its `queued` lines, which may lose their race against deliver; none as for `attempts`.
    pub(crate) history: Option<&'static [&'static str]>,
    /// Calls at the receiver; none as for `attempts`.
    pub(crate) calls: Option<usize>,
    pub(crate) effects: usize,
    pub(crate) letters: usize,
}

/// A delivery that is delivered, with one effect.
pub(crate) const DELIVERED: Wanted = Wanted {
    ends: State::Delivered,
    reason: Reason::Accepted,
    attempts: None,
    history: None,
    calls: None,
    effects: 1,
    letters: 0,
};

/// One drill at its end, before anything is counted.
#[derive(Debug)]
pub(crate) struct Drill {
    what: &'static str,
    rows: Vec<(DeliveryId, Wanted)>,
    /// Figures for the table.
    notes: Vec<String>,
    problems: Vec<String>,
}

impl Drill {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, rows: Vec::new(), notes: Vec::new(), problems: Vec::new() }
    }

    /// A drill that stopped on an error is one that failed.
    pub(crate) fn stopped(what: &'static str, error: &anyhow::Error) -> Self {
        Self { problems: vec![format!("it stopped: {error:#}")], ..Self::new(what) }
    }

    /// What must be the case.
    pub(crate) fn expect(&mut self, met: bool, what: impl FnOnce() -> String) {
        if !met {
            self.problems.push(what());
        }
    }

    /// How a delivery must have ended. The history of the first one is told.
    pub(crate) fn row(&mut self, id: &DeliveryId, wanted: Wanted) {
        self.rows.push((id.clone(), wanted));
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

/// One drill, told.
#[derive(Debug)]
pub struct Told {
    /// What the drill is.
    pub what: String,
    /// What was not as it must be.
    pub problems: Vec<String>,
    calls: usize,
    effects: usize,
    letters: Letters,
    took: Duration,
    history: String,
    notes: Vec<String>,
}

impl Told {
    /// Prints its line of the table, the history that it left, and its figures.
    pub fn print(&self) {
        let columns = Columns {
            what: &self.what,
            calls: self.calls.to_string(),
            effects: self.effects.to_string(),
            letters: self.letters.shown(),
            took: seconds(self.took),
            bound: "-".to_owned(),
            verdict: verdict(&self.problems),
        };
        columns.print();
        println!("        {}", self.history);
        for note in &self.notes {
            println!("        {note}");
        }
        for problem in &self.problems {
            println!("        FAILED: {problem}");
        }
    }
}

/// Counts, checks and tells.
pub(crate) async fn close(ground: &Ground<'_>, ended: Vec<(Drill, Duration)>) -> Result<Vec<Told>> {
    let letters = letters::read(ground.stack).await?;
    try_join_all(ended.into_iter().map(async |(mut drill, took)| {
        let mut told = Told {
            what: drill.what.to_owned(),
            problems: Vec::new(),
            calls: 0,
            effects: 0,
            letters: Letters::default(),
            took,
            history: String::new(),
            notes: std::mem::take(&mut drill.notes),
        };
        for (id, wanted) in std::mem::take(&mut drill.rows) {
            let row = ground.row(&id).await?;
            let (calls, effects) = (ground.calls(&id), ground.effects(&id));
            let mine = letters.get(id.as_str()).cloned().unwrap_or_default();
            drill.problems.extend(problems(&row, &wanted, &calls, effects, &mine).into_iter().map(|p| format!("{id}: {p}")));
            told.calls += calls.len();
            told.effects += effects;
            told.letters.sent += mine.sent;
            told.letters.deaths.extend(mine.deaths.into_iter().map(|death| format!("{id} {death}")));
            if told.history.is_empty() {
                told.history = row.history.iter().map(short).collect::<Vec<_>>().join(" > ");
                let explained = ground.explained(&id).await?;
                let evidence = row.history.iter().map(ToString::to_string).chain(row.attempts.iter().map(ToString::to_string));
                for line in evidence.filter(|line| !explained.contains(line.as_str())) {
                    drill.expect(false, || format!("inspect does not tell {line:?}"));
                }
            }
        }
        told.problems = drill.problems;
        Ok(told)
    }))
    .await
}

fn problems(row: &Delivery, wanted: &Wanted, calls: &[Call], effects: usize, letters: &Letters) -> Vec<String> {
    let mut problems = Vec::new();
    let mut expect = |met: bool, what: &dyn Fn() -> String| {
        if !met {
            problems.push(what());
        }
    };
    expect(row.state == wanted.ends, &|| format!("it ends {}, not {}", row.state, wanted.ends));
    expect(row.reason == Some(wanted.reason), &|| format!("its reason is {:?}, not {}", row.reason, wanted.reason));
    let attempts: Vec<&str> = row.attempts.iter().map(|attempt| attempt.reason.code()).collect();
    expect(wanted.attempts.is_none_or(|wanted| attempts == wanted), &|| format!("its attempts are {attempts:?}"));
    let history: Vec<String> = row.history.iter().map(short).filter(|line| line != "queued").collect();
    expect(wanted.history.is_none_or(|wanted| history == wanted), &|| format!("its history is {}", history.join(" > ")));
    expect(wanted.calls.is_none_or(|wanted| calls.len() == wanted), &|| format!("{} calls", calls.len()));
    expect(effects == wanted.effects, &|| format!("{effects} effects, not {}", wanted.effects));
    expect(letters.deaths.len() == wanted.letters && letters.sent == wanted.letters, &|| {
        format!("{} dead letters of {} deaths, not {}", letters.sent, letters.deaths.len(), wanted.letters)
    });
    // Whatever happened: each call is an attempt of the row and each attempt that could call is a call, all of them
    // under one id and one key, signed, and not early.
    let uncalled = [Reason::SecretUnavailable, Reason::NotCalled];
    let made: Vec<Option<u32>> = row.attempts.iter().filter(|a| !uncalled.contains(&a.reason)).map(|a| Some(a.number)).collect();
    let arrived: Vec<Option<u32>> = calls.iter().map(|call| call.attempt).collect();
    expect(made == arrived, &|| format!("the row tells of the calls {made:?}, the receiver of {arrived:?}"));
    for call in calls {
        expect(call.webhook_id == row.id.as_str() && call.idempotency_key == row.idempotency_key.as_str(), &|| {
            "a call has another id or key".to_owned()
        });
        expect(!call.is_badly_signed() && call.signatures > 0, &|| format!("attempt {:?} is badly signed", call.attempt));
        expect(!call.is_early() && call.received_at_ms >= row.deliver_after.as_millis(), &|| "a call was early".to_owned());
        expect(call.received_at_ms < row.deliver_by.as_millis(), &|| "a call was late".to_owned());
    }
    problems
}
