//! Randomness, behind one trait: the operating system in production, a seed in tests.

/// Draws random bytes. Production draws from the operating system.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}
