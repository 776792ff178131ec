//! Every file in `events/` is what its function takes, and what they say of each other is true.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Change, Destination, FieldError, Spec, StageRules};
use punctual_core::id::{Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts};
use punctual_core::message::Message;
use punctual_core::reason::Reason;
use punctual_core::time::Timestamp;
use punctual_dispatch::Tick;
use punctual_flows::input::strict;
use punctual_inspect::ExplainInput;
use punctual_inspect::calendar::CalendarQuestion;
use punctual_operate::input::Action;
use punctual_schedule::check::{Checked, Known};
use punctual_schedule::input::{Action as Asked, Named, Reminder};
use punctual_schedule::when::Calendars;
use punctual_tests::demo;
use punctual_tests::stack::{FUNCTIONS, root, template};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A stage's safety margin.
const MARGIN: Duration = Duration::from_secs(10);
/// The field that no input has.
const SURPLUS: &str = "surplus_field";

/// A test event.
struct Event {
    function: String,
    /// `function.case`.
    name: String,
    raw: Box<RawValue>,
}

impl Event {
    fn value(&self) -> Value {
        serde_json::from_str(self.raw.get()).expect("JSON")
    }
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("JSON")
}

/// Long before every instant in the files.
fn now() -> Now {
    Now::exactly("2027-01-04T08:00:00Z".parse().expect("an instant"))
}

fn file_names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("events")).expect("the directory");
    let files = entries.map(|entry| entry.expect("an entry")).filter(|entry| entry.path().is_file());
    files.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
}

/// All test events, by name. Any file that is none, and is not known here, fails the test.
fn events() -> BTreeMap<String, Event> {
    let mut events = BTreeMap::new();
    for file in file_names() {
        if file == "README.md" || file == "demo.reminders.jsonl" || file.starts_with("producer.") {
            continue;
        }
        let parts: Vec<&str> = file.split('.').collect();
        let [function, case, "json"] = parts.as_slice() else { panic!("{file} is not named function.case.json") };
        assert!(FUNCTIONS.contains(function), "{file} names no function");
        let name = format!("{function}.{case}");
        let text = std::fs::read_to_string(root().join("events").join(&file)).expect("a file");
        let event = Event { function: (*function).to_owned(), name: name.clone(), raw: raw(text) };
        events.insert(name, event);
    }
    events
}

fn of_function(function: &str) -> Vec<Event> {
    events().into_values().filter(|event| event.function == function).collect()
}

/// What its function says of an input that it refuses: the first error. Nothing if it takes it.
fn refusal(function: &str, event: &RawValue) -> Option<FieldError> {
    match function {
        "inspect" if event.get().contains("\"canary\"") => punctual_inspect::canary::read(event).err(),
        "schedule" => match punctual_schedule::input::read(event) {
            Ok(Asked::Schedule(items) | Asked::Preview(items)) => items.into_iter().find_map(Result::err),
            Ok(Asked::Canary(_)) => None,
            Ok(Asked::Reschedule(items)) => items.into_iter().find_map(Result::err),
            Ok(Asked::Cancel { deliveries, .. } | Asked::Get(deliveries)) => deliveries.into_iter().find_map(Result::err),
            Err(errors) => Some(errors.into_iter().next().expect("an error")),
        },
        "operate" => punctual_operate::input::read(event).err().map(|errors| errors.into_iter().next().expect("an error")),
        "inspect" if event.get().contains("\"shadow_report\"") => {
            punctual_inspect::shadow::read(event).err().map(|errors| errors.into_iter().next().expect("an error"))
        }
        "inspect" if event.get().contains("\"capacity\"") => {
            punctual_inspect::capacity::read(event).err().map(|errors| errors.into_iter().next().expect("an error"))
        }
        "inspect" if event.get().contains("\"dead_letters\"") => punctual_inspect::letters::read(event).err(),
        "redrive" => match punctual_redrive::input::read(event) {
            Ok(punctual_redrive::input::Action::Start(order)) => order.problems(now().hi).into_iter().next(),
            Ok(_) => None,
            Err(errors) => errors.into_iter().next(),
        },
        "inspect" if event.get().contains("\"list\"") => punctual_inspect::list::read(event).err(),
        "inspect" if event.get().contains("\"operations\"") => punctual_inspect::operations::read(event).err(),
        "inspect" if event.get().contains("\"action\": \"calendar\"") || event.get().contains("\"action\":\"calendar\"") => {
            strict::<CalendarQuestion>(event, "").err()
        }
        "inspect" => punctual_flows::input::action(event, &["explain"])
            .and_then(|_| strict::<ExplainInput>(event, ""))
            .and_then(|input| {
                let given = [
                    input.delivery_id.is_some(),
                    input.reference.is_some(),
                    input.identity.is_some(),
                    input.message_id.is_some(),
                ];
                let one = given.iter().filter(|given| **given).count() == 1;
                if one { Ok(()) } else { Err(FieldError::new("one_of", "", "exactly one")) }
            })
            .err(),
        "dispatch" | "monitor" => strict::<Tick>(event, "").err(),
        // Written by SQS, whose fields grow: read as its own type, and what is ours in it strictly.
        "deliver" => {
            let event: SqsEvent = serde_json::from_str(event.get()).expect("an SQS event");
            assert!(!event.records.is_empty(), "no records");
            None
        }
        other => panic!("no rule for the events of {other}"),
    }
}

