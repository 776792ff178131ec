//! I am the world's only chance: a SplitMix64 that gives the same numbers for the same seed, for ever.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    /// The next number.
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scramble(self.0)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }

    /// A number from `from` to `to`, both included.
    pub(super) fn between(&mut self, from: u32, to: u32) -> u32 {
        let span = u64::from(to.saturating_sub(from)) + 1;
        from.saturating_add(u32::try_from(self.below(span)).unwrap_or(0))
    }

    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of these.
    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = usize::try_from(self.below(u64::try_from(from.len()).unwrap_or(0))).unwrap_or(0);
        from.get(at).cloned()
    }
}

fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number that depends on these parts only: what an actor draws does not change when another one is left out.
#[must_use]
pub(super) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x2545_F491_4F6C_DD1D, |acc, part| scramble(acc.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ part))
}
