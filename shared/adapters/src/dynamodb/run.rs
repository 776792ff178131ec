//! I am a redrive run, and the freeze of all redriving, as rows of the control table: a person reads order and progress as
//! their JSON texts in the console.

use punctual_core::destination::Change;
use punctual_core::id::RunId;
use punctual_core::ports::PortError;
use punctual_core::redrive::run::Base;
use punctual_core::redrive::{Counters, Lease, Order, Pass, Phase, Run, Stopped};
use punctual_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::control::{key, reader};
use super::item::{Item, number, text};
use super::names;

/// All of a run that its slices and operators write.
#[derive(Serialize, Deserialize)]
struct Progress {
    created_at: Timestamp,
    slice: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_slice_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    canary_until: Option<Timestamp>,
    #[serde(default)]
    base: Base,
    #[serde(default)]
    counters: Counters,
    #[serde(default)]
    swept: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pass: Option<Pass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumed: Option<Change>,
}

pub(super) fn encode(run: &Run) -> Result<Item, serde_json::Error> {
    let run = run.clone();
    let progress = Progress {
        created_at: run.created_at,
        slice: run.slice,
        next_slice_at: run.next_slice_at,
        lease: run.lease,
        canary_until: run.canary_until,
        base: run.base,
        counters: run.counters,
        swept: run.swept,
        pass: run.pass,
        last_error: run.last_error,
        stopped: run.stopped,
        resumed: run.resumed,
    };
    let mut item = key(names::KIND_RUN, &run.id);
    item.insert(names::VERSION.to_owned(), number(run.version));
    item.insert(names::PHASE.to_owned(), text(run.phase));
    item.insert(names::ORDER.to_owned(), text(serde_json::to_string(&run.order)?));
    item.insert(names::PROGRESS.to_owned(), text(serde_json::to_string(&progress)?));
    Ok(item)
}

pub(super) fn decode(item: &Item) -> Result<Run, PortError> {
    let read = reader(item);
    let progress = read.required(names::PROGRESS, serde_json::from_str::<Progress>)?;
    Ok(Run {
        id: read.required(names::ID, RunId::new)?,
        version: read.required_number(names::VERSION)?,
        phase: read.required(names::PHASE, |word| serde_json::from_value::<Phase>(word.into()))?,
        order: read.required(names::ORDER, serde_json::from_str::<Order>)?,
        created_at: progress.created_at,
        slice: progress.slice,
        next_slice_at: progress.next_slice_at,
        lease: progress.lease,
        canary_until: progress.canary_until,
        base: progress.base,
        counters: progress.counters,
        swept: progress.swept,
        pass: progress.pass,
        last_error: progress.last_error,
        stopped: progress.stopped,
        resumed: progress.resumed,
    })
}

pub(super) fn encode_freeze(freeze: &Change) -> Result<Item, serde_json::Error> {
    let mut item = key(names::KIND_SETTINGS, names::ID_REDRIVE);
    item.insert(names::FROZEN.to_owned(), text(serde_json::to_string(freeze)?));
    Ok(item)
}

pub(super) fn decode_freeze(item: &Item) -> Result<Option<Change>, PortError> {
    reader(item).optional(names::FROZEN, serde_json::from_str::<Change>)
}
