//! I refuse what one call holds twice: its items are under way at the same time, so that which of two would win is nobody's
//! guess. The first one counts; that the second one says the same makes no difference.

use std::collections::BTreeMap;

use punctual_core::destination::FieldError;
use punctual_core::id::{DeliveryId, IdempotencyKey};

use crate::check::{Checked, Wrong};

/// The second one is `items[i]`, the first one `items[first]`.
pub(crate) fn twice(items: &str, i: usize, first: usize) -> FieldError {
    FieldError::new("duplicate", format!("{items}[{i}]"), format!("each delivery once; {items}[{first}] is it already"))
}

/// Refuses a reminder that one before it is already: by its id, by what it is (migrated or not), or by its key. One whose
/// form is wrong is none: nothing is asked of the ledger for it. One that may not be stored now takes no name away either: it is
/// only looked up, and a corrected one after it counts.
pub(crate) fn reminders(checked: Vec<Result<Checked, Wrong>>) -> Vec<Result<Checked, Wrong>> {
    let mut ids: BTreeMap<DeliveryId, usize> = BTreeMap::new();
    let mut keys: BTreeMap<IdempotencyKey, usize> = BTreeMap::new();
    let mut once = |(i, one): (usize, Result<Checked, Wrong>)| {
        let one = one?;
        let names = [one.row.id.clone(), DeliveryId::derive(&one.payload.parts)];
        if let Some(first) = names.iter().find_map(|name| ids.get(name)) {
            return Err((vec![twice("reminders", i, *first)], Vec::new()));
        }
        if let Some(first) = keys.get(&one.row.idempotency_key) {
            let field = format!("reminders[{i}].migrated.idempotency_key");
            let right = format!("each key once; reminders[{first}] has it already");
            return Err((vec![FieldError::new("duplicate", field, right)], Vec::new()));
        }
        if !one.is_blocked() {
            ids.extend(names.map(|name| (name, i)));
            keys.insert(one.row.idempotency_key.clone(), i);
        }
        Ok(one)
    };
    checked.into_iter().enumerate().map(&mut once).collect()
}
