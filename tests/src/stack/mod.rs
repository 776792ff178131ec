//! The local stack: the real template and the real function binaries on an emulator, for the demo and the tests.
//!
//! [`Stack::start`] launches the emulator on a port of its own, uploads the function binaries that cargo built, deploys
//! `infra/template.yaml` and answers with the names of what was made. Several stacks can run at once. Nothing survives
//! its owner: a guard process ends the emulator and all of its children when the owner stops it, drops it or dies.
//!
//! What the emulator does differently from AWS and forces on the template is listed in [`template`] and nowhere else.

pub mod detached;
pub(crate) mod dynamo;
mod emulator;
pub(crate) mod http;
pub mod package;
pub mod process;
pub mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use serde_json::Value;

pub use http::Invocation;

use emulator::{Emulator, Launch};
use http::Api;

/// Region of the emulated account.
pub const REGION: &str = "us-east-1";

/// Name of the deployed CloudFormation stack.
pub const STACK_NAME: &str = "punctual";

/// Functions of the template, by the name of their binary.
pub const FUNCTIONS: [&str; 7] = ["dispatch", "deliver", "schedule", "inspect", "operate", "redrive", "monitor"];

/// Longest time that a deployment may take.
const DEPLOY_BOUND: Duration = Duration::from_secs(60);

/// Where the functions find DynamoDB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DynamoDb {
    /// The emulator's own tables.
    #[default]
    Ministack,
    /// An in-process dynoxide server: faster, and exact in consumed capacity. It ends with this process, so that
    /// [`StackOptions::keep`] cannot be combined with it.
    Dynoxide,
}

/// How a stack is started.
#[derive(Clone, Debug, Default)]
pub struct StackOptions {
    /// Template parameters that differ from [`default_parameters`].
    pub parameters: BTreeMap<String, String>,
    /// Where the functions find DynamoDB.
    pub dynamodb: DynamoDb,
    /// Refuses every call of a function that its role does not permit. The owner's own calls are the account's root's.
    pub enforce_iam: bool,
    /// Leaves the stack running when this value's owner is gone; `stack down` ends it.
    pub keep: bool,
    /// The template's text; `None` takes the file.
    pub template: Option<String>,
    /// Directory of the function binaries; `None` takes the directory that this program was built into.
    pub binaries: Option<PathBuf>,
}

impl StackOptions {
    /// Sets one template parameter.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: impl ToString) -> Self {
        self.parameters.insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets where the functions find DynamoDB.
    #[must_use]
    pub fn dynamodb(mut self, dynamodb: DynamoDb) -> Self {
        self.dynamodb = dynamodb;
        self
    }
}