/// The destinations that the files register.
fn destinations() -> BTreeMap<DestinationId, Destination> {
    let change = || Change { at: now().lo, by: "events".into(), why: "events".into() };
    let spec = |event: Event| match punctual_operate::input::read(&event.raw).expect("an input") {
        Action::PutDestination(input) => input.spec,
        _ => None,
    };
    let registered = |spec: Spec| (spec.id.clone(), Destination { spec, version: 1, paused: None, changed: change() });
    of_function("operate").into_iter().filter_map(spec).map(registered).collect()
}

/// The calendars that the files register.
fn calendars() -> Calendars {
    let spec = |event: Event| match punctual_operate::input::read(&event.raw).expect("an input") {
        Action::PutCalendar(input) => Some((input.calendar_id, input.spec.expect("a calendar").check("calendar"))),
        _ => None,
    };
    let read = |checked: Result<_, Vec<FieldError>>| checked.map_err(|errors| panic!("{errors:?}"));
    of_function("operate")
        .into_iter()
        .filter_map(spec)
        .map(|(id, checked)| (id, read(checked).map(|calendar| (calendar, 1))))
        .collect()
}

fn check(reminders: Vec<Result<Reminder, FieldError>>, destinations: &BTreeMap<DestinationId, Destination>) -> Vec<Checked> {
    let by = &Correlation::new("events").expect("a correlation id");
    let calendars = &calendars();
    let known = Known { destinations, calendars, margin: MARGIN, now: now(), by };
    let check = |(i, reminder): (usize, Result<Reminder, FieldError>)| {
        let checked = reminder.expect("a reminder").check(i, &known).expect("a good reminder");
        assert!(!checked.is_blocked(), "{:?}", checked.due);
        checked
    };
    reminders.into_iter().enumerate().map(check).collect()
}

/// The reminders that an event schedules.
fn scheduled(event: &RawValue) -> Vec<Result<Reminder, FieldError>> {
    match punctual_schedule::input::read(event).expect("an input") {
        Asked::Schedule(reminders) => reminders,
        _ => Vec::new(),
    }
}

/// The rows that the files schedule, by id.
fn rows() -> BTreeMap<DeliveryId, Delivery> {
    let destinations = destinations();
    let mut rows = BTreeMap::new();
    for event in of_function("schedule").into_iter().filter(|event| event.name != "schedule.canary") {
        for checked in check(scheduled(&event.raw), &destinations) {
            let twice = rows.insert(checked.row.id.clone(), checked.row);
            assert!(twice.is_none(), "{}: a reminder is in two files", event.name);
        }
    }
    rows
}

/// The deliveries that an event names.
fn named(event: &Event) -> Vec<DeliveryId> {
    let id = |named: Named| named.delivery_id.or_else(|| Some(named.identity?.derive())).expect("a name");
    match punctual_schedule::input::read(&event.raw).expect("an input") {
        Asked::Schedule(_) | Asked::Preview(_) | Asked::Canary(_) => Vec::new(),
        Asked::Reschedule(items) => {
            let named = |one: punctual_schedule::input::Move| Named { delivery_id: one.delivery_id, identity: one.identity };
            items.into_iter().map(|one| id(named(one.expect("an item")))).collect()
        }
        Asked::Cancel { deliveries, .. } | Asked::Get(deliveries) => {
            deliveries.into_iter().map(|one| id(one.expect("an item"))).collect()
        }
    }
}

