//! Alarms: metrics that are written, words that help, the same words in the runbook.

use std::collections::{BTreeMap, BTreeSet};

use punctual_adapters::telemetry::{DIMENSIONS, NAMESPACE, metric};
use punctual_tests::alarms::alarms;
use punctual_tests::stack::FUNCTIONS;
use serde_json::{Value, json};

use crate::reading::{document, list, observability, readme, reference, resource, resources_of, sub};

/// What each alarm is told by, for review; `deliver` and `dispatch` stand for two metrics of one name.
const ALARMS: [(&str, &[&str]); 23] = [
    ("BreakerOpenAlarm", &["monitor OpenBreakers"]),
    ("DeadLettersAlarm", &["monitor DeadRows", "monitor ExpiredRows"]),
    ("DeadReachableAlarm", &["monitor DeadReachable"]),
    ("DeliverStoppedAlarm", &["deliver DeliverHeartbeat", "monitor QueueVisible"]),
    ("DestinationPausedAlarm", &["monitor PausedByDeliver"]),
    ("DispatchHeartbeatAlarm", &["monitor DispatchHeartbeatAgeSeconds"]),
    ("ExpiredAlarm", &["deliver Expired", "dispatch Expired"]),
    ("FiguresTruncatedAlarm", &["monitor Truncated"]),
    (
        "FunctionErrorsAlarm",
        &[
            "punctual-${Stage}-deliver Errors",
            "punctual-${Stage}-deliver Throttles",
            "punctual-${Stage}-dispatch Errors",
            "punctual-${Stage}-dispatch Throttles",
            "punctual-${Stage}-monitor Errors",
            "punctual-${Stage}-redrive Errors",
            "punctual-${Stage}-schedule Errors",
            "punctual-${Stage}-schedule Throttles",
        ],
    ),
    ("HeldBackNearDeadlineAlarm", &["monitor HeldBackNearDeadline"]),
    ("LeasesEndedAlarm", &["deliver LeasesEnded", "dispatch LeasesEnded"]),
    ("LettersOwedAlarm", &["monitor LettersOwed"]),
    ("MessagesLostAlarm", &["dispatch MessagesOverdue", "monitor QueueVisibleLately"]),
    ("MonitorHeartbeatAlarm", &["monitor MonitorHeartbeat"]),
    ("NewBreakerAlarm", &["deliver BreakerOpened"]),
    ("NewDeathAlarm", &["deliver Dead", "dispatch Dead"]),
    ("NewPauseAlarm", &["deliver DestinationPaused"]),
    ("OldestOverdueAlarm", &["monitor OldestOverdueSeconds"]),
    ("OverbookedAlarm", &["monitor OverbookedWindows"]),
    ("ProjectedLateAlarm", &["monitor ProjectedLate"]),
    ("RedriveStoppedAlarm", &["redrive RedriveStopped"]),
    ("RetriesDisabledAlarm", &["monitor RetriesDisabled"]),
    ("SecretUnavailableAlarm", &["deliver SecretUnavailable"]),
];

/// The metrics that the code of a function writes.
pub(crate) fn written_by(function: &str) -> Vec<&'static str> {
    match function {
        "dispatch" => metric::OF_DISPATCH.to_vec(),
        "deliver" => [metric::OF_DELIVER, metric::SAMPLES_OF_DELIVER].concat(),
        "monitor" => metric::OF_MONITOR.to_vec(),
        "redrive" => metric::OF_REDRIVE.to_vec(),
        _ => Vec::new(),
    }
}

/// Operate counts on dispatch's account: what it writes there must be what dispatch writes.
#[test]
fn a_released_lease_is_counted_as_dispatch_counts_one() {
    let written = written_by(punctual_operate::metrics::COUNTED_AS);
    assert!(metric::OF_OPERATE.iter().all(|name| written.contains(name)), "{written:?}");
}

fn all() -> BTreeMap<String, Value> {
    resources_of(&observability(), "AWS::CloudWatch::Alarm")
        .into_iter()
        .map(|(name, alarm)| (name, alarm["Properties"].clone()))
        .collect()
}

