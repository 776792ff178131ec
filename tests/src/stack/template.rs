//! The template, and the only changes that are made to it for the emulator.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};

use super::root;

/// Bucket of the function packages on the emulator.
pub const BUCKET: &str = "punctual-packages";

/// Start of a line that names a function's code; the rest is the binary's name and a slash.
const CODE_LINE: &str = "CodeUri: ../target/lambda/";

/// The line whose value the emulator takes as text and then compares with a number.
const CONCURRENCY: &str = "MaximumConcurrency: !Ref DeliverMaximumConcurrency";

/// The statement with which a function publishes to the queue, and the action that the emulator asks for as well. AWS
/// has no such action: it authorises `SendMessageBatch` as `sqs:SendMessage`.
const PUBLISH: &str = "- Sid: Publish\n                Effect: Allow\n                Action: [sqs:SendMessage]\n";
const ALSO: &str = "[sqs:SendMessage, sqs:SendMessageBatch]";

/// The same for batches of the dead-letter queue: what the template permits, and what the emulator asks for as well.
const LETTERS: [(&str, &str); 2] = [
    (
        "[sqs:ChangeMessageVisibility, sqs:DeleteMessage, sqs:ReceiveMessage]",
        "[sqs:ChangeMessageVisibility, sqs:ChangeMessageVisibilityBatch, sqs:DeleteMessage, sqs:DeleteMessageBatch, sqs:ReceiveMessage]",
    ),
    (
        "[sqs:ChangeMessageVisibility, sqs:ReceiveMessage]",
        "[sqs:ChangeMessageVisibility, sqs:ChangeMessageVisibilityBatch, sqs:ReceiveMessage]",
    ),
];

/// The end of the resource with which a slice is planned. The emulator takes every schedule for one of the default group.
const IN_GROUP: &str = ":schedule/punctual-${Stage}/punctual-${Stage}-run_*";
const IN_DEFAULT: &str = ":schedule/default/punctual-${Stage}-run_*";

/// Resources that the emulator cannot have, with the reason.
pub const NOT_EMULATED: [(&str, &str); 1] = [(
    "QueuePolicy",
    "it denies plain HTTP, and the emulator speaks nothing else: where IAM is enforced, every call would be refused",
)];

/// Path of the template.
#[must_use]
pub fn path() -> PathBuf {
    root().join("infra").join("template.yaml")
}

/// Reads the template.
///
/// # Errors
///
/// If the file cannot be read.
pub fn read() -> Result<String> {
    let path = path();
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Key of a function's package in [`BUCKET`].
#[must_use]
pub fn object_key(function: &str) -> String {
    format!("{function}.zip")
}

/// The template as the emulator gets it. Five things differ from the file, everything else is the same text:
///
/// 1. each `CodeUri` names the uploaded package, exactly as `sam package` would write it;
/// 2. the event source's maximum concurrency is a number instead of a reference to one: the emulator would keep the
///    text "10", and its poller fails on it;
/// 3. a function that may send to the queue, or delete and show again dead letters, may also do what the emulator, and nobody
///    else, calls `sqs:SendMessageBatch` and the like;
/// 4. the schedules that redrive may create are of the default group where permissions are checked, and nowhere else;
/// 5. the resources in [`NOT_EMULATED`] are left out.
///
/// # Errors
///
/// If the template no longer has what one of these changes applies to, so that this list cannot go stale.
pub fn localise(template: &str, parameters: &BTreeMap<String, String>) -> Result<String> {
    let concurrency = match parameters.get("DeliverMaximumConcurrency") {
        Some(value) => value.clone(),
        None => default_of(template, "DeliverMaximumConcurrency")?,
    };
    let concurrency: u16 =
        concurrency.parse().with_context(|| format!("DeliverMaximumConcurrency {concurrency:?} is not a number"))?;
    if !template.contains(CONCURRENCY) {
        bail!("the template has no line {CONCURRENCY:?}");
    }
    let mut local = template.replace(CONCURRENCY, &format!("MaximumConcurrency: {concurrency}"));
    if !local.contains(PUBLISH) {
        bail!("the template has no statement that publishes to the queue");
    }
    local = local.replace(PUBLISH, &PUBLISH.replace("[sqs:SendMessage]", ALSO));
    for (given, also) in LETTERS {
        if !local.contains(given) {
            bail!("the template has no statement with {given:?}");
        }
        local = local.replace(given, also);
    }
    if !local.contains(IN_GROUP) {
        bail!("the template has no statement with which a slice is planned");
    }
    local = local.replace(IN_GROUP, IN_DEFAULT);
    for (resource, _) in NOT_EMULATED {
        local = without_resource(&local, resource)?;
    }
    let mut rewritten = 0_usize;
    let lines = local.lines().map(|line| match line.split_once(CODE_LINE) {
        Some((indent, rest)) => {
            rewritten += 1;
            format!("{indent}CodeUri: s3://{BUCKET}/{}\n", object_key(rest.trim_end_matches('/')))
        }
        None => format!("{line}\n"),
    });
    let local = lines.collect();
    if rewritten != super::FUNCTIONS.len() {
        bail!("the template has {rewritten} lines that begin with {CODE_LINE:?}, not {}", super::FUNCTIONS.len());
    }
    Ok(local)
}

/// The default of a parameter: the first `Default:` after its name.
fn default_of(template: &str, parameter: &str) -> Result<String> {
    template
        .split_once(&format!("\n  {parameter}:\n"))
        .and_then(|(_, rest)| rest.split_once("    Default: "))
        .and_then(|(_, rest)| rest.lines().next())
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| anyhow!("the template has no default for {parameter}"))
}

/// Leaves out one resource: its name's line and the deeper lines below it.
fn without_resource(template: &str, resource: &str) -> Result<String> {
    let head = format!("  {resource}:");
    if !template.lines().any(|line| line == head) {
        bail!("the template has no resource {resource}");
    }
    let mut inside = false;
    let mut kept = String::with_capacity(template.len());
    for line in template.lines() {
        inside = line == head || (inside && (line.is_empty() || line.starts_with("   ")));
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    Ok(kept)
}
