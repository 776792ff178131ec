//! I am how many calls a delivery takes at each destination of late, made of counts that only grow.
//!
//! Deliver adds what its calls came to up in one row of each destination; I look at how far the counts have come between two
//! looks. The newest look counts most, half as much the one before, and so on. A memory that has seen nothing yet takes what
//! was counted so far for what is to be expected.

use std::collections::BTreeMap;

use crate::id::DestinationId;

/// What calls have come to, ever since somebody counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that ended, however.
    pub made: u64,
    /// Of these, so many will be followed by another call of the same delivery.
    pub repeated: u64,
}

impl Calls {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.made = self.made.saturating_add(other.made);
        self.repeated = self.repeated.saturating_add(other.repeated);
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A first look counts for no more calls than this, however many there were.
const FIRST_LOOK: u64 = 1_000;
/// So many calls that were not repeated are added to what was seen: a handful of calls says little.
const CALM: u128 = 10;
/// The most calls for a hundred deliveries.
pub const MOST_PERCENT: u128 = 2_000;

/// The memory; empty where nobody has looked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeats {
    told: BTreeMap<DestinationId, Calls>,
    lately: BTreeMap<DestinationId, Calls>,
}

impl Repeats {
    /// Takes a look: the counts as they are now. Those of destinations that are not in it any more are forgotten.
    pub fn look(&mut self, counts: &[(DestinationId, Calls)]) {
        let mut lately = std::mem::take(&mut self.lately);
        let told = std::mem::take(&mut self.told);
        for (id, now) in counts {
            let more = match told.get(id).filter(|then| then.made <= now.made && then.repeated <= now.repeated) {
                Some(then) => Calls { made: now.made - then.made, repeated: now.repeated - then.repeated },
                None => scaled(*now),
            };
            let mut seen = lately.remove(id).unwrap_or_default();
            if !more.is_empty() {
                seen = Calls { made: seen.made / 2, repeated: seen.repeated / 2 };
                seen.add(more);
            }
            self.lately.insert(id.clone(), seen);
            self.told.insert(id.clone(), *now);
        }
    }

    /// How many calls a hundred deliveries take at this destination; 100 to [`MOST_PERCENT`].
    #[must_use]
    pub fn percent(&self, id: &DestinationId) -> u32 {
        let Calls { made, repeated } = self.lately.get(id).copied().unwrap_or_default();
        let (calls, ends) = (u128::from(made) + CALM, u128::from(made.saturating_sub(repeated)) + CALM);
        let percent = (calls * 100 + ends / 2) / ends;
        u32::try_from(percent.clamp(100, MOST_PERCENT)).unwrap_or(100)
    }
}

/// No more than [`FIRST_LOOK`], in the same proportion.
fn scaled(calls: Calls) -> Calls {
    let made = calls.made.min(FIRST_LOOK);
    let share = u128::from(calls.repeated) * u128::from(made) / u128::from(calls.made.max(1));
    Calls { made, repeated: u64::try_from(share).unwrap_or(made).min(made) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(name: &str) -> DestinationId {
        DestinationId::new(name).expect("an id")
    }

    fn looked(looks: &[(u64, u64)]) -> u32 {
        let mut repeats = Repeats::default();
        looks.iter().for_each(|(made, repeated)| repeats.look(&[(id("acme"), Calls { made: *made, repeated: *repeated })]));
        repeats.percent(&id("acme"))
    }

    #[test]
    fn the_newest_look_counts_most() {
        assert_eq!(looked(&[]), 100);
        assert_eq!(looked(&[(6_000, 1_200)]), 125, "a fifth is repeated: what was counted so far");
        assert_eq!(looked(&[(6_000, 0), (12_000, 3_000)]), 185, "half of it is repeated of late");
        assert_eq!(looked(&[(6_000, 0), (12_000, 3_000), (18_000, 6_000), (24_000, 9_000)]), 197);
        assert_eq!(looked(&[(6_000, 3_000), (6_000, 3_000)]), 198, "nothing new says nothing");
        assert_eq!(looked(&[(6_000, 3_000), (100, 0)]), 169, "the counts began anew");
        assert_eq!(looked(&[(1, 1)]), 110, "one call says little");
        assert_eq!(looked(&[(1_000_000, 1_000_000)]), 2_000);
    }

    #[test]
    fn each_destination_has_its_own_and_a_lost_one_is_forgotten() {
        let mut repeats = Repeats::default();
        let half = Calls { made: 1_000, repeated: 500 };
        repeats.look(&[(id("a"), half), (id("b"), Calls { made: 1_000, repeated: 0 })]);
        assert_eq!((repeats.percent(&id("a")), repeats.percent(&id("b"))), (198, 100));
        repeats.look(&[(id("b"), Calls { made: 1_000, repeated: 0 })]);
        assert_eq!(repeats.percent(&id("a")), 100);
        assert_eq!(repeats.told.len(), 1);
    }

    proptest! {
        #[test]
        fn it_is_always_within_its_bounds(looks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..6)) {
            prop_assert!((100..=2_000).contains(&looked(&looks)));
        }
    }
}
