//! I keep the README true: what it says of states, commands and files is read from the same source as the code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

#[path = "model/bounds.rs"]
#[expect(dead_code, unreachable_pub, reason = "shared with the model, which uses the rest")]
mod bounds;
#[path = "limits/bounds.rs"]
#[expect(unreachable_pub, reason = "shared with the models of limiter and breaker")]
mod limits;

use punctual_core::calendar::due::DueInput;
use punctual_core::calendar::{CalendarInput, ics};
use punctual_core::state::State;
use punctual_tests::stack::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_state_table_is_the_codes_own() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("<!-- states").expect("the table's begin");
    let (table, _) = rest.split_once("<!-- /states -->").expect("the table's end");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = State::ALL
        .into_iter()
        .map(|state| {
            let doc = state.doc();
            format!("| `{state}` | {} | {} | {} |", doc.evidence, doc.moved_by, doc.first_action)
        })
        .collect();
    assert_eq!(rows, expected);
}

/// A number with its thousands apart.
fn grouped(n: usize) -> String {
    match (n / 1_000_000, n / 1_000 % 1_000, n % 1_000) {
        (0, thousands, rest) => format!("{thousands},{rest:03}"),
        (millions, thousands, rest) => format!("{millions},{thousands:03},{rest:03}"),
    }
}

#[test]
fn the_models_bound_is_the_one_it_explores() {
    use bounds::{ASKED, MOVED, REDRIVEN_BY, Scope, TICKS, WRITES, ZOMBIES};
    let readme = read("README.md");
    let (_, rest) = readme.split_once("<!-- model").expect("the table's begin");
    let (table, _) = rest.split_once("<!-- /model -->").expect("the table's end");
    let values: Vec<&str> = table.lines().skip(3).filter_map(|line| line.split('|').nth(2)).map(str::trim).collect();
    let (reminder, redrive) = (Scope::Reminder.bounds(), Scope::Redrive.bounds());
    let expected = [
        format!("{TICKS}; {} and {}; {} and {}; {REDRIVEN_BY}", ASKED.0, ASKED.1, MOVED.0, MOVED.1),
        format!("{}; {} and {}", reminder.attempts, redrive.attempts, redrive.granted),
        format!("{WRITES}; {ZOMBIES}"),
        format!("{}; {}", grouped(reminder.states), reminder.depth),
        format!("{}; {}", grouped(redrive.states), redrive.depth),
    ];
    assert_eq!(values, expected);
}

#[test]
fn the_limits_models_bounds_are_those_they_explore() {
    use limits::{AGREEING, BATCHES, BOOKINGS, BREAKER, CONSUMERS, Found, PROBES, SKEWED};
    let readme = read("README.md");
    let (_, rest) = readme.split_once("<!-- limits").expect("the table's begin");
    let (table, _) = rest.split_once("<!-- /limits -->").expect("the table's end");
    let values: Vec<&str> = table.lines().skip(3).filter_map(|line| line.split('|').nth(2)).map(str::trim).collect();
    let found = |found: Found| format!("{}; {}", grouped(found.states), found.depth);
    let expected = [
        format!("{CONSUMERS}; {BOOKINGS}"),
        format!("{} and {}", found(AGREEING), found(SKEWED)),
        format!("{BATCHES}; {PROBES}"),
        found(BREAKER),
    ];
    assert_eq!(values, expected);
}

/// The rule and its steps, worked out in the calendar that the test events register.
#[test]
fn the_rule_that_is_shown_comes_to_what_is_shown() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("## Business calendars").expect("the section");
    let blocks: Vec<&str> = rest.split("```").skip(1).step_by(2).take(2).collect();
    let rule = blocks[0].strip_prefix("json\n\"rule\":").expect("a rule");
    let rule: DueInput = serde_json::from_str(rule).expect("a rule");
    let event =
        |name: &str| -> serde_json::Value { serde_json::from_str(&read(&format!("events/operate.{name}.json"))).unwrap() };
    let mut calendar: CalendarInput = serde_json::from_value(event("put-calendar")["calendar"].clone()).expect("a calendar");
    let import = ics::read(event("import-holidays")["ics"].as_str().expect("a text").as_bytes()).expect("a file");
    calendar.add_holidays(&import.holidays);
    let calendar = calendar.check("calendar").expect("a calendar");
    let window = rule.check("rule").expect("a rule").window(&calendar, None).expect("due");
    let steps: Vec<String> = window.steps.iter().map(ToString::to_string).collect();
    assert_eq!(blocks[1].trim().lines().collect::<Vec<_>>(), steps);
}

#[test]
fn every_link_leads_to_a_file() {
    for document in ["README.md", "infra/README.md"] {
        let text = read(document);
        let folder = root().join(document).parent().expect("a folder").to_path_buf();
        let links: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        for link in links.iter().filter(|link| !link.starts_with("http")) {
            let path = link.split('#').next().unwrap_or_default();
            assert!(path.is_empty() || folder.join(path).exists(), "{document} links to {link}");
        }
    }
}

#[test]
fn every_make_target_and_event_that_is_named_exists() {
    let makefile = read("Makefile");
    let readme = read("README.md");
    let targets: Vec<&str> = readme.split("`make ").skip(1).filter_map(|rest| rest.split(['`', ' ']).next()).collect();
    assert!(targets.contains(&"demo") && targets.contains(&"test"), "{targets:?}");
    for target in targets {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
    }
    let events: Vec<&str> = readme.split("events/").skip(1).filter_map(|rest| rest.split(['`', ')', ']']).next()).collect();
    for event in events.iter().filter(|event| event.ends_with(".json")) {
        assert!(root().join("events").join(event).exists(), "events/{event}");
    }
}

#[test]
fn main_files_only_wire() {
    for function in ["dispatch", "deliver", "schedule", "inspect", "operate", "redrive", "monitor"] {
        let lines = read(&format!("functions/{function}/src/main.rs")).lines().count();
        assert!(lines <= 60, "functions/{function}/src/main.rs has {lines} lines");
    }
}
