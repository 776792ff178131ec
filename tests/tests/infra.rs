//! The rules that `infra/template.yaml` and `infra/observability.yaml` keep. Most of them are not checked by any linter, and AWS reports a violation
//! of some of them only by losing messages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "infra/alarms.rs"]
mod alarms;
#[path = "infra/dashboard.rs"]
mod dashboard;
#[path = "infra/file.rs"]
mod file;
#[path = "infra/functions.rs"]
mod functions;
#[path = "infra/parameters.rs"]
mod parameters;
#[path = "infra/permissions.rs"]
mod permissions;
#[path = "infra/queues.rs"]
mod queues;
#[path = "infra/reading.rs"]
mod reading;
#[path = "infra/schedule.rs"]
mod schedule;
#[path = "infra/tables.rs"]
mod tables;
