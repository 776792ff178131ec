//! The local stack's own promises, with functions that only echo.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::*;

/// A function that answers with its event and its environment. `{"sleep": N}` makes it slow.
const ECHO: &str = r#"
import json, os, time, urllib.request
runtime = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation"
while True:
    with urllib.request.urlopen(f"{runtime}/next") as invocation:
        request, event = invocation.headers["Lambda-Runtime-Aws-Request-Id"], json.load(invocation)
    print("echo", flush=True)
    time.sleep(event.get("sleep", 0))
    answer = json.dumps({"event": event, "environment": dict(os.environ)}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{runtime}/{request}/response", answer)).close()
"#;

/// Directory with an echo in the place of each function's binary.
fn echoes(test: &str) -> PathBuf {
    let directory = root().join("target").join("local").join(format!("echo-{test}"));
    fs::create_dir_all(&directory).unwrap();
    let python = root().join(".venv").join("bin").join("python");
    for function in FUNCTIONS {
        fs::write(directory.join(function), format!("#!{}{ECHO}", python.display())).unwrap();
    }
    directory
}

fn options(test: &str) -> StackOptions {
    StackOptions { binaries: Some(echoes(test)), ..StackOptions::default() }
}

/// Waits until something holds, at most 20 s.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what} did not happen within 20 s");
}

#[tokio::test]
async fn two_stacks_run_at_once_and_leave_nothing_behind() {
    let (one, other) = tokio::join!(Stack::start(options("one")), Stack::start(options("other")));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_ne!(one.endpoint(), other.endpoint());
    for stack in [one, other] {
        assert_eq!(stack.function_name("deliver").unwrap(), "punctual-local-deliver");
        let answer = stack.invoke("dispatch", &json!({"a": 1})).await.unwrap();
        assert!(answer.log_tail.contains("echo"), "{}", answer.log_tail);
        let answer = answer.ok().unwrap();
        assert_eq!(answer["event"], json!({"a": 1}));
        assert_eq!(answer["environment"]["AWS_ENDPOINT_URL"], stack.endpoint());
        assert_eq!(answer["environment"]["QUEUE_URL"], stack.queue_url().unwrap());
        assert_eq!(answer["environment"]["LEDGER_TABLE"], stack.ledger_table().unwrap());

        let (session, scratch) = (stack.guard_pid(), stack.log().with_file_name("scratch"));
        assert!(process::of_session(session).len() >= 3 && scratch.exists());
        stack.stop().await.unwrap();
        assert_eq!(process::of_session(session), Vec::<u32>::new());
        assert!(!scratch.exists());
    }
}

#[tokio::test]
async fn a_dropped_stack_leaves_nothing_behind_in_the_middle_of_a_call() {
    let stack = Stack::start(options("dropped")).await.unwrap();
    stack.invoke_async("operate", &json!({"sleep": 60})).await.unwrap();
    eventually("the call", || stack.worker_pids("operate").unwrap().len() == 1);
    let session = stack.guard_pid();
    drop(stack);
    assert_eq!(process::of_session(session), Vec::<u32>::new());
}

