//! I run the program as a person does, against tables on dynoxide.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::{DynamoControl, DynamoLedger};
use punctual_core::destination::{Change, Destination};
use punctual_core::ports::{Control as _, Stored};
use serde_json::json;
use tokio::process::Command;

use super::destination;
use crate::bench::create_tables;
use crate::stack::dynamo::Dynoxide;
use crate::stack::package::built_binaries;
use crate::stack::{REGION, sdk_config};

/// The stage of the tables.
const STAGE: &str = "local";

/// Tables on a server of this process, with the destination.
#[derive(Debug)]
pub struct Served {
    /// The ledger.
    pub ledger: DynamoLedger,
    /// The control table.
    pub control: DynamoControl,
    // Last: it ends when nothing uses it any more.
    server: Dynoxide,
}

impl Served {
    /// Starts it with an empty ledger.
    ///
    /// # Errors
    /// If the server does not start, or the destination cannot be registered.
    pub async fn start() -> Result<Self> {
        let server = Dynoxide::start()?;
        let (ledger_table, control_table) = (format!("punctual-{STAGE}-ledger"), format!("punctual-{STAGE}-control"));
        create_tables(server.endpoint(), &ledger_table, &control_table).await?;
        let aws = Aws::with(sdk_config(server.endpoint()).await);
        let (ledger, control) = (aws.ledger(&ledger_table), aws.control(&control_table));
        let spec = json!({"id": destination()?, "url": "https://receiver.invalid/hook", "secrets": ["punctual/local/key"]});
        let changed = Change { at: machine_time(), by: "test".into(), why: "a comparison".into() };
        let registered = Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed };
        ensure!(control.put_destination(&registered, 0).await? == Stored::Done, "it is registered already");
        Ok(Self { ledger, control, server })
    }

    /// The program, with these files, in this folder, where its temporary files go as well.
    ///
    /// # Errors
    /// If it is not built.
    pub fn program(&self, folder: &Path, files: &[&str]) -> Result<Command> {
        let program = built_binaries()?.join("reconcile");
        ensure!(program.is_file(), "reconcile is not built: run `cargo build --workspace --bins`");
        let now = machine_time();
        let (from, until) = (now.minus(Duration::from_secs(86_400)), now.minus(Duration::from_secs(3_600)));
        let mut command = Command::new(program);
        command
            .args(["--stage", STAGE, "--destination", destination()?.as_str(), "--by", "ann", "--out", "report.json"])
            .args(["--from", &from.to_string(), "--until", &until.to_string()])
            .args(files)
            .env_clear()
            .envs([("AWS_ENDPOINT_URL", self.server.endpoint()), ("AWS_REGION", REGION)])
            .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")])
            .env("TMPDIR", folder.join("tmp"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        std::fs::create_dir_all(folder.join("tmp")).context("a folder for temporary files")?;
        Ok(command)
    }
}
