//! I am Punctual's rules as pure functions and plain data.
//!
//! I decide; I never act. I know no async runtime, no AWS, no environment, no clock, no randomness and no logging:
//! the current time and random numbers are arguments, and what must happen comes back as a value. The one thing
//! that looks like an effect, [`ports`], is a list of needs that the adapters meet.
//!
//! Where to look: an identity in [`id`], what a row holds in [`delivery`], which move is allowed in [`state`],
//! what a claim may take in [`acquire`], how a row changes in [`transition`], what an answer means in [`outcome`],
//! when the next try is in [`retry`], when a receiver's answers pause it in [`rejections`], how much dispatch releases in
//! [`admission`], whether what falls due can be called in time in [`capacity`], what an operator wants to know of a whole stage in
//! [`figures`], whether an instant is a business instant and when a notice is due in [`calendar`], what a shadow run proves in
//! [`shadow`], what returns dead work in [`redrive`], what a receiver's export proves in [`reconcile`], which stage a canary does
//! not come through in [`canary`].

pub mod acquire;
pub mod address;
pub mod admission;
pub mod attempt;
pub mod breaker;
pub mod calendar;
pub mod canary;
pub mod capacity;
pub mod clock;
pub mod dead_letter;
pub mod decide;
pub mod delivery;
pub mod destination;
pub mod explain;
pub mod figures;
pub mod history;
pub mod id;
pub mod limiter;
pub mod measured;
pub mod message;
pub mod moved;
pub mod operation;
pub mod outcome;
pub mod ports;
pub mod reason;
pub mod reconcile;
pub mod redrive;
pub mod rejections;
pub mod retry;
pub mod retry_after;
pub mod rule;
pub mod settings;
pub mod shadow;
pub mod signature;
pub mod state;
pub mod time;
pub mod transition;