fn records(event: &Event) -> Vec<Result<Message, Reason>> {
    let event: SqsEvent = serde_json::from_str(event.raw.get()).expect("an SQS event");
    for record in &event.records {
        assert!(record.message_id.as_deref().is_some_and(|id| !id.is_empty()), "a record without an id");
        assert!(record.receipt_handle.is_some(), "a record without a receipt");
        assert_eq!(record.attributes.get("ApproximateReceiveCount").map(String::as_str), Some("1"));
        let first = record.attributes.get("ApproximateFirstReceiveTimestamp").map(|text| text.parse::<i64>());
        assert!(matches!(first, Some(Ok(_))), "{first:?}");
    }
    let body = |record: aws_lambda_events::event::sqs::SqsMessage| record.body.expect("a body");
    event.records.into_iter().map(|record| Message::parse(&body(record)).map_err(|error| error.reason())).collect()
}

#[test]
fn each_function_takes_its_events() {
    let events = events();
    for function in FUNCTIONS {
        assert!(events.values().any(|event| event.function == function), "{function} has no event");
    }
    for event in events.values() {
        assert_eq!(refusal(&event.function, &event.raw), None, "{}", event.name);
    }
}

#[test]
fn destinations_are_good_and_reminders_can_be_stored() {
    let rules = StageRules { allow_local: false, secret_prefix: "punctual/prod/".into() };
    let destinations = destinations();
    for destination in destinations.values() {
        assert_eq!(destination.spec.problems(&rules), [], "{}", destination.spec.id);
    }
    let rows = rows();
    let canary = punctual_schedule::canary::read(&events()["schedule.canary"].raw).expect("an input").destination_id;
    let used: BTreeSet<&DestinationId> = rows.values().map(|row| &row.destination).chain([&canary]).collect();
    assert_eq!(used, destinations.keys().collect(), "every destination has reminders");
    assert!(rows.values().all(|row| row.deliver_after > now().hi && row.deliver_by.to_string().starts_with("2027-")));
}

#[test]
fn events_name_what_other_events_make() {
    let (rows, destinations) = (rows(), destinations());
    let one = check(scheduled(&events()["schedule.one"].raw), &destinations);
    let one = &one[0].row.id;
    for event in of_function("operate") {
        match punctual_operate::input::read(&event.raw).expect("an input") {
            Action::PutDestination(_) | Action::PutCalendar(_) => {}
            Action::ImportHolidays(input) => assert_eq!(input.calendar_id.as_str(), "uk", "{}", event.name),
            Action::Pause(input) | Action::Resume(input) | Action::Promote(input) => {
                assert!(destinations.contains_key(&input.destination_id), "{}", event.name);
            }
            Action::Hold(input) | Action::Release(input) | Action::Cancel(input) | Action::ReleaseLease(input) => {
                assert_eq!(&input.delivery_id, one, "{}", event.name);
            }
            Action::Requeue(input) => assert_eq!(&input.delivery_id, one, "{}", event.name),
            Action::RetryMode(_) | Action::PauseDispatch(_) | Action::ResumeDispatch(_) => {}
        }
    }
    let mut actions = BTreeSet::new();
    for event in of_function("redrive") {
        actions.insert(event.value()["action"].as_str().expect("a text").to_owned());
        let selection = match punctual_redrive::input::read(&event.raw).expect("an input") {
            punctual_redrive::input::Action::Plan(input) => input.selection,
            punctual_redrive::input::Action::Start(order) => order.selection,
            _ => continue,
        };
        assert!(selection.destination_ids.iter().flatten().all(|id| destinations.contains_key(id)), "{}", event.name);
    }
    assert_eq!(actions, punctual_redrive::input::ACTIONS.map(str::to_owned).into(), "every action has an event");
    for event in of_function("schedule") {
        assert!(named(&event).iter().all(|id| rows.contains_key(id)), "{} names what no file schedules", event.name);
    }
    let capacity = punctual_inspect::capacity::read(&events()["inspect.capacity"].raw).expect("an input");
    assert!(destinations.contains_key(&capacity.destination_id.expect("one")));
    let explain = |name: &str| strict::<ExplainInput>(&events()[name].raw, "").expect("an input");
    assert_eq!(explain("inspect.explain-by-id").delivery_id.as_ref(), Some(one));
    let i = explain("inspect.explain-by-identity").identity.expect("an identity");
    let parts = IdentityParts {
        tenant: i.tenant,
        subscriber: i.subscriber,
        renewal_period: i.renewal_period,
        reminder_kind: i.reminder_kind,
    };
    assert_eq!(&DeliveryId::derive(&parts), one);
    let reference = explain("inspect.explain-by-reference").reference.expect("a reference");
    assert_eq!(rows.values().filter(|row| row.reference == reference).count(), 2);
}