/// Parameters that every local stack starts from. The schedules are off, so that tests decide when dispatch and monitor run.
#[must_use]
pub fn default_parameters() -> BTreeMap<String, String> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    [
        ("Stage", "local"),
        ("Production", "false"),
        ("AllowLocalEndpoints", "true"),
        ("Architecture", architecture),
        ("TickState", "DISABLED"),
        ("MonitorState", "DISABLED"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_directory.parent().unwrap_or(crate_directory).to_path_buf()
}

/// A running local stack.
#[derive(Debug)]
pub struct Stack {
    emulator: Emulator,
    api: Api,
    outputs: BTreeMap<String, String>,
    parameters: BTreeMap<String, String>,
    dynoxide: Option<dynamo::Dynoxide>,
}

impl Stack {
    /// Starts the emulator, deploys the template and waits until all of it is there.
    ///
    /// # Errors
    ///
    /// One line that names what is missing (the Python environment, a function binary), or the resource that could not
    /// be created and why. Nothing is left running in that case.
    pub async fn start(options: StackOptions) -> Result<Self> {
        if options.keep && options.dynamodb == DynamoDb::Dynoxide {
            bail!("a stack that is kept cannot use dynoxide, which ends with this process");
        }
        let binaries = match options.binaries {
            Some(directory) => directory,
            None => package::built_binaries()?,
        };
        let packages = package::read_binaries(&binaries)?;
        let mut parameters = default_parameters();
        parameters.extend(options.parameters);

        let dynoxide = match options.dynamodb {
            DynamoDb::Ministack => None,
            DynamoDb::Dynoxide => Some(dynamo::Dynoxide::start()?),
        };
        let launch = Launch {
            dynamodb: dynoxide.as_ref().map(dynamo::Dynoxide::endpoint),
            detached: options.keep,
            enforce_iam: options.enforce_iam,
        };
        let text = options.template.map_or_else(template::read, Ok)?;
        let local = template::localise(&text, &parameters)?;
        let emulator = Emulator::start(launch).await?;
        let api = Api::new(emulator.endpoint())?;
        let outputs = deploy(&api, packages, &local, &parameters)
            .await
            .with_context(|| format!("the emulator's log is {}", emulator.log().display()))?;
        let mut stack = Self { emulator, api, outputs, parameters, dynoxide };
        if let Some(dynoxide) = &stack.dynoxide {
            for table in [stack.ledger_table()?, stack.control_table()?] {
                dynoxide.copy_table(&stack.api, &table).await?;
            }
        }
        stack.emulator.set_kept(options.keep);
        Ok(stack)
    }

    /// The emulator's address, such as `http://127.0.0.1:40001`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.emulator.endpoint()
    }

    /// The address of DynamoDB: the emulator's, or that of dynoxide.
    #[must_use]
    pub fn dynamodb_endpoint(&self) -> &str {
        self.dynoxide.as_ref().map_or_else(|| self.endpoint(), dynamo::Dynoxide::endpoint)
    }

    /// The emulator's log, which has the functions' log lines too.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.emulator.log()
    }

    /// The temporary directory of the emulator and of the functions; it goes when the stack ends.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        self.emulator.scratch()
    }

    /// Process id of the guard: its session is everything that this stack started.
    #[must_use]
    pub fn guard_pid(&self) -> u32 {
        self.emulator.guard_pid()
    }

    /// The template's outputs by name.
    #[must_use]
    pub fn outputs(&self) -> &BTreeMap<String, String> {
        &self.outputs
    }

    /// The parameters that this stack was deployed with, without those left at the template's default.
    #[must_use]
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.parameters
    }

    /// One of the template's outputs.
    ///
    /// # Errors
    ///
    /// If the template has no such output.
    pub fn output(&self, name: &str) -> Result<String> {
        self.outputs.get(name).cloned().ok_or_else(|| anyhow!("the template has no output named {name}"))
    }

    /// Name of the ledger table.
    ///
    /// # Errors
    ///
    /// If the template has no such output.
    pub fn ledger_table(&self) -> Result<String> {
        self.output("LedgerTableName")
    }

    /// Name of the control table.
    ///
    /// # Errors
    ///
    /// If the template has no such output.
    pub fn control_table(&self) -> Result<String> {
        self.output("ControlTableName")
    }

    /// URL of the queue of deliveries.
    ///
    /// # Errors
    ///
    /// If the template has no such output.
    pub fn queue_url(&self) -> Result<String> {
        self.output("DeliveryQueueUrl")
    }

    /// URL of the dead letter queue.
    ///
    /// # Errors
    ///
    /// If the template has no such output.
    pub fn dead_letter_queue_url(&self) -> Result<String> {
        self.output("DeadLetterQueueUrl")
    }

    /// Deployed name of the function with this binary name (`dispatch` → `punctual-local-dispatch`).
    ///
    /// # Errors
    ///
    /// If the template has no such function.
    pub fn function_name(&self, function: &str) -> Result<String> {
        self.output(&function_output(function))
    }

    /// Invokes a function and waits for its answer. An error of the function is part of the answer.
    ///
    /// # Errors
    ///
    /// If the emulator refuses the call or does not answer within the bound of the HTTP client.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<Invocation> {
        self.invoke_text(function, event.to_string()).await
    }

    /// The same with an event that is sent as it is written.
    ///
    /// # Errors
    ///
    /// As [`Stack::invoke`].
    pub async fn invoke_text(&self, function: &str, event: String) -> Result<Invocation> {
        self.api.invoke(&self.function_name(function)?, event).await
    }

    /// Hands an event to a function without waiting for it to run.
    ///
    /// # Errors
    ///
    /// If the emulator refuses the event.
    pub async fn invoke_async(&self, function: &str, event: &Value) -> Result<()> {
        self.api.invoke_async(&self.function_name(function)?, event).await
    }

    /// What a function has logged so far, line by line, whoever started it.
    ///
    /// # Errors
    ///
    /// If the emulator does not know its log group.
    pub async fn log_lines(&self, function: &str) -> Result<Vec<String>> {
        self.api.log_lines(&format!("/aws/lambda/{}", self.function_name(function)?)).await
    }

    /// Starts or stops the EventBridge schedule that starts dispatch.
    ///
    /// # Errors
    ///
    /// If the emulator refuses the change.
    pub async fn set_ticking(&self, enabled: bool) -> Result<()> {
        self.api.set_schedule(&self.output("ScheduleGroupName")?, &self.output("TickScheduleName")?, enabled).await
    }

    /// Starts or stops the hand-over of queue messages to deliver.
    ///
    /// # Errors
    ///
    /// If the emulator refuses the change.
    pub async fn set_delivering(&self, enabled: bool) -> Result<()> {
        self.api.set_event_sources(&self.function_name("deliver")?, enabled).await
    }

    /// Process ids of a function's running environments.
    ///
    /// # Errors
    ///
    /// If the template has no such function.
    pub fn worker_pids(&self, function: &str) -> Result<Vec<u32>> {
        let variable = format!("AWS_LAMBDA_FUNCTION_NAME={}", self.function_name(function)?);
        Ok(process::of_session(self.guard_pid()).into_iter().filter(|pid| process::has_environment(*pid, &variable)).collect())
    }

    /// Kills a function's running environments without warning, as a crash would.
    ///
    /// # Errors
    ///
    /// If the template has no such function.
    pub fn kill_workers(&self, function: &str) -> Result<usize> {
        let pids = self.worker_pids(function)?;
        Ok(pids.into_iter().filter(|pid| process::signal(*pid, libc::SIGKILL)).count())
    }

    /// SDK settings for this stack: test credentials and the emulator's address. For DynamoDB use [`Stack::dynamodb`],
    /// which knows where the tables are.
    pub async fn sdk_config(&self) -> SdkConfig {
        sdk_config(self.endpoint()).await
    }

    /// A DynamoDB client for this stack's tables.
    pub async fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&sdk_config(self.dynamodb_endpoint()).await)
    }

    /// An SQS client for this stack's queues.
    pub async fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.sdk_config().await)
    }

    /// A Secrets Manager client for this stack.
    pub async fn secrets(&self) -> aws_sdk_secretsmanager::Client {
        aws_sdk_secretsmanager::Client::new(&self.sdk_config().await)
    }

    /// Ends every process that this stack started and removes its scratch directory; the log stays.
    ///
    /// # Errors
    ///
    /// If a process outlives the bound.
    pub async fn stop(mut self) -> Result<()> {
        tokio::task::spawn_blocking(move || self.emulator.stop()).await.context("the wait for the emulator failed")?
    }
}

/// The template's output that names the function with this binary name.
fn function_output(function: &str) -> String {
    let mut letters = function.chars();
    let capital = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
    format!("{}FunctionName", capital.chain(letters).collect::<String>())
}

/// SDK settings for an emulator at this address.
pub async fn sdk_config(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "local stack"))
        .load()
        .await
}

/// Uploads the packages, creates the stack and waits for its end; answers with the outputs.
async fn deploy(
    api: &Api,
    packages: Vec<package::Package>,
    template: &str,
    parameters: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    api.create_bucket(template::BUCKET).await?;
    for package in packages {
        api.put_object(template::BUCKET, &template::object_key(package.function), package.archive).await?;
    }
    api.create_stack(STACK_NAME, template, parameters).await?;
    tokio::time::timeout(DEPLOY_BOUND, api.stack_created(STACK_NAME))
        .await
        .map_err(|_| anyhow!("the template was not deployed within {} s", DEPLOY_BOUND.as_secs()))?
}
