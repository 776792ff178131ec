//! DynamoDB as an in-process dynoxide server, with the tables that the template made on the emulator.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::http::Api;

/// A running server. It has a thread and a runtime of its own, so that it outlives the runtime of the test that began it.
#[derive(Debug)]
pub(crate) struct Dynoxide {
    endpoint: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dynoxide {
    /// Starts an empty in-memory database.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?;
        listener.set_nonblocking(true).context("cannot set up dynoxide's port")?;
        let endpoint = format!("http://{}", listener.local_addr().context("cannot read dynoxide's port")?);
        let database = dynoxide::Database::memory().map_err(|error| anyhow!("dynoxide did not start: {error}"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start a runtime for dynoxide")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("dynoxide".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                    let serve = dynoxide::server::serve_with_shutdown(listener, database, std::future::pending());
                    tokio::select! {
                        _ = serve => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })
            .context("cannot start a thread for dynoxide")?;
        Ok(Self { endpoint, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Creates a table with the keys and indexes that it has on the emulator.
    pub(super) async fn copy_table(&self, emulator: &Api, table: &str) -> Result<()> {
        let request = serde_json::json!({ "TableName": table });
        let described = emulator.dynamodb("DescribeTable", &request).await?;
        let described = described.get("Table").ok_or_else(|| anyhow!("the emulator does not describe {table}"))?;
        let mut creation = pick(described, &["TableName", "AttributeDefinitions", "KeySchema"]);
        creation.insert("BillingMode".to_owned(), Value::from("PAY_PER_REQUEST"));
        if let Some(indexes) = described.get("GlobalSecondaryIndexes").and_then(Value::as_array) {
            let indexes: Vec<Value> =
                indexes.iter().map(|index| pick(index, &["IndexName", "KeySchema", "Projection"]).into()).collect();
            creation.insert("GlobalSecondaryIndexes".to_owned(), indexes.into());
        }
        Api::new(&self.endpoint)?.dynamodb("CreateTable", &creation.into()).await.map(drop)
    }
}

impl Drop for Dynoxide {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pick(from: &Value, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), from.get(name)?.clone()))).collect()
}
