//! I say why a row is where it is, in a few sentences that are true of the row, its destination and the present.

use super::{Whither, frozen, open, runs};
use crate::attempt::Answer;
use crate::clock::Now;
use crate::delivery::Delivery;
use crate::destination::Mode;
use crate::reason::Reason;
use crate::settings::RetryMode;
use crate::state::State;
use crate::time::Timestamp;
use crate::transition::may_have_been_delivered;

/// All that there is to say. `last` is the row's last safe start.
pub(super) fn of(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> String {
    let mut told = stands(row, whither, last, now);
    told += &barred(row, whither, last, now);
    if !row.state.is_terminal() && !row.state.needs_operator() {
        told += sink(row, whither);
        if whither.settings.retry_mode == RetryMode::DeadLetter {
            told += " The kill switch is on: if its next attempt fails, it is not retried but dead.";
        }
    }
    if (!row.state.is_terminal() && !row.state.needs_operator()) || row.owes_dead_letter() {
        told += &runs::told(row, whither, now);
    }
    told
}

fn stands(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> String {
    let attempt = row.next_attempt();
    let at = row.next_attempt_at;
    let reason = last_reason(row);
    match row.state {
        State::Delivered => delivered(row),
        State::Cancelled => taken_back(row),
        State::Shadowed => "Posted to the shadow sink only; the receiver was not called.".to_owned(),
        State::Dead => format!("Dead after {}.{reason}{}", attempts(row), letter(row, whither)),
        State::Expired => {
            format!("Expired after {}: its last safe start was {last}.{}", attempts(row), letter(row, whither))
        }
        State::Delivering => delivering(row, last, now) + &reason,
        State::Scheduled | State::Dispatching if whither.destination.is_none() => {
            format!("Its destination {} is not registered: nothing happens to it until it is.", row.destination)
        }
        _ if whither.destination.is_none() => {
            format!("Its destination {} is not registered: when its message arrives, it is dead.", row.destination)
        }
        _ if now.hi > last => format!("Its last safe start {last} has passed: the next dispatch run or delivery expires it."),
        _ if frozen(row, whither.destination).is_some() => {
            let leads_back =
                if row.state == State::Scheduled { "" } else { " If its message arrives meanwhile, it goes back to the ledger." };
            format!("{}{leads_back}", frozen(row, whither.destination).unwrap_or_default())
        }
        State::Scheduled if now.reached(at) => {
            format!("Due since {at}; the next dispatch run takes it as the destination's rate allows.{reason}")
        }
        State::Scheduled => format!("Waits in the ledger for attempt {attempt} at {at}.{reason}"),
        State::Dispatching if row.lease_may_be_live(now) => {
            format!("A dispatch run publishes it for attempt {attempt}, and holds the row until {}.{reason}", lease(row))
        }
        State::Dispatching => {
            format!(
                "A dispatch run held the row until {} and did not say that it published it: the next run publishes it again, under \
                 the same id.{reason}",
                lease(row)
            )
        }
        State::Queued if now.reached(at) => {
            format!(
                "Its message is in the queue for attempt {attempt}, due since {at}; if it is lost, a dispatch run sends another.{reason}"
            )
        }
        State::Queued => format!("Its message is in the queue for attempt {attempt} at {at}.{reason}"),
        State::Deferred => {
            let due = if now.reached(at) { "due since" } else { "at" };
            format!("{}; its message waits in the queue for attempt {attempt}, {due} {at}.{reason}", last_attempt(row))
        }
    }
}

fn delivering(row: &Delivery, last: Timestamp, now: Now) -> String {
    let (attempt, lease) = (row.next_attempt(), lease(row));
    match (row.late_success, row.lease_may_be_live(now)) {
        (Some(success), true) => {
            format!(
                "Attempt {success} was delivered, which became known late; attempt {attempt} is in flight until {lease} and records it."
            )
        }
        (Some(success), false) => {
            format!("Attempt {success} was delivered, which became known late; whoever looks at it next records it.")
        }
        (None, true) => format!("Attempt {attempt} is in flight; whoever makes it holds the row until {lease}."),
        (None, false) if now.hi > last => {
            format!(
                "Attempt {attempt} ended without an outcome; its lease ended at {lease}. Whoever looks at it next closes it, and it expires."
            )
        }
        (None, false) => format!(
            "Attempt {attempt} ended without an outcome; its lease ended at {lease}, and whoever looks at it next closes it."
        ),
    }
}

fn delivered(row: &Delivery) -> String {
    let success = row.attempts.iter().find(|attempt| attempt.reason == Reason::Accepted);
    let when = success.map_or_else(String::new, |a| format!(" by attempt {} at {}", a.number, a.started_at));
    let late = if row.reason == Some(Reason::LateEvidence) { " That became known only after its lease had ended." } else { "" };
    format!("Delivered{when}.{late}")
}

fn attempts(row: &Delivery) -> String {
    match row.attempts.len() {
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    }
}

fn last_attempt(row: &Delivery) -> String {
    let number = row.attempts.len();
    match row.attempts.last() {
        Some(attempt) if attempt.is_unknown() => format!("Attempt {number} ended without an outcome"),
        _ => format!("Attempt {number} failed"),
    }
}

fn lease(row: &Delivery) -> String {
    row.lease_end().map_or_else(|| "an unknown instant".to_owned(), |end| end.to_string())
}

fn letter(row: &Delivery, whither: Whither<'_>) -> &'static str {
    match (row.owes_dead_letter(), whither.destination) {
        (false, _) => " Its dead letter was sent.",
        (true, None) => {
            " Its dead letter is not sent yet, and dispatch does not send it while its destination is not registered."
        }
        (true, Some(d)) if d.paused.is_some() => {
            " Its dead letter is not sent yet: dispatch sends it when its destination is resumed, or its deadline is near."
        }
        (true, Some(_)) => " Its dead letter is not sent yet: the next dispatch run sends it.",
    }
}

fn barred(row: &Delivery, whither: Whither<'_>, last: Timestamp, now: Now) -> String {
    let Some(open) = open(row, whither, last, now) else { return String::new() };
    let next = match &open.probe {
        Some(probe) if !now.reached(probe.until) => format!("a probe is under way until {} at the latest", probe.until),
        _ => format!("the next probe starts at {} or later", open.probe_at),
    };
    let failed = match open.probes {
        0 => String::new(),
        1 => "; 1 probe was not answered".to_owned(),
        n => format!("; {n} probes were not answered"),
    };
    format!(" Destination {} does not answer: its breaker is open since {}; {next}{failed}.", row.destination, open.since)
}

fn last_reason(row: &Delivery) -> String {
    let Some(reason) = row.reason else { return String::new() };
    let rule = match row.attempts.last().map(|attempt| attempt.answer) {
        Some(Answer::Refused(rule)) => format!(" Refused by rule {rule}: {}", rule.meaning()),
        _ => String::new(),
    };
    format!(" Last reason {reason}: {}{rule}", reason.meaning())
}

/// Where its next attempt goes, if not to the receiver.
fn sink(row: &Delivery, whither: Whither<'_>) -> &'static str {
    // A row whose receiver was called stays live; any other one gets the mode's stamp at its claim.
    let will_be = !row.was_called() && whither.destination.is_some_and(|d| d.spec.mode == Mode::Shadow);
    if row.shadow || will_be { " In shadow mode: the shadow sink gets it, not the receiver." } else { "" }
}

fn taken_back(row: &Delivery) -> String {
    let told = row.cancel.as_ref().map_or_else(
        || "Cancelled; nothing will be sent.".to_owned(),
        |cancel| format!("{} cancelled it at {}: {}. Nothing will be sent.", cancel.by, cancel.since, cancel.why),
    );
    if row.reason == Some(Reason::EffectAfterCancel) {
        return told + " A call that was under way had its effect all the same.";
    }
    if may_have_been_delivered(row) { told + " A call before it may have had its effect." } else { told }
}
