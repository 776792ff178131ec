//! I am the ledger and the control table on DynamoDB.
//!
//! I decide nothing: a guard of the core becomes a condition expression, a transition becomes the smallest update
//! expression, and a row becomes attributes that a person can read in the console. I know attribute names; nobody
//! else does. I do not know the time: a caller puts its clock on the client that it hands over.
//!
//! Ledger table: partition key `delivery_id`, sort key `item`.
//!
//! | `item` | what it is |
//! |---|---|
//! | `delivery` | the hot row; or, under the derived id of a migrated reminder, an alias with `migrated_to` only |
//! | `payload#<content>` | what a row with this content sends; never changed |
//! | `lock` | under `key.<idempotency key>`: `holder`, the migrated delivery that has this key |
//!
//! Control table: partition key `kind` (`destination`, `calendar`, `rejections`, `limiter`, `reach`, `settings`, `cursor`,
//! `heartbeat`, `run`, `shadow#<destination>`), sort key `id`.

mod batch;
mod calendar;
mod control;
mod create;
mod diff;
mod ended;
mod error;
mod expression;
mod guard;
mod heartbeat;
mod item;
mod ledger;
mod limiter;
mod meter;
mod names;
mod operation;
mod payload;
mod query;
mod reach;
mod rejections;
pub mod row;
mod rows;
mod run;
mod shadow;
mod wake;

pub use control::DynamoControl;
pub use ledger::DynamoLedger;
pub use meter::{Meter, Usage};
