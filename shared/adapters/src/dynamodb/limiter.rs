//! I am the number that a destination's calls are booked on: one conditional update of one row of the control table.
//!
//! [`Move::apply`] is the meaning; I only say it in the database's words.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use punctual_core::figures::Calls;
use punctual_core::id::DestinationId;
use punctual_core::limiter::{Key, Micros, Move, Moved};
use punctual_core::ports::PortError;

use super::control::{key, reader};
use super::error::port_error;
use super::expression::{Placeholders, Update};
use super::item::{Item, as_is, number};
use super::meter::{Kind, Metered};
use super::names;

const WHAT: &str = "move_limit";

fn micros(value: Micros) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Not `BETWEEN`: bounds that admit nothing are an error there.
fn between(p: &mut Placeholders, least: Micros, most: Micros) -> String {
    let least = p.compare(names::TAT, ">=", micros(least));
    format!("{least} AND {}", p.compare(names::TAT, "<=", micros(most)))
}

fn update(write: Move, calls: Calls) -> Update {
    let mut p = Placeholders::default();
    let tat = p.name(names::TAT);
    let (condition, update) = match write {
        Move::Add { by, from, to } => (between(&mut p, from, to), format!("SET {tat} = {tat} + {}", p.value(micros(by)))),
        Move::Set { to, at_least, at_most } => {
            let condition = match at_least {
                Some(least) => between(&mut p, least, at_most),
                None => {
                    let absent = p.call("attribute_not_exists", names::TAT);
                    format!("{absent} OR {}", p.compare(names::TAT, "<=", micros(at_most)))
                }
            };
            (condition, format!("SET {tat} = {}", p.value(micros(to))))
        }
    };
    let counts = if calls.is_empty() {
        String::new()
    } else {
        let calls_made = format!("{} {}", p.name(names::CALLS), p.value(number(calls.made)));
        format!(" ADD {calls_made}, {} {}", p.name(names::REPEATED), p.value(number(calls.repeated)))
    };
    Update { condition, update: Some(update + &counts), placeholders: p }
}

pub(super) fn tat(item: Option<&Item>) -> Result<Option<Micros>, PortError> {
    item.map_or(Ok(None), |item| reader(item).optional_number(names::TAT))
}

/// What a row's calls have come to; none for the part of them that is redriven.
pub(super) fn calls(item: &Item) -> Result<Option<(DestinationId, Calls)>, PortError> {
    let read = reader(item);
    let Ok(id) = read.required(names::ID, as_is).map(DestinationId::new)? else { return Ok(None) };
    let made = read.optional_number(names::CALLS)?.unwrap_or_default();
    Ok(Some((id, Calls { made, repeated: read.optional_number(names::REPEATED)?.unwrap_or_default() })))
}

pub(super) async fn moved(
    request: UpdateItemFluentBuilder,
    meter: &Metered,
    row: &Key,
    write: Move,
    calls: Calls,
) -> Result<Moved, PortError> {
    let Update { condition, update, placeholders } = update(write, calls);
    let answer = request
        .set_key(Some(key(names::KIND_LIMITER, row)))
        .condition_expression(condition)
        .set_update_expression(update)
        .set_expression_attribute_names(placeholders.names())
        .set_expression_attribute_values(placeholders.values())
        .return_values(ReturnValue::UpdatedNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .return_consumed_capacity(meter.wanted())
        .send()
        .await;
    match answer {
        Ok(answer) => {
            meter.count(WHAT, Kind::Write, answer.consumed_capacity());
            let now = tat(answer.attributes())?;
            now.map(|now| Moved::Done { now }).ok_or_else(|| PortError::Corrupt {
                item: format!("{} {row}", names::KIND_LIMITER),
                problem: "an update did not tell its number".into(),
            })
        }
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => Ok(Moved::Refused { is: tat(refused.item())? }),
            _ => Err(port_error(WHAT, error)),
        },
    }
}
