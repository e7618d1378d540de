//! Digests that prove two copies equal, and the fingerprints of voters.
//!
//! A digest is the number of rows and the sum, modulo 2^256, of a keyed hash of
//! each row. A sum does not depend on the order of the rows, and a change
//! subtracts the old row and adds the new one. Each slice has its own secret
//! key, which moves with it, so a client cannot choose voter names that
//! collide.

use std::fmt;
use std::hash::Hasher as _;

use ballast_domain::Entropy;
use ballast_domain::PollId;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::rows::{PollRow, RowVersion};

/// A slice's secret: the key of its fingerprints and digests.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceKey([u8; 32]);

/// A voter's fingerprint within a slice: 128 bits of a keyed hash of the name.
///
/// Two voters of a poll with the same fingerprint would count as one. Among a
/// hundred million voters the probability is about 10^-23, and no one can
/// search for such names without the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VoterPrint(pub [u64; 2]);

/// Half of the fingerprint is a good hash. Uses the second half, because data
/// sorted by fingerprint is grouped by the first.
impl std::hash::Hash for VoterPrint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[1]);
    }
}

/// The digest of a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Digest {
    /// Number of rows.
    pub rows: u64,
    /// Sum of their hashes, lowest limb first.
    pub sum: [u64; 4],
}

/// The digest of a slice: the number of its polls, and the sum over all rows.
///
/// Every row's hash includes the poll's id, so this sum proves as much as one
/// digest per poll: equal sums mean equal sets of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SliceDigest {
    /// Number of polls.
    pub polls: u64,
    /// All rows: one per poll, and the voters'.
    pub rows: Digest,
}

impl SliceDigest {
    /// Adds up the digests of a slice's polls.
    pub fn from_polls<'a>(polls: impl IntoIterator<Item = &'a Digest>) -> Self {
        let mut all = Self::default();
        for poll in polls {
            all.polls += 1;
            all.rows.merge(poll);
        }
        all
    }

    /// Number of voters' rows.
    pub fn votes(&self) -> u64 {
        self.rows.rows.saturating_sub(self.polls)
    }
}

impl SliceKey {
    /// A random key.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Computes a voter's fingerprint.
    pub fn voter_print(&self, voter: &str) -> VoterPrint {
        // SipHash uses the first half of the key. The digest uses the whole key
        // through BLAKE3, which does not reveal it.
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        let mut hasher = SipHasher24::new_with_key(&half);
        hasher.write(voter.as_bytes());
        let hash = hasher.finish128();
        VoterPrint([hash.h1, hash.h2])
    }

    /// Hashes a voter's row.
    pub fn hash_row(
        &self,
        poll: PollId,
        voter: VoterPrint,
        items: &[u16],
        version: RowVersion,
    ) -> RowHash {
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&poll.number().to_le_bytes());
        bytes[16..24].copy_from_slice(&voter.0[0].to_le_bytes());
        bytes[24..32].copy_from_slice(&voter.0[1].to_le_bytes());
        bytes[32..40].copy_from_slice(&version.epoch.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&version.revision.to_le_bytes());
        bytes[44..46].copy_from_slice(&(items.len() as u16).to_le_bytes());
        // A typical row fits into one block of the hash.
        if items.len() <= 9 {
            for (place, item) in items.iter().enumerate() {
                bytes[46 + 2 * place..48 + 2 * place].copy_from_slice(&item.to_le_bytes());
            }
            return RowHash::from_blake3(blake3::keyed_hash(&self.0, &bytes));
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&bytes);
        for item in items {
            hasher.update(&item.to_le_bytes());
        }
        RowHash::from_blake3(hasher.finalize())
    }

    /// Hashes a poll's own row. It hashes the JSON, so that future fields are
    /// covered.
    pub fn hash_poll(&self, row: &PollRow) -> RowHash {
        let json = serde_json::to_vec(row).unwrap_or_default();
        self.hash_bytes("poll", &json)
    }

    /// Hashes other data; `kind` separates the kinds.
    pub fn hash_bytes(&self, kind: &str, bytes: &[u8]) -> RowHash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(kind.as_bytes());
        hasher.update(&[0]);
        hasher.update(bytes);
        RowHash::from_blake3(hasher.finalize())
    }
}

/// The hash of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowHash([u64; 4]);

impl RowHash {
    fn from_blake3(hash: blake3::Hash) -> Self {
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            *limb = u64::from_le_bytes(eight);
        }
        Self(limbs)
    }
}

impl Digest {
    /// Adds a row.
    pub fn add(&mut self, row: RowHash) {
        self.add_limbs(row.0);
        self.rows = self.rows.wrapping_add(1);
    }