/// The metrics that an alarm reads: its own, or those of its expression.
fn read_by(properties: &Value) -> Vec<Value> {
    match properties["Metrics"].as_array() {
        Some(metrics) => metrics.iter().map(|one| one["MetricStat"]["Metric"].clone()).filter(|one| !one.is_null()).collect(),
        None => vec![properties.clone()],
    }
}

/// Whose metric it is, and its name. It must be one that somebody writes.
fn checked(alarm: &str, metric: &Value) -> String {
    let (namespace, name) = (metric["Namespace"].as_str().unwrap(), metric["MetricName"].as_str().unwrap());
    let dimensions = list(&metric["Dimensions"]);
    let names: Vec<&str> = dimensions.iter().map(|one| one["Name"].as_str().unwrap()).collect();
    let owner = if namespace == NAMESPACE {
        assert_eq!(names, DIMENSIONS, "{alarm}");
        assert_eq!(dimensions[0]["Value"], reference("Stage"), "{alarm}");
        let function = dimensions[1]["Value"].as_str().unwrap();
        assert!(written_by(function).contains(&name), "{function} does not write {name}, which {alarm} reads");
        function.to_owned()
    } else {
        // AWS's own: the name must be one that the template gives.
        let owner = sub(&dimensions[0]["Value"]).to_owned();
        let document = document();
        match (namespace, names.as_slice()) {
            ("AWS/SQS", ["QueueName"]) => {
                let queues = resources_of(&document, "AWS::SQS::Queue");
                assert!(queues.values().any(|queue| sub(&queue["Properties"]["QueueName"]) == owner), "{alarm}: {owner}");
            }
            ("AWS/Lambda", ["FunctionName"]) => {
                assert!(FUNCTIONS.iter().any(|function| owner == format!("punctual-${{Stage}}-{function}")), "{alarm}: {owner}");
            }
            other => panic!("{alarm}: {other:?}"),
        }
        owner
    };
    format!("{owner} {name}")
}

#[test]
fn every_alarm_is_on_metrics_that_are_written_and_all_are_listed() {
    let told: BTreeMap<String, BTreeSet<String>> = all()
        .into_iter()
        .map(|(name, properties)| {
            let metrics = read_by(&properties).iter().map(|metric| checked(&name, metric)).collect();
            (name, metrics)
        })
        .collect();
    let expected = ALARMS.map(|(name, metrics)| (name.to_owned(), metrics.iter().map(|one| (*one).to_owned()).collect()));
    assert_eq!(told, expected.into());
}

#[test]
fn an_alarm_says_whose_it_is_what_it_means_what_to_look_at_what_to_do_and_who_may() {
    for (name, properties) in all() {
        let text = sub(&properties["AlarmDescription"]);
        let parts = parts(text).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(parts.iter().all(|part| part.len() > 15 && part.ends_with('.')), "{name}: {parts:?}");
        // With the longest owner.
        assert!(text.len() + 60 <= 1_024, "{name}: CloudWatch cuts at 1,024 characters");
        let topic = json!({ "Fn::If": ["HasAlarmTopic", [reference("AlarmTopicArn")], reference("AWS::NoValue")] });
        assert_eq!((&properties["AlarmActions"], &properties["OKActions"]), (&topic, &topic), "{name}");
    }
}

/// Meaning, evidence, first action, and who may.
fn parts(text: &str) -> Option<[&str; 4]> {
    let rest = text.strip_prefix("Owner: ${Owner}. Meaning: ")?;
    let (meaning, rest) = rest.split_once(" Evidence: ")?;
    let (evidence, rest) = rest.split_once(" First action: ")?;
    let (action, who) = rest.split_once(" Who may: ")?;
    Some([meaning, evidence, action, who])
}

#[test]
fn the_runbook_has_the_words_of_each_alarm_and_no_other_row() {
    let readme = readme();
    let runbook = readme.split_once("| alarm | meaning | evidence | first action | who may |").unwrap().1;
    let rows: Vec<&str> = runbook.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let alarms = all();
    assert_eq!(rows.len(), alarms.len());
    for (name, properties) in alarms {
        let [meaning, evidence, action, who] = parts(sub(&properties["AlarmDescription"])).unwrap();
        let (first, rest) = evidence.split_at(1);
        let row = format!("| `{name}` | {meaning} | {}{rest} | {action} | {who} |", first.to_uppercase());
        assert!(rows.contains(&row.as_str()), "infra/README.md has no row {row}");
    }
}