#[test]
fn a_canary_is_asked_for_by_its_run() {
    let events = events();
    let sent = punctual_schedule::canary::read(&events["schedule.canary"].raw).expect("an input");
    let asked = punctual_inspect::canary::read(&events["inspect.canary"].raw).expect("an input");
    assert_eq!((sent.destination_id, sent.run), (asked.destination_id, Some(asked.run)));
}

#[test]
fn a_migrated_reminder_keeps_what_it_had() {
    let destinations = destinations();
    let migrated = check(scheduled(&events()["schedule.migrated"].raw), &destinations);
    assert!(migrated.iter().all(|checked| !checked.row.id.is_derived()));
    assert!(migrated.iter().all(|checked| checked.row.idempotency_key != IdempotencyKey::from(&checked.row.id)));
}

#[test]
fn messages_are_those_of_the_scheduled_rows() {
    let rows = rows();
    let is_published = |message: &Message| {
        assert_eq!(rows.get(&message.delivery_id).map(Message::of).as_ref(), Some(message));
    };
    for event in of_function("deliver").iter().filter(|event| event.name != "deliver.malformed") {
        records(event).iter().for_each(|record| is_published(record.as_ref().expect("a message")));
    }
    let malformed = records(&events()["deliver.malformed"]);
    let reasons: Vec<Option<Reason>> = malformed.iter().map(|record| record.as_ref().err().copied()).collect();
    let bad = [Reason::MalformedMessage, Reason::UnknownVersion, Reason::MalformedMessage].map(Some);
    assert_eq!(reasons, [bad.as_slice(), &[None]].concat());
    is_published(malformed[3].as_ref().expect("a good neighbour"));
}

#[test]
fn the_tick_has_the_words_of_the_schedule() {
    let template = template::read().expect("the template");
    let lines: Vec<&str> = template.lines().filter_map(|line| line.trim().strip_prefix("Input: '")).collect();
    assert_eq!(lines.len(), 2, "one for dispatch and one for monitor");
    for line in lines {
        let input: Value = serde_json::from_str(line.trim_end_matches('\'')).expect("JSON");
        let words = |value: &Value| -> Vec<String> { value["tick"].as_object().expect("an object").keys().cloned().collect() };
        for function in ["dispatch", "monitor"] {
            assert_eq!(words(&events()[&format!("{function}.tick")].value()), words(&input));
            assert_eq!(refusal(function, &raw(input.to_string())), None);
        }
    }
}

#[test]
fn the_whole_destination_has_every_field() {
    let event = events()["operate.put-destination"].value();
    let spec: Spec = serde_json::from_value(event["destination"].clone()).expect("a destination");
    assert_eq!(serde_json::to_value(&spec).expect("JSON"), event["destination"], "a field is left to its default");
    let minimal = events()["operate.put-destination-minimal"].value();
    let given: Vec<String> = minimal["destination"].as_object().expect("an object").keys().cloned().collect();
    for field in &given {
        let mut less = minimal.clone();
        less["destination"].as_object_mut().expect("an object").remove(field);
        let error = refusal("operate", &raw(less.to_string())).expect("refused");
        assert_eq!((error.code, error.field), ("missing_field", format!("destination.{field}")));
    }
}

/// Every object of an input, by its path; free content and the map of statuses are not the function's to judge.
fn objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(path.to_owned());
            for (name, field) in fields.iter().filter(|(name, _)| !["payload", "classes"].contains(&name.as_str())) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                objects(field, &path, found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                objects(item, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}

/// The object at such a path.
fn object<'v>(value: &'v mut Value, path: &str) -> &'v mut Map<String, Value> {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    let pointer = if pointer.is_empty() { pointer } else { format!("/{pointer}") };
    value.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("an object")
}

