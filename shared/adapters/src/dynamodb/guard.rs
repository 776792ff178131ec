//! I translate a claim: its guard into a condition, its change into an update. The meaning is the core's
//! ([`Guard::admits`], [`Claim::apply`]).

use aws_sdk_dynamodb::types::AttributeValue;
use punctual_core::acquire::{Acquire, Claim, Guard};
use punctual_core::state::State;

use super::expression::{Placeholders, Update};
use super::item::{number, text, texts};
use super::names;

/// The one write that takes a row.
pub(crate) fn update(acquire: &Acquire) -> Update {
    let mut placeholders = Placeholders::default();
    let condition = condition(&acquire.guard, &mut placeholders);
    let update = Some(change(&acquire.claim, &mut placeholders));
    Update { condition, update, placeholders }
}

fn condition(guard: &Guard, p: &mut Placeholders) -> String {
    let from: Vec<String> = guard
        .any_of
        .iter()
        .map(|from| {
            let mut all = vec![p.compare(names::STATE, "=", text(from.state))];
            all.extend(from.due_by.map(|due| p.compare(names::NEXT_ATTEMPT_AT, "<=", text(due))));
            // A comparison with an absent attribute is false.
            all.extend(from.dispatch_lease_ended_by.map(|by| p.compare(names::HELD_UNTIL, "<=", text(by))));
            format!("({})", all.join(" AND "))
        })
        .collect();
    let mut all = vec![p.call("attribute_exists", names::DELIVERY_ID), p.call("attribute_not_exists", names::MIGRATED_TO)];
    all.push(if from.is_empty() {
        // No state to take from: never true.
        p.call("attribute_not_exists", names::DELIVERY_ID)
    } else {
        format!("({})", from.join(" OR "))
    });
    all.push(p.call("attribute_not_exists", names::HOLD));
    all.push(p.compare(names::DELIVER_BY, ">=", text(guard.deliver_by_from)));
    all.extend(guard.closed_attempts.map(|closed| match closed {
        0 => p.call("attribute_not_exists", names::ATTEMPTS),
        n => format!("{} = {}", p.call("size", names::ATTEMPTS), p.value(number(n))),
    }));
    all.join(" AND ")
}

fn change(claim: &Claim, p: &mut Placeholders) -> String {
    let version = p.name(names::VERSION);
    let until = if claim.state == State::Delivering { names::LEASE_UNTIL } else { names::HELD_UNTIL };
    let mut set = vec![
        p.compare(names::STATE, "=", text(claim.state)),
        format!("{version} = {version} + {}", p.value(number(1_u32))),
        p.compare(names::LEASE_OWNER, "=", text(&claim.owner)),
        p.compare(until, "=", text(claim.until)),
        p.append(names::HISTORY, texts(std::slice::from_ref(&claim.entry))),
    ];
    if claim.shadow {
        set.push(p.compare(names::SHADOW, "=", AttributeValue::Bool(true)));
    }
    format!("SET {}", set.join(", "))
}
