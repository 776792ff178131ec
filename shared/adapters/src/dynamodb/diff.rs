//! I translate a transition into the smallest update: what it leaves alone, a write in between may have changed.
//!
//! A hold and a late answer change no version. Therefore history is only ever appended to, attempts are written
//! element by element, and any other attribute only where the transition changes it.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use punctual_core::delivery::Delivery;
use punctual_core::transition::Transition;

use super::expression::{Placeholders, Update};
use super::item::{number, text, texts};
use super::{names, row};

/// The one write that applies a transition.
pub(crate) fn update(transition: &Transition) -> Update {
    let mut placeholders = Placeholders::default();
    let condition = condition(transition, &mut placeholders);
    let update = change(&transition.before, &transition.after, &mut placeholders);
    Update { condition, update, placeholders }
}

fn condition(transition: &Transition, p: &mut Placeholders) -> String {
    let Transition { before, after } = transition;
    let mut all = vec![
        p.call("attribute_exists", names::DELIVERY_ID),
        p.compare(names::VERSION, "=", number(before.version)),
        match before.late_success {
            Some(attempt) => p.compare(names::LATE_SUCCESS, "=", number(attempt)),
            None => p.call("attribute_not_exists", names::LATE_SUCCESS),
        },
    ];
    if transition.depends_on_hold() {
        all.push(match &before.hold {
            Some(hold) => p.compare(names::HOLD, "=", row::encode_hold(hold)),
            None => p.call("attribute_not_exists", names::HOLD),
        });
    }
    if after.version == before.version
        && after.history.len() > before.history.len()
        && let Some(last) = after.history.last()
    {
        // No version tells a repeat of this write from the first: its line of history does.
        all.push(format!("NOT contains({}, {})", p.name(names::HISTORY), p.value(text(last))));
    }
    all.join(" AND ")
}

fn change(before: &Delivery, after: &Delivery, p: &mut Placeholders) -> Option<String> {
    let (old, new) = (row::encode(before), row::encode(after));
    let (mut set, mut remove) = (Vec::new(), Vec::new());
    let attributes: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for attribute in attributes {
        match (attribute.as_str(), old.get(attribute), new.get(attribute)) {
            (names::HISTORY, ..) => {
                let added = after.history.get(before.history.len()..).unwrap_or_default();
                if !added.is_empty() {
                    set.push(p.append(names::HISTORY, texts(added)));
                }
            }
            (names::ATTEMPTS, Some(AttributeValue::L(old)), Some(AttributeValue::L(new))) => {
                for (i, attempt) in new.iter().enumerate().filter(|(i, attempt)| old.get(*i) != Some(attempt)) {
                    // An index past the end appends.
                    set.push(format!("{}[{i}] = {}", p.name(names::ATTEMPTS), p.value(attempt.clone())));
                }
            }
            (_, old, Some(new)) if old != Some(new) => set.push(p.compare(attribute, "=", new.clone())),
            (_, Some(_), None) => remove.push(p.name(attribute)),
            _ => {}
        }
    }
    let clause = |word: &str, parts: &[String]| (!parts.is_empty()).then(|| format!("{word} {}", parts.join(", ")));
    let clauses: Vec<String> = [clause("SET", &set), clause("REMOVE", &remove)].into_iter().flatten().collect();
    (!clauses.is_empty()).then(|| clauses.join(" "))
}