#[test]
fn an_unknown_field_is_refused_with_its_path() {
    let mut tried = 0;
    for function in ["dispatch", "monitor", "schedule", "operate", "inspect", "redrive"] {
        for event in of_function(function) {
            let mut paths = Vec::new();
            objects(&event.value(), "", &mut paths);
            for path in paths {
                let mut value = event.value();
                object(&mut value, &path).insert(SURPLUS.to_owned(), Value::from(1));
                let error = refusal(function, &raw(value.to_string()));
                let error = error.unwrap_or_else(|| panic!("{}: {path} takes any field", event.name));
                let whole = if path.is_empty() { SURPLUS.to_owned() } else { format!("{path}.{SURPLUS}") };
                assert_eq!((error.code, error.field), ("unknown_field", whole), "{}: {}", event.name, error.message);
                tried += 1;
            }
        }
    }
    assert!(tried > 20, "only {tried} objects");
}

#[test]
fn a_status_that_is_none_is_refused_with_its_path() {
    let mut value = events()["operate.put-destination"].value();
    object(&mut value, "destination.classes").insert(SURPLUS.to_owned(), Value::from("retry"));
    let error = refusal("operate", &raw(value.to_string())).expect("refused");
    assert!(error.field.starts_with("destination.classes"), "{error:?}");
}

#[test]
fn the_demo_has_reminders_for_each_of_its_destinations() {
    let start: Timestamp = now().lo;
    let reminders = demo::reminders(start).expect("the demo's input");
    assert!(reminders.len() >= 200, "only {} reminders", reminders.len());
    let known: BTreeSet<String> = demo::destinations().map(str::to_owned).collect();
    let used: BTreeSet<String> =
        reminders.iter().map(|reminder| reminder["destination_id"].as_str().expect("a text").to_owned()).collect();
    assert_eq!(used, known);

    let mut registered = BTreeMap::new();
    for id in known {
        let spec = serde_json::json!({"id": id, "url": "https://receiver.example/", "secrets": ["punctual/local/demo"]});
        let spec: Spec = serde_json::from_value(spec).expect("a destination");
        let changed = Change { at: start, by: "demo".into(), why: "demo".into() };
        registered.insert(spec.id.clone(), Destination { spec, version: 1, paused: None, changed });
    }
    let event = raw(serde_json::json!({"action": "schedule", "reminders": reminders}).to_string());
    let checked = check(scheduled(&event), &registered);
    let ids: BTreeSet<&DeliveryId> = checked.iter().map(|checked| &checked.row.id).collect();
    assert_eq!(ids.len(), reminders.len(), "two lines are one reminder");
}

/// Every key of an input, at every level.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            found.insert(name.clone());
            keys(field, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn the_readme_names_what_exists() {
    let readme = std::fs::read_to_string(root().join("events/README.md")).expect("the README");
    let files = file_names();
    for file in files.iter().filter(|file| *file != "README.md") {
        assert!(readme.contains(&format!("| `{file}` |")), "{file} is not in the table");
    }
    let mut known = BTreeSet::from(FUNCTIONS.map(str::to_owned));
    for event in events().values() {
        keys(&event.value(), &mut known);
        known.extend(event.value()["action"].as_str().map(str::to_owned));
    }
    known.extend(destinations().into_keys().map(|id| id.to_string()));
    known.extend(calendars().into_keys().map(|id| id.to_string()));
    // What is not in a file: the pattern of names, the reserved prefix, a secret's path, an error's code.
    let others = ["{function}.{case}.json", "schema/", "dlv_", "punctual/prod/…", "punctual/local/", "in_the_past"];
    let commands = ["make up", "make demo", "make send EVENT=…", "make schedule FILE=…"];
    for word in readme.split('`').skip(1).step_by(2) {
        let exists = known.contains(word)
            || files.contains(word)
            || others.contains(&word)
            || commands.contains(&word)
            || word.parse::<Reason>().is_ok_and(|reason| reason.to_string() == word);
        assert!(exists, "the README names {word}, which is nowhere");
    }
}