    /// Adds all rows of another digest.
    pub fn merge(&mut self, other: &Self) {
        self.add_limbs(other.sum);
        self.rows = self.rows.wrapping_add(other.rows);
    }

    fn add_limbs(&mut self, limbs: [u64; 4]) {
        let mut carry = false;
        for (limb, more) in self.sum.iter_mut().zip(limbs) {
            let (sum, first) = limb.overflowing_add(more);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, first || second);
        }
    }

    /// Removes all rows of another digest.
    pub fn subtract_all(&mut self, other: &Self) {
        self.subtract_limbs(other.sum);
        self.rows = self.rows.wrapping_sub(other.rows);
    }

    /// The sum as text.
    pub fn hex(&self) -> String {
        let [a, b, c, d] = self.sum;
        format!("{d:016x}{c:016x}{b:016x}{a:016x}")
    }

    /// Removes a row.
    pub fn subtract(&mut self, row: RowHash) {
        self.subtract_limbs(row.0);
        self.rows = self.rows.wrapping_sub(1);
    }

    fn subtract_limbs(&mut self, limbs: [u64; 4]) {
        let mut borrow = false;
        for (limb, less) in self.sum.iter_mut().zip(limbs) {
            let (rest, first) = limb.overflowing_sub(less);
            let (rest, second) = rest.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (rest, first || second);
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {}", self.rows, self.hex())
    }
}

/// Never prints the secret.
impl fmt::Debug for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SliceKey(…)")
    }
}

impl fmt::Debug for VoterPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::tenant::Epoch;
    use proptest::prelude::*;

    const KEY: SliceKey = SliceKey([7; 32]);

    fn row(voter: &str, items: &[u16], revision: u32) -> RowHash {
        let version = RowVersion {
            epoch: Epoch(1),
            revision,
        };
        KEY.hash_row(
            PollId::from_number(5),
            KEY.voter_print(voter),
            items,
            version,
        )
    }

    #[test]
    fn the_hashes_are_pinned() {
        // Shards of different versions compare these hashes.
        assert_eq!(
            format!("{:?}", KEY.voter_print("user-1")),
            "e9e1da45af17a2c3de963f1669d84c48"
        );
        let mut digest = Digest::default();
        digest.add(row("user-1", &[3], 1));
        digest.add(row("user-2", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 2));
        assert_eq!(
            format!("{digest:?}"),
            "2 rows, 9eedad775224091ce403995af75291ca1d6851ffb6865bf14cebe80d6c1304a5"
        );
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_taking_away_undoes(
            rows in prop::collection::vec((0u8..20, 0u16..12, 1u32..4), 1..40)
        ) {
            let hashes: Vec<_> = rows
                .iter()
                .map(|(voter, item, revision)| row(&voter.to_string(), &[*item], *revision))
                .collect();
            let (mut forward, mut backward) = (Digest::default(), Digest::default());
            hashes.iter().for_each(|hash| forward.add(*hash));
            hashes.iter().rev().for_each(|hash| backward.add(*hash));
            prop_assert_eq!(forward, backward);
            let mut twice = forward;
            twice.merge(&backward);
            twice.subtract_all(&forward);
            prop_assert_eq!(twice, backward);
            hashes.iter().for_each(|hash| forward.subtract(*hash));
            prop_assert_eq!(forward, Digest::default());
        }
    }

    #[test]
    fn a_row_of_one_poll_is_none_of_another() {
        let version = RowVersion {
            epoch: Epoch(1),
            revision: 1,
        };
        let vote = |poll, voter: &str| {
            KEY.hash_row(
                PollId::from_number(poll),
                KEY.voter_print(voter),
                &[1],
                version,
            )
        };
        let slice = |votes: [(u128, &str); 2]| {
            let mut polls = [Digest::default(); 2];
            for (poll, voter) in votes {
                polls[poll as usize].add(vote(poll, voter));
            }
            SliceDigest::from_polls(&polls)
        };
        let one = slice([(0, "a"), (1, "b")]);
        assert_eq!((one.polls, one.rows.rows, one.votes()), (2, 2, 0));
        // The same number of rows and the same voters, exchanged.
        assert_ne!(slice([(0, "b"), (1, "a")]), one);
        assert_eq!(slice([(1, "b"), (0, "a")]), one);
    }

    #[test]
    fn every_field_counts() {
        let base = row("a", &[1], 1);
        for other in [
            row("b", &[1], 1),
            row("a", &[2], 1),
            row("a", &[1], 2),
            row("a", &[1, 1], 1),
            row("a", &[], 1),
        ] {
            assert!(base != other);
        }
    }
}
