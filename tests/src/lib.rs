//! What the tests, the demo and the bench share: the local stack, the misbehaving receiver, a console.
//!
//! I am never deployed. I run the very binaries and the very template that are.

pub mod alarms;
pub mod answers;
pub mod bench;
pub mod buried;
pub mod canary;
pub mod cases;
pub mod console;
pub mod demo;
pub mod drill;
pub mod environment;
pub mod hostile;
pub mod load;
pub mod mutants;
pub mod producer;
pub mod receiver;
pub mod reconcile;
pub mod schema;
pub mod stack;
pub mod world;

/// Comes back when a person or the system asks this process to end (SIGINT, SIGTERM or SIGHUP).
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}