#[test]
fn the_readme_names_alarms_that_there_are() {
    let readme = std::fs::read_to_string(punctual_tests::stack::root().join("README.md")).unwrap();
    let named: BTreeSet<&str> = readme.split('`').filter(|word| word.ends_with("Alarm") && !word.contains(' ')).collect();
    assert!(named.len() >= 8, "{named:?}");
    let alarms = all();
    assert!(named.iter().all(|name| alarms.contains_key(*name)), "{named:?}");
}

#[test]
fn an_alarm_states_what_missing_data_means() {
    for (name, properties) in all() {
        let by_monitor = read_by(&properties).iter().all(|one| one["Dimensions"][1]["Value"] == "monitor");
        let expected = match name.as_str() {
            "MonitorHeartbeatAlarm" => "breaching",
            // A level that monitor writes: a stopped monitor turns nothing green.
            _ if by_monitor => "ignore",
            _ => "notBreaching",
        };
        assert_eq!(properties["TreatMissingData"], expected, "{name}");
        assert!(properties["DatapointsToAlarm"].is_u64() && properties["EvaluationPeriods"].is_u64(), "{name}");
    }
}

#[test]
fn an_alarm_on_an_expression_returns_one_value_and_lasts_at_most_a_day() {
    for (name, properties) in all() {
        let Some(metrics) = properties["Metrics"].as_array() else { continue };
        let returned: Vec<_> = metrics.iter().filter(|one| one["ReturnData"] == true).collect();
        assert_eq!(returned.len(), 1, "{name}");
        assert!(metrics.len() <= 11, "{name}: at most ten metrics");
        for one in metrics {
            let id = one["Id"].as_str().unwrap();
            assert!(id.starts_with(|c: char| c.is_ascii_lowercase()), "{name}: {id}");
        }
    }
    // As the evaluator reads them: every expression, period and reference.
    for (name, alarm) in alarms("dev").unwrap() {
        assert!(alarm.period.as_secs() * u64::try_from(alarm.evaluation_periods).unwrap() <= 86_400, "{name}");
        assert!(alarm.period.as_secs().is_multiple_of(60) && alarm.datapoints_to_alarm <= alarm.evaluation_periods, "{name}");
        for id in alarm.judged.inputs.keys() {
            assert!(format!("{:?}", alarm.judged.expression).contains(&format!("\"{id}\"")), "{name} does not use {id}");
        }
    }
}

/// One tick that is missed, or late by a whole tick, is no reason to page.
#[test]
fn the_ticks_are_the_stages() {
    let (observability, document) = (observability(), document());
    let of_stage: Vec<u64> =
        list(&document["Parameters"]["TickMinutes"]["AllowedValues"]).iter().map(|one| 60 * one.as_u64().unwrap()).collect();
    let watched: Vec<u64> =
        list(&observability["Parameters"]["TickSeconds"]["AllowedValues"]).iter().map(|one| one.as_u64().unwrap()).collect();
    assert_eq!(watched, of_stage);
    for tick in watched {
        let patience = observability["Mappings"]["AfterTicks"][tick.to_string()]["Patience"].as_str().unwrap();
        assert_eq!(patience, (2 * tick).to_string());
    }
    let threshold = &resource(&observability, "DispatchHeartbeatAlarm")["Properties"]["Threshold"];
    assert_eq!(*threshold, json!({ "Fn::FindInMap": ["AfterTicks", reference("TickSeconds"), "Patience"] }));
}

#[test]
fn the_stages_name_and_the_topic_have_the_same_bounds_in_both_files() {
    let (observability, document) = (observability(), document());
    for field in ["Type", "AllowedPattern", "ConstraintDescription"] {
        assert_eq!(observability["Parameters"]["Stage"][field], document["Parameters"]["Stage"][field], "{field}");
    }
    assert!(document["Parameters"].get("AlarmTopicArn").is_none(), "the stage itself pages nobody");
}
