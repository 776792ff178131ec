//! I am the attribute, key and index names of both tables.
//!
//! Each write is billed by the row's whole size, names included: short, yet words that a person understands.

/// Ledger, partition key: whose item.
pub(crate) const DELIVERY_ID: &str = "delivery_id";
/// Ledger, sort key: which of its items.
pub(crate) const ITEM: &str = "item";
/// `item` of the hot row, and of an alias.
pub(crate) const ITEM_DELIVERY: &str = "delivery";
/// Start of a payload's `item`; the content hash follows.
pub(crate) const ITEM_PAYLOAD: &str = "payload#";
/// `item` of a lock.
pub(crate) const ITEM_LOCK: &str = "lock";

/// Index of what dispatch must look at: `lane`, `wake_at`.
pub(crate) const INDEX_WAKE: &str = "wake";
/// Index of dead and expired rows: `attention`, `deliver_by`.
pub(crate) const INDEX_ATTENTION: &str = "attention";
/// Index of rows by reference.
pub(crate) const INDEX_REFERENCE: &str = "reference";
/// Index of the rows that a redrive run moved last: `run_id`, `delivery_id`.
pub(crate) const INDEX_RUN: &str = "run";

pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency_key";
pub(crate) const REFERENCE: &str = "reference";
pub(crate) const DESTINATION_ID: &str = "destination_id";
pub(crate) const SHARD: &str = "shard";
pub(crate) const CONTENT: &str = "content";
pub(crate) const STATE: &str = "state";
pub(crate) const VERSION: &str = "version";
pub(crate) const DELIVER_AFTER: &str = "deliver_after";
pub(crate) const DELIVER_BY: &str = "deliver_by";
pub(crate) const NEXT_ATTEMPT_AT: &str = "next_attempt_at";
/// Only while `wake_at` is there: both leave together, and the row leaves the wake index.
pub(crate) const LANE: &str = "lane";
pub(crate) const WAKE_AT: &str = "wake_at";
pub(crate) const HELD_UNTIL: &str = "held_until";
pub(crate) const LEASE_OWNER: &str = "lease_owner";
pub(crate) const LEASE_UNTIL: &str = "lease_until";
pub(crate) const MESSAGE: &str = "message_id";
pub(crate) const REASON: &str = "reason";
/// Absent unless true.
pub(crate) const SHADOW: &str = "shadow";
/// Absent while empty.
pub(crate) const ATTEMPTS: &str = "attempts";
/// Absent while zero, as are the next three.
pub(crate) const GRANTED: &str = "granted";
pub(crate) const RESCUES: &str = "rescues";
pub(crate) const DEATH: &str = "death";
pub(crate) const DLQ_SENT: &str = "dlq_sent";
pub(crate) const MOVES: &str = "moves";
pub(crate) const RULE: &str = "rule";
pub(crate) const FLOOR: &str = "floor";
pub(crate) const LATE_SUCCESS: &str = "late_success";
pub(crate) const HOLD: &str = "hold";
/// Only on cancelled rows.
pub(crate) const CANCELLED: &str = "cancelled";
/// In a hold and in a cancel.
pub(crate) const SINCE: &str = "since";
pub(crate) const BY: &str = "by";
pub(crate) const WHY: &str = "why";
/// Absent while empty.
pub(crate) const REDRIVES: &str = "redrives";
/// Only once a redrive run has moved the row: the last one, as in `redrives`.
pub(crate) const RUN_ID: &str = "run_id";
/// Only on dead and expired rows: the state again.
pub(crate) const ATTENTION: &str = "attention";
pub(crate) const HISTORY: &str = "history";

/// Alias: the id that the migrated reminder has.
pub(crate) const MIGRATED_TO: &str = "migrated_to";
/// Lock: the id of the delivery that has the key.
pub(crate) const HOLDER: &str = "holder";

pub(crate) const BODY: &str = "body";
pub(crate) const TENANT: &str = "tenant";
pub(crate) const SUBSCRIBER: &str = "subscriber";
pub(crate) const RENEWAL_PERIOD: &str = "renewal_period";
pub(crate) const REMINDER_KIND: &str = "reminder_kind";

/// Control, partition key.
pub(crate) const KIND: &str = "kind";
/// Control, sort key.
pub(crate) const ID: &str = "id";
pub(crate) const KIND_DESTINATION: &str = "destination";
/// What a destination's receiver answered last; `id` is the destination's.
pub(crate) const KIND_REJECTIONS: &str = "rejections";
/// The number that a destination's calls are booked on; `id` is the destination's.
pub(crate) const KIND_LIMITER: &str = "limiter";
/// How a destination has been reached lately; `id` is the destination's.
pub(crate) const KIND_REACH: &str = "reach";
/// A business calendar; `id` is its name.
pub(crate) const KIND_CALENDAR: &str = "calendar";
pub(crate) const KIND_SETTINGS: &str = "settings";
pub(crate) const KIND_CURSOR: &str = "cursor";
/// What a function left behind when it came to its end; `id` is the function's name.
pub(crate) const KIND_HEARTBEAT: &str = "heartbeat";
/// What an operator did; `id` is its time and token.
pub(crate) const KIND_OPERATION: &str = "operation";
/// An operation, as JSON.
pub(crate) const OPERATION: &str = "operation";
/// A redrive run; `id` is its name.
pub(crate) const KIND_RUN: &str = "run";
/// Start of a shadow entry's `kind`; the destination follows.
pub(crate) const KIND_SHADOW: &str = "shadow#";
/// `id` of the settings row of the stage's switches.
pub(crate) const ID_STAGE: &str = "stage";
/// `id` of the settings row that is there while all redriving is frozen.
pub(crate) const ID_REDRIVE: &str = "redrive";
/// In a run.
pub(crate) const PHASE: &str = "phase";
pub(crate) const ORDER: &str = "order";
pub(crate) const PROGRESS: &str = "progress";
/// Only while all redriving is frozen.
pub(crate) const FROZEN: &str = "frozen";
pub(crate) const SPEC: &str = "spec";
pub(crate) const CHANGED: &str = "changed";
pub(crate) const PAUSED: &str = "paused";
pub(crate) const DESTINATION_VERSION: &str = "destination_version";
pub(crate) const RESULTS: &str = "results";
/// Absent if no rejection had one.
pub(crate) const LAST_STATUS: &str = "last_status";
/// Microseconds since the Unix epoch.
pub(crate) const TAT: &str = "tat";
/// Calls that ended, ever since somebody counted; absent before the first.
pub(crate) const CALLS: &str = "calls";
/// Of these, those that were followed by another one.
pub(crate) const REPEATED: &str = "repeated";
pub(crate) const AT: &str = "at";
pub(crate) const LINE: &str = "line";
/// Calls in a row without an answer.
pub(crate) const SILENT: &str = "silent";
pub(crate) const IN_FLIGHT: &str = "in_flight";
/// Only while the breaker is open.
pub(crate) const OPEN: &str = "open";
pub(crate) const RETRY_MODE: &str = "retry_mode";
/// Only while an operator has switched dispatch's schedule off: since when.
pub(crate) const DISPATCH_PAUSED: &str = "dispatch_paused";
pub(crate) const POSTED_AT: &str = "posted_at";
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const BODY_BYTES: &str = "body_bytes";
pub(crate) const KEY_IDS: &str = "key_ids";
