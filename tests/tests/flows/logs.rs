//! What the functions write to their logs: JSON with a level, metrics in their one form, and nothing that is private. At
//! the most talkative level, because that is when an SDK shows what it sends.

use std::collections::BTreeSet;
use std::fs;

use punctual_adapters::telemetry::{DIMENSIONS, NAMESPACE, metric};
use punctual_core::state::State;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::StackOptions;
use serde_json::{Value, json};

use crate::world::{BOUND, SECRET, World, due_now, until};

/// What stands for the private things of this flow; the signing secret is [`SECRET`].
const PAYLOAD: &str = "payload-marker-7d1f";
const SUBSCRIBER: &str = "subscriber-marker-7d1f";
const REFERENCE: &str = "reference-marker-7d1f";

/// A text and what it looks like in the two encodings that bytes are written in.
fn forms(text: &str) -> Vec<String> {
    let base64 = data_encoding::BASE64.encode(text.as_bytes());
    // Base64 of a part of a longer text depends on where the part begins; three bytes further in it is the same again.
    let inner: Vec<String> = (0..3).map(|skip| data_encoding::BASE64_NOPAD.encode(&text.as_bytes()[skip..])).collect();
    let stable = inner.iter().map(|form| form[4..form.len() - 4].to_owned());
    let bytes = format!("{:?}", text.as_bytes());
    [text.to_owned(), base64, bytes.trim_matches(['[', ']']).to_owned()].into_iter().chain(stable).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_json_and_metrics_are_whole_and_neither_tells_anything_private() {
    let options = StackOptions::default().parameter("LogLevel", "TRACE");
    let world = World::start_with(options, ReceiverOptions::default()).await;
    let console = world.console();
    let mut reminders = Vec::new();
    for (destination, path) in [("fine", "healthy"), ("flaky", "flaky"), ("wrong", "conflict")] {
        world.destination(destination, path, json!({})).await;
        for mut reminder in due_now(destination, 3) {
            reminder["subscriber"] = json!(format!("{SUBSCRIBER}-{}", reminder["subscriber"].as_str().unwrap()));
            reminder["reference"] = json!(format!("{REFERENCE}-{}", reminder["reference"].as_str().unwrap()));
            reminder["payload"]["text"] = json!(PAYLOAD);
            reminders.push(reminder);
        }
    }
    let ids = world.schedule(&reminders).await;
    // The unhappy paths talk most: wrong input, the same again with another content, a message that cannot be read.
    let mut other = reminders[0].clone();
    other["payload"]["text"] = json!(format!("{PAYLOAD} changed"));
    let mut bad = reminders[1].clone();
    bad["deliver_by"] = json!(PAYLOAD);
    let answer = console.schedule(&[other, bad]).await.unwrap();
    assert_eq!(answer["results"][0]["conflicts"], json!(["payload"]), "{answer}");
    let malformed = json!({"version": 1, "reference": REFERENCE, "subscriber": SUBSCRIBER}).to_string();
    world
        .stack
        .sqs()
        .await
        .send_message()
        .queue_url(world.stack.queue_url().unwrap())
        .message_body(malformed)
        .send()
        .await
        .unwrap();
    let rows = world.settled(&ids).await;
    assert_eq!(rows.iter().filter(|row| row.state == State::Delivered).count(), 6);
    until("the dead letter of the malformed message", BOUND, async || match world.queued_messages().await {
        0 => Ok(()),
        left => Err(format!("{left} messages left")),
    })
    .await;
    console.dispatch().await.unwrap();
    let figures = console.send("monitor", &json!({"tick": {}})).await.unwrap();
    assert_eq!((&figures["destinations"], &figures["dead"]["key_conflict"]), (&json!(3), &json!(3)), "{figures}");
    assert!(figures["dispatch_age_seconds"].as_u64().is_some_and(|age| age < 60), "{figures}");
    let identity = &reminders[0];
    let identity = json!({
        "tenant": identity["tenant"], "subscriber": identity["subscriber"],
        "renewal_period": identity["renewal_period"], "reminder_kind": identity["reminder_kind"],
    });
    for question in [json!({"identity": identity}), json!({"reference": reminders[0]["reference"]})] {
        let mut event = json!({"action": "explain"});
        event.as_object_mut().unwrap().extend(question.as_object().unwrap().clone());
        let answer = console.do_it("inspect", &event).await.unwrap().to_string();
        assert!(!answer.contains(PAYLOAD) && !answer.contains(SUBSCRIBER), "{answer}");
    }
    for letter in world.dead_letters().await.iter().filter(|letter| !letter.get("delivery_id").is_empty()) {
        assert!(!letter.body.contains(PAYLOAD) && !letter.body.contains(SUBSCRIBER), "{letter:?}");
    }

    let path = world.stack.log().to_path_buf();
    world.stop().await;
    let log = fs::read_to_string(&path).unwrap();
    for private in [PAYLOAD, SUBSCRIBER, REFERENCE, SECRET.trim_start_matches("whsec_")] {
        for form in forms(private) {
            let line = log.lines().find(|line| line.contains(&form));
            let shown = line.map(|line| line.chars().take(400).collect::<String>());
            assert_eq!(shown, None, "{private} is in the log as {form}; see {}", path.display());
        }
    }
    let lines: Vec<Value> =
        log.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect();
    let (metrics, logs): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line.get("_aws").is_some());
    let mut messages = BTreeSet::new();
    for line in &logs {
        assert!(["TRACE", "DEBUG", "INFO", "WARN", "ERROR"].contains(&line["level"].as_str().unwrap()), "{line}");
        messages.insert(line["message"].as_str().unwrap_or_default());
    }
    for message in ["scheduled", "attempted", "handled a batch", "a message cannot be read", "dispatched", "monitored"] {
        assert!(messages.contains(message), "no function said {message:?}: {messages:?}");
    }
    let mut functions = BTreeSet::new();
    let mut sampled = false;
    for line in metrics {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!((&directive["Namespace"], &directive["Dimensions"]), (&json!(NAMESPACE), &json!([DIMENSIONS])), "{line}");
        let function = line["Function"].as_str().unwrap();
        assert_eq!(line["Stage"], "local");
        let names: BTreeSet<&str> =
            directive["Metrics"].as_array().unwrap().iter().map(|metric| metric["Name"].as_str().unwrap()).collect();
        let wanted = match function {
            "dispatch" => metric::OF_DISPATCH,
            "monitor" => metric::OF_MONITOR,
            "redrive" => metric::OF_REDRIVE,
            _ => metric::OF_DELIVER,
        };
        // Single values are there in the batches that have any.
        let (samples, names): (BTreeSet<&str>, BTreeSet<&str>) =
            names.into_iter().partition(|name| metric::SAMPLES_OF_DELIVER.contains(name));
        assert!(function == "deliver" || samples.is_empty(), "{line}");
        assert!(
            samples.iter().all(|name| line[name].as_array().is_some_and(|values| values.iter().all(Value::is_number))),
            "{line}"
        );
        sampled |= !samples.is_empty();
        assert_eq!(names, wanted.iter().copied().collect(), "{line}");
        assert!(names.iter().all(|name| line[name].is_number()), "{line}");
        functions.insert(function.to_owned());
    }
    assert_eq!(functions, ["deliver", "dispatch", "monitor"].map(str::to_owned).into());
    assert!(sampled, "the first calls were timed");
}