#[tokio::test]
async fn a_killed_function_is_started_anew() {
    let stack = Stack::start(options("killed")).await.unwrap();
    stack.invoke("inspect", &json!({})).await.unwrap().ok().unwrap();
    let before = stack.worker_pids("inspect").unwrap();
    assert_eq!((before.len(), stack.worker_pids("deliver").unwrap().len()), (1, 0));
    assert_eq!(stack.kill_workers("inspect").unwrap(), 1);
    eventually("the worker's end", || stack.worker_pids("inspect").unwrap().is_empty());
    // The emulator may hand one more event to the worker that it has not yet missed: that invocation fails, as one does whose
    // environment dies. The next one has a new environment.
    let first = stack.invoke("inspect", &json!({})).await.unwrap();
    if first.function_error.is_some() {
        stack.invoke("inspect", &json!({})).await.unwrap().ok().unwrap();
    }
    assert_ne!(stack.worker_pids("inspect").unwrap(), before);
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn the_schedule_and_the_event_source_can_be_switched() {
    let stack = Stack::start(options("switched")).await.unwrap();
    for enabled in [true, false] {
        stack.set_ticking(enabled).await.unwrap();
        stack.set_delivering(enabled).await.unwrap();
    }
    let (sqs, queue) = (stack.sqs().await, stack.queue_url().unwrap());
    sqs.send_message().queue_url(&queue).message_body("{}").send().await.unwrap();
    // Nobody else takes the message while the event source is off.
    let taken = sqs.receive_message().queue_url(&queue).wait_time_seconds(5).send().await.unwrap();
    assert_eq!(taken.messages().len(), 1);
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn dynoxide_has_the_tables_of_the_template() {
    let stack = Stack::start(options("dynoxide").dynamodb(DynamoDb::Dynoxide)).await.unwrap();
    let answer = stack.invoke("dispatch", &json!({})).await.unwrap().ok().unwrap();
    assert_eq!(answer["environment"]["AWS_ENDPOINT_URL_DYNAMODB"], stack.dynamodb_endpoint());
    assert_ne!(stack.dynamodb_endpoint(), stack.endpoint());
    let table = stack.dynamodb().await.describe_table().table_name(stack.ledger_table().unwrap()).send().await.unwrap();
    let mut indexes: Vec<_> =
        table.table().unwrap().global_secondary_indexes().iter().filter_map(|index| index.index_name()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["attention", "reference", "run", "wake"]);
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_template_that_is_refused_says_why_in_one_line() {
    let refused = Stack::start(options("refused").parameter("Stage", "prod")).await.unwrap_err();
    let text = format!("{refused:#}");
    assert!(text.contains("AllowLocalEndpoints is refused for the stages prod, production and live"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn missing_binaries_are_named_in_one_line() {
    let text = format!("{:#}", package::read_binaries(&root().join("nowhere")).unwrap_err());
    assert!(
        text.contains("dispatch, deliver, schedule, inspect, operate, redrive, monitor not built") && !text.contains('\n'),
        "{text}"
    );
}

#[test]
fn a_process_is_known_by_its_start() {
    let own = std::process::id();
    let status = process::status(own).unwrap();
    assert_eq!(process::status(own), Some(status));
    assert!(status.started > 0 && process::of_session(status.session).contains(&own));
    // 0 and 1 would address a group or the system's first process.
    assert!(!process::signal(0, 0) && !process::signal(1, 0));
}

/// The guard around a command that has a child of its own, and the guard's scratch directory.
fn guarded(test: &str) -> (Child, PathBuf) {
    let scratch = root().join("target").join("local").join(format!("guard-{test}"));
    fs::create_dir_all(&scratch).unwrap();
    let guard = Command::new("python3")
        .arg(root().join("tests").join("tools").join("guard.py"))
        .arg("--scratch")
        .arg(&scratch)
        // The child ignores SIGTERM.
        .args(["--", "sh", "-c", "trap '' TERM; sleep 600 & sleep 600"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = guard.id();
    eventually("the start of the command", || process::of_session(pid).len() == 4);
    (guard, scratch)
}

#[test]
fn the_guard_ends_everything_when_its_owner_is_gone() {
    let (mut guard, scratch) = guarded("orphaned");
    // What the system does to the pipe of an owner that was killed.
    drop(guard.stdin.take());
    assert!(guard.wait().unwrap().success());
    assert_eq!(process::of_session(guard.id()), Vec::<u32>::new());
    assert!(!scratch.exists());
}

#[test]
fn the_guard_ends_everything_when_it_is_asked_to() {
    let (mut guard, scratch) = guarded("asked");
    assert!(process::signal(guard.id(), libc::SIGTERM));
    assert!(guard.wait().unwrap().success());
    assert_eq!(process::of_session(guard.id()), Vec::<u32>::new());
    assert!(!scratch.exists());
}

#[test]
fn the_command_goes_with_a_guard_that_is_killed() {
    let (mut guard, scratch) = guarded("killed");
    let command = process::of_session(guard.id())[1];
    guard.kill().unwrap();
    guard.wait().unwrap();
    eventually("the end of the command", || process::status(command).is_none());
    // Its own children end when they miss the runtime interface; these sleepers have none.
    for pid in process::of_session(guard.id()) {
        let _ = process::signal(pid, libc::SIGKILL);
    }
    fs::remove_dir_all(scratch).unwrap();
}
