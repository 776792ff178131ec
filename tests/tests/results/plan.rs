//! I make up plans: a policy, switches, instants, and what the attempts meet.

use std::collections::BTreeMap;

use proptest::prelude::*;
use punctual_core::outcome::StatusClass;
use punctual_core::retry::RetryPolicy;
use punctual_tests::cases::FAILURES;
use punctual_tests::world::Wish;
use punctual_tests::world::script::{Meets, Plan};

/// The longest safety margin of a simulated stage.
const LONGEST_MARGIN_MS: i64 = 10_000;

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        6 => Just(Wish::None),
        3 => (0_u64..120).prop_map(Wish::Seconds),
        2 => (800_u64..5_000).prop_map(Wish::Seconds),
        1 => any::<u64>().prop_map(Wish::Seconds),
        1 => (0_u64..3_000).prop_map(Wish::Padded),
        1 => (0_usize..40).prop_map(Wish::Endless),
        1 => (-10_000_i64..5_000).prop_map(Wish::Imf),
        1 => (-10_000_i64..5_000).prop_map(Wish::Rfc850),
        1 => (-10_000_i64..5_000).prop_map(Wish::Asctime),
        1 => "[^0-9]{0,30}".prop_map(Wish::Nonsense),
        1 => prop::sample::select(vec!["-5", "+5", "5.5", "0x10", "1e3", "60 s", "60, 60", "Tue, 32 Dec 2026 09:05:00 GMT"])
            .prop_map(|text| Wish::Nonsense(text.to_owned())),
    ]
}

fn meets() -> impl Strategy<Value = Meets> {
    let answer = |status: BoxedStrategy<u16>| {
        let after_ms = prop_oneof![8 => Just(0), 2 => 0_u32..2_500, 1 => 0_u32..25_000];
        (status, wish(), after_ms).prop_map(|(status, wish, after_ms)| Meets::Answer { status, wish, after_ms })
    };
    prop_oneof![
        12 => answer(prop::sample::select(vec![408, 409, 425, 429, 404, 500, 502, 503, 504, 599]).boxed()),
        1 => answer((200_u16..300).boxed()),
        1 => answer(prop::sample::select(vec![400, 410, 422]).boxed()),
        1 => answer((100_u16..600).boxed()),
        6 => prop::sample::select(FAILURES.map(|(_, failure)| failure).to_vec()).prop_map(Meets::Fails),
        1 => Just(Meets::NoSecret),
    ]
}

fn policy() -> impl Strategy<Value = RetryPolicy> {
    let base_ms = prop_oneof![100_u64..2_000, 2_000_u64..120_000, 120_000_u64..3_600_000];
    (base_ms, 1_u64..40, 1_u32..=20).prop_map(|(base_ms, factor, attempts)| RetryPolicy {
        base_ms,
        cap_ms: (base_ms * factor).min(86_400_000),
        attempts,
    })
}

pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    let classes = prop_oneof![
        Just(BTreeMap::new()),
        Just(BTreeMap::from([(404, StatusClass::Retry), (409, StatusClass::Delivered), (503, StatusClass::Dead)])),
    ];
    let spare_ms = prop_oneof![2 => 0_i64..60_000, 3 => 60_000_i64..10_000_000, 3 => 10_000_000_i64..300_000_000];
    let due_ms = prop_oneof![-60_000_i64..0, 0_i64..5_000, 5_000_i64..2_000_000];
    let granted = prop_oneof![3 => Just(0_u32), 1 => 1_u32..4];
    let time = (any::<u64>(), 0_u16..1_990, due_ms, spare_ms, 2_000_u64..20_000);
    let switches = (prop::bool::weighted(0.25), prop::bool::weighted(0.1), granted, classes);
    let meets = prop_oneof![1 => prop::collection::vec(meets(), 1..4), 2 => prop::collection::vec(meets(), 4..20)];
    (time, policy(), switches, meets).prop_map(
        |((seed, width_ms, due_ms, spare_ms, total_timeout_ms), policy, (review, kill_switch, granted, classes), meets)| Plan {
            seed,
            width_ms,
            policy,
            total_timeout_ms,
            classes,
            review,
            kill_switch,
            granted,
            due_ms,
            window_ms: i64::try_from(total_timeout_ms).unwrap().max(LONGEST_MARGIN_MS) + 2_500 + spare_ms,
            meets,
        },
    )
}
