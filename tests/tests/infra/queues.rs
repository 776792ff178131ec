//! Queues: visibility, retention, partial failures, encryption.

use std::collections::BTreeSet;

use serde_json::json;

use crate::reading::{
    attribute, document, functions, list, parameter, queue_sources, reference, resource, resources_of, seconds, sub, written,
};

#[test]
fn a_queue_source_reports_partial_failures_without_a_window_and_within_a_concurrency() {
    let document = document();
    let mut sources = 0;
    for (name, function) in functions(&document) {
        for source in queue_sources(&function) {
            sources += 1;
            assert_eq!(source["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{name}");
            assert_eq!(source["MaximumBatchingWindowInSeconds"], 0, "{name}");
            assert_eq!(source["BatchSize"], 10, "{name}");
            assert_eq!(source["Queue"], attribute("DeliveryQueue", "Arn"), "{name}");
            let concurrency = &source["ScalingConfig"]["MaximumConcurrency"];
            let parameter = parameter(&document, concurrency);
            assert_eq!(parameter["MinValue"], 2);
            assert_eq!(parameter["MaxValue"], 1000);
            assert!((2..=1000).contains(&seconds(&parameter["Default"])));
            // A reservation below the maximum would throttle: it can only be the maximum itself, or none.
            let none = reference("AWS::NoValue");
            let reservation = json!({ "Fn::If": ["ReservesDeliverConcurrency", concurrency, none] });
            assert_eq!(function["ReservedConcurrentExecutions"], reservation, "{name}");
        }
    }
    assert_eq!(sources, 1);
    assert!(resources_of(&document, "AWS::Lambda::EventSourceMapping").is_empty(), "a source that this test overlooks");
}

#[test]
fn a_message_stays_hidden_for_six_times_its_consumers_timeout() {
    let document = document();
    let queue = &resource(&document, "DeliveryQueue")["Properties"];
    for (name, function) in functions(&document) {
        for source in queue_sources(&function) {
            let window = seconds(&source["MaximumBatchingWindowInSeconds"]);
            let least = 6 * seconds(&function["Timeout"]) + window;
            assert!(seconds(&queue["VisibilityTimeout"]) >= least, "{name} needs {least} s");
        }
    }
}

#[test]
fn dead_letters_are_kept_for_fourteen_days_and_longer_than_the_queue_keeps_its_messages() {
    let document = document();
    let queue = &resource(&document, "DeliveryQueue")["Properties"];
    let dead = &resource(&document, "DeadLetterQueue")["Properties"];
    assert_eq!(seconds(&dead["MessageRetentionPeriod"]), 14 * 24 * 3600);
    assert_eq!(seconds(&queue["MessageRetentionPeriod"]), 4 * 24 * 3600);
    assert!(seconds(&dead["MessageRetentionPeriod"]) > seconds(&queue["MessageRetentionPeriod"]));
    assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], 1000);
    assert_eq!(queue["RedrivePolicy"]["deadLetterTargetArn"], attribute("DeadLetterQueue", "Arn"));
    assert_eq!(dead["RedriveAllowPolicy"]["redrivePermission"], "byQueue");
    let sources = list(&dead["RedriveAllowPolicy"]["sourceQueueArns"]);
    assert_eq!(sources.len(), 1);
    // The source is named by hand, because two references would be a circle: it must be the queue's real name.
    assert!(sub(&sources[0]).ends_with(&format!(":{}", sub(&queue["QueueName"]))));
}

#[test]
fn queues_are_encrypted_at_rest_and_in_transit() {
    let document = document();
    let queues = resources_of(&document, "AWS::SQS::Queue");
    for (name, queue) in &queues {
        assert_eq!(queue["Properties"]["SqsManagedSseEnabled"], true, "{name}");
    }
    let policies = resources_of(&document, "AWS::SQS::QueuePolicy");
    let policy = &policies.values().next().unwrap()["Properties"];
    let covered: BTreeSet<_> = list(&policy["Queues"]).iter().map(|queue| queue["Ref"].as_str().unwrap().to_owned()).collect();
    assert!(queues.keys().eq(&covered), "{covered:?}");
    let statement = &policy["PolicyDocument"]["Statement"][0];
    assert_eq!(statement["Effect"], "Deny");
    assert_eq!(statement["Condition"], json!({ "Bool": { "aws:SecureTransport": "false" } }));
    let arns: BTreeSet<_> = list(&statement["Resource"]).iter().map(written).collect();
    assert_eq!(arns, queues.keys().map(|name| format!("{name}.Arn")).collect());
}
